"""Command lines of ours that stand in pages, manifests and other files: are they understood?"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def root_command() -> Any:
    """The tree of commands as click sees it. Making it takes a quarter of a second."""
    from typer.main import get_command

    from takeaways.workers.cli.commands import application

    return get_command(application)


def understood(words: list[str], command: Any = None, parent: Any = None) -> None:
    """Parse a command line without running it. Raises what click raises for one that it does not know."""
    command = command or root_command()
    context = command.make_context(command.name, list(words), parent=parent)
    if hasattr(command, "resolve_command"):
        _, sub_command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        understood(rest, sub_command, context)
