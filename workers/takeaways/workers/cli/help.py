"""Help texts from docstrings: paragraphs unwrapped, code set apart, each example on a line of its own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, TypeVar

import typer

Command = TypeVar("Command", bound=Callable[..., Any])
_CODE = re.compile(r"`([^`]+)`")


def help_of(function: Callable[..., Any]) -> str:
    """The docstring of a command as Typer shows it best, in rich's markup."""
    paragraphs = [" ".join(text.split()) for text in (inspect.getdoc(function) or "").split("\n\n")]
    return "\n\n".join(
        _examples(text) if text.startswith("Example") else _marked(text) for text in paragraphs
    )


def command(group: typer.Typer, name: str | None = None) -> Callable[[Command], Command]:
    """Add the decorated function to a group, with its docstring as help."""

    def add(function: Command) -> Command:
        group.command(name, help=help_of(function))(function)
        return function

    return add


def _examples(text: str) -> str:
    return "\n".join(
        ["[bold]Examples[/]", *(f"  $ [cyan]{_escaped(code)}[/]" for code in _CODE.findall(text))]
    )


def _marked(text: str) -> str:
    return _CODE.sub(r"[cyan]\1[/]", _escaped(text))


def _escaped(text: str) -> str:
    return text.replace("[", "\\[")
