"""What commands print: text for people, or one JSON document with `--json`. Colours only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH = 120
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def console(*, stderr: bool = False) -> Console:
    """Progress goes to stderr, so that stdout can be piped."""
    from rich.console import Console

    width = None if _is_terminal(stderr) or "COLUMNS" in os.environ else PIPED_WIDTH
    return Console(stderr=stderr, highlight=False, width=width)


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2, default=str)
    sys.stdout.write("\n")
    sys.stdout.flush()  # whoever reads the pipe of a command that stays would else see it when it ends


def print_text(text: str) -> None:
    """Text as it is stored, with nothing in it taken for markup."""
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return made


def moment(ms: int | None) -> str:
    """An instant for people, in the terminal's time zone."""
    return "" if ms is None else datetime.fromtimestamp(ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def iso(ms: int | None) -> str | None:
    """An instant for programs."""
    return None if ms is None else datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def plain(text: str | None) -> Any:
    """Text of others in a table: rich must not read `[...]` in it as markup."""
    from rich.text import Text

    return Text(text or "")


def _is_terminal(stderr: bool) -> bool:
    return (sys.stderr if stderr else sys.stdout).isatty()
