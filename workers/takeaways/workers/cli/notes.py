"""`takeaways notes`: standing notes, for the people who look after them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from takeaways.workers.cli.context import open_for_reading, read_settings
from takeaways.workers.cli.help import command
from takeaways.workers.cli.output import AsJson, console, iso, moment, plain, print_json, print_text, table
from takeaways.workers.exits import Exit

if TYPE_CHECKING:
    from takeaways.recall.standing import StandingNotes, Target

group = typer.Typer(
    no_args_is_help=True, help="Look after standing notes: what agents keep in every prompt, and about whom."
)
Owner = Annotated[str, typer.Argument(help="The agent's id; with --user the person's.")]
User = Annotated[bool, typer.Option("--user", help="The note about a person.")]
Version = Annotated[int, typer.Argument(min=0, help="A version, as `history` lists them.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@command(group)
def show(owner: Owner, user: User = False, as_json: AsJson = False) -> None:
    """Show a note, and how full it is. Entries that no prompt shows are marked.

    Examples: `takeaways notes show scout`, `takeaways notes show dana --user`
    """
    with _opened() as notes:
        view = notes.view(_target(user), owner)
    if as_json:
        print_json(
            {
                "target": view.target,
                "owner": owner,
                "version": view.version,
                "usage": view.usage,
                "over_by": view.over_by,
                "entries": view.entries,
                "shown": view.shown,
            }
        )
        return
    if not view.entries:
        typer.echo(f"takeaways: the {view.target} note of {owner} is empty", err=True)
        raise typer.Exit(Exit.NOTHING_FOUND)
    over = f", {view.over_by} over the cap" if view.over_by else ""
    console(stderr=True).print(plain(f"version {view.version}, {view.usage} characters{over}"))
    for entry, shown in zip(view.entries, view.shown, strict=True):
        print_text(f"- {entry}" + (f"   {shown}" if shown != entry else ""))


@command(group)
def history(owner: Owner, user: User = False, as_json: AsJson = False) -> None:
    """List the versions of a note, newest first.

    Example: `takeaways notes history scout`
    """
    with _opened() as notes:
        found = notes.history(_target(user), owner)
    if as_json:
        print_json(
            [
                {
                    "version": one.version,
                    "made": iso(one.made_at_ms),
                    "made_by": one.made_by,
                    "agent": one.agent_id,
                    "call": one.call_id,
                    "entries": one.entries,
                }
                for one in found
            ]
        )
        return
    shown = table("version", "made", "by", "entries", "newest entry", right=("version", "entries"))
    for one in found:
        entries = one.entries
        shown.add_row(
            str(one.version),
            moment(one.made_at_ms),
            plain(one.made_by),
            "" if entries is None else str(len(entries)),
            plain("(redacted)" if entries is None else entries[-1] if entries else ""),
        )
    console().print(shown)


@command(group)
def undo(owner: Owner, version: Version, user: User = False, as_json: AsJson = False) -> None:
    """Make a note again what it was in a version, as a new version.

    Example: `takeaways notes undo scout 3`
    """
    with _opened() as notes:
        view = notes.undo(_target(user), owner, version)
    if as_json:
        print_json({"target": view.target, "owner": owner, "version": view.version, "usage": view.usage})
        return
    console(stderr=True).print(plain(f"version {view.version}, {view.usage} characters"))


@command(group)
def export(owner: Owner, user: User = False, as_json: AsJson = False) -> None:
    """Print a note as text, one line an entry; as JSON, a list of the entries.

    Example: `takeaways notes export scout`
    """
    with _opened() as notes:
        if as_json:
            print_json(notes.view(_target(user), owner).entries)
        else:
            sys.stdout.write(notes.export(_target(user), owner))


@command(group, "import")
def import_(
    owner: Owner,
    file: Annotated[
        Path, typer.Argument(help="A text in UTF-8, one line an entry.", exists=True, dir_okay=False)
    ],
    user: User = False,
    force: Annotated[bool, typer.Option("--force", help="Also over the cap.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put the lines of a file in place of a note.

    Example: `takeaways notes import scout notes.md`
    """
    with _opened() as notes:
        done = notes.import_(_target(user), owner, file.read_bytes(), force=force)
    if as_json:
        left_out = [{"line": one.line, "code": one.code} for one in done.left_out]
        print_json({"entries": len(done.entries), "duplicates": done.duplicates, "left_out": left_out})
        return
    console(stderr=True).print(plain(f"{len(done.entries)} entries, {done.duplicates} duplicates left out"))
    for one in done.left_out:
        console(stderr=True).print(plain(f"line {one.line} left out: {one.code}"))


@command(group)
def redact(owner: Owner, version: Version, user: User = False, as_json: AsJson = False) -> None:
    """Forget the text of an old version. Remove it from the note first.

    Example: `takeaways notes redact scout 3`
    """
    with _opened() as notes:
        notes.redact(_target(user), owner, version)
    if as_json:
        print_json({"target": _target(user), "owner": owner, "redacted": version})
    else:
        console(stderr=True).print(plain(f"version {version} holds no text any more"))


@command(group)
def erase(owner: Owner, user: User = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Forget a note with its history, and what conversations show of it.

    Example: `takeaways notes erase dana --user --yes`
    """
    if not yes:
        typer.confirm(f"Forget the {_target(user)} note of {owner} for good?", abort=True, err=True)
    with _opened() as notes:
        notes.erase(_target(user), owner)
    if as_json:
        print_json({"target": _target(user), "owner": owner, "erased": True})
    else:
        console(stderr=True).print(plain(f"Forgotten: the {_target(user)} note of {owner}."))


def _target(user: bool) -> Target:
    from takeaways.recall.standing import Target

    return Target.USER if user else Target.MEMORY


@contextmanager
def _opened() -> Iterator[StandingNotes]:
    from takeaways.recall.standing import StandingNotes

    settings = read_settings()
    database = open_for_reading(settings)
    try:
        yield StandingNotes(
            database,
            memory=True,
            user=True,
            memory_chars=settings.notes_memory_chars,
            user_chars=settings.notes_user_chars,
        )
    finally:
        database.dispose()
