"""`takeaways config check`."""

from __future__ import annotations

import os
from dataclasses import asdict

import typer

from takeaways.workers.cli.help import command
from takeaways.workers.cli.output import AsJson, console, plain, print_json, table
from takeaways.workers.exits import Exit

group = typer.Typer(no_args_is_help=True, help="Settings: what holds, and from where.")


@command(group, "check")
def check(as_json: AsJson = False) -> None:
    """Say what is set, where it comes from, and what is wrong.

    Connects to nothing: `takeaways doctor` does that. Passwords are never shown. Exit code 4 when workers
    could not start with these settings. Variables that begin with TAKEAWAYS_ and that nothing reads are named.

    Examples: `takeaways config check`, `TAKEAWAYS_CONCURRENCY=many takeaways config check`
    """
    from takeaways.workers.settings.check import Source
    from takeaways.workers.settings.check import check as checked

    found = checked(os.environ)
    if as_json:
        print_json({"works": found.works, **asdict(found)})
        raise typer.Exit(Exit.DONE if found.works else Exit.MISCONFIGURED)
    out = console()
    shown = table("variable", "value", "from")
    for setting in found.settings:
        style = "red" if setting.problem else None if setting.source is not Source.DEFAULT else "dim"
        shown.add_row(setting.variable, plain(setting.shown or "–"), setting.source.value, style=style)
    out.print(shown)
    wrong = [*(f"{one.variable}: {one.problem}" for one in found.settings if one.problem), *found.problems]
    for problem in wrong:
        out.print(plain(f"wrong: {problem}"), style="red")
    for name in found.unknown:
        out.print(plain(f"unknown: {name}"), style="yellow")
    if not wrong and not found.unknown:
        out.print("Nothing is wrong with these. `takeaways doctor` looks at the servers behind them.")
    raise typer.Exit(Exit.MISCONFIGURED if wrong else Exit.DONE)
