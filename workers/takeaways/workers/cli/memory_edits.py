"""`takeaways memory pin|unpin|add|edit|remove|rollback|export|import`."""

from __future__ import annotations

import getpass
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from takeaways.schemas.lessons import Lesson
from takeaways.workers.cli.context import open_for_reading, read_settings
from takeaways.workers.cli.help import command
from takeaways.workers.cli.memory import Agent, group
from takeaways.workers.cli.output import AsJson, console, plain, print_json

if TYPE_CHECKING:
    from takeaways.schemas.database import Database
    from takeaways.workers.memories.curating import By

__all__ = ["group"]

Lines = Annotated[
    list[str], typer.Argument(metavar="LINE…", help="Ids as `blame` shows them, or their beginnings.")
]
Why = Annotated[str, typer.Option("--why", help="Told in the history.")]
Author = Annotated[str | None, typer.Option("--author", help="Who says so; you by default.")]


@command(group)
def pin(agent: Agent, lines: Lines, why: Why = "", author: Author = None, as_json: AsJson = False) -> None:
    """Protect lines: no model changes them, and they stay when the memory has to become smaller.

    Example: `takeaways memory pin scout l:3f9c`
    """
    from takeaways.workers.memories import curating

    with _opened() as database:
        _done(agent, curating.pin(database, agent, lines, _by(author, why)), as_json)


@command(group)
def unpin(agent: Agent, lines: Lines, why: Why = "", author: Author = None, as_json: AsJson = False) -> None:
    """Let lines be as others again.

    Example: `takeaways memory unpin scout l:3f9c`
    """
    from takeaways.workers.memories import curating

    with _opened() as database:
        _done(agent, curating.pin(database, agent, lines, _by(author, why), pinned=False), as_json)


@command(group)
def edit(
    agent: Agent,
    line: Annotated[str, typer.Argument(help="A line's id as `blame` shows it, or its beginning.")],
    text: Annotated[str, typer.Argument(help="What it is to say.")],
    kind: Annotated[Lesson | None, typer.Option(help="What kind of lesson it is, if another.")] = None,
    why: Why = "",
    author: Author = None,
    as_json: AsJson = False,
) -> None:
    """Say something else in a line, and pin it. The next consolidation respects it.

    Example: `takeaways memory edit scout l:3f9c "Staging uses port 9444." --why "moved on Monday"`
    """
    from takeaways.workers.memories import curating

    with _opened() as database:
        _done(agent, curating.rewrite(database, agent, line, text, _by(author, why), kind=kind), as_json)


@command(group)
def add(
    agent: Agent,
    section: Annotated[str, typer.Argument(help="The title of a section, which is made if there is none.")],
    text: Annotated[str, typer.Argument(help="What the line is to say.")],
    kind: Annotated[Lesson, typer.Option(help="What kind of lesson it is.")] = Lesson.FACT,
    why: Why = "",
    author: Author = None,
    as_json: AsJson = False,
) -> None:
    """Write a line of your own, pinned.

    Example: `takeaways memory add scout Quotes "Quotes over $40k need sign-off." --kind rule`
    """
    from takeaways.workers.memories import curating

    with _opened() as database:
        _done(agent, curating.add(database, agent, section, text, _by(author, why), kind=kind), as_json)


@command(group)
def remove(agent: Agent, lines: Lines, why: Why = "", author: Author = None, as_json: AsJson = False) -> None:
    """Take lines out. History keeps them; to forget what somebody said, see `takeaways erase`.

    Example: `takeaways memory remove scout l:3f9c --why "never true"`
    """
    from takeaways.workers.memories import curating

    with _opened() as database:
        _done(agent, curating.remove(database, agent, lines, _by(author, why)), as_json)


@command(group)
def rollback(
    agent: Agent,
    revision: Annotated[
        int, typer.Argument(min=0, help="The revision to go back to; 0 is the empty memory.")
    ],
    relearn: Annotated[
        bool, typer.Option("--relearn", help="What was learned since waits for the next consolidation again.")
    ] = False,
    why: Why = "",
    author: Author = None,
    as_json: AsJson = False,
) -> None:
    """Make the memory what it was in a revision, as a new revision. Nothing of the history is lost.

    Examples: `takeaways memory rollback scout 12`, `takeaways memory rollback scout 12 --relearn`
    """
    from takeaways.workers.memories import curating

    with _opened() as database:
        _done(
            agent, curating.roll_back(database, agent, revision, _by(author, why), relearn=relearn), as_json
        )


@command(group)
def export(
    agent: Agent,
    file: Annotated[Path, typer.Argument(help="The archive to write.")],
    as_json: AsJson = False,
) -> None:
    """Write everything about an agent into one archive: its rows as JSON, its memory as Markdown.

    It holds what people said. Keep it as carefully as the database.

    Example: `takeaways memory export scout scout.zip`
    """
    from takeaways.workers.memories.archive import contents, export_agent

    with _opened() as database:
        counts = export_agent(database, agent, file)
    if as_json:
        print_json({"agent": agent, "file": str(file), "rows": counts})
    else:
        console().print(plain(f"{file}: {', '.join(contents(counts)) or 'nothing but the agent itself'}"))


@command(group, "import")
def import_(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="An archive that `export` wrote.")
    ],
    into: Annotated[str | None, typer.Option("--as", help="Another id for the agent.")] = None,
    as_json: AsJson = False,
) -> None:
    """Restore an agent from an archive, exactly. It must not exist here.

    Examples: `takeaways memory import scout.zip`, `takeaways memory import scout.zip --as scout-2`
    """
    from takeaways.workers.bootstrap import migrated_database
    from takeaways.workers.memories.archive import contents, import_agent

    database = migrated_database(read_settings())
    agent, counts = import_agent(database, file, agent_id=into)
    database.dispose()
    if as_json:
        print_json({"agent": agent, "rows": counts})
    else:
        console().print(plain(f"{agent}: {', '.join(contents(counts)) or 'nothing but the agent itself'}"))


@contextmanager
def _opened() -> Iterator[Database]:
    database = open_for_reading(read_settings())
    try:
        yield database
    finally:
        database.dispose()


def _by(author: str | None, why: str) -> By:
    from takeaways.workers.memories.curating import By

    try:
        return By(author or getpass.getuser(), why)
    except (KeyError, OSError):  # no user of that number, as in some containers
        return By("somebody", why)


def _done(agent: str, number: int, as_json: bool) -> None:
    if as_json:
        print_json({"agent": agent, "revision": number})
        return
    console().print(
        plain(f"{agent} has revision {number} now; `takeaways memory diff {agent}` shows what changed")
    )
