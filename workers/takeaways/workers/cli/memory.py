"""`takeaways memory show|history|diff|blame`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeaways.workers.cli.context import open_for_reading, read_settings, require_known
from takeaways.workers.cli.help import command
from takeaways.workers.cli.output import AsJson, console, iso, moment, plain, print_json, print_text, table
from takeaways.workers.exits import Exit

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from takeaways.recall import Revision
    from takeaways.workers.memories.history import Blamed, Changed, Made

group = typer.Typer(
    no_args_is_help=True, help="An agent's memory: show it, ask why, edit, pin, undo, take it elsewhere."
)
Agent = Annotated[str, typer.Argument(help="The agent's id.")]


@command(group)
def show(
    agent: Agent,
    revision: Annotated[int | None, typer.Option(min=1, help="An earlier revision.")] = None,
    at: Annotated[
        datetime | None,
        typer.Option(help="What was believed then, in UTC.", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M"]),
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="The index that a note carries.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the memory as Markdown: the current one, an earlier revision, or what was believed at a time.

    Examples: `takeaways memory show scout`, `takeaways memory show scout --at 2026-03-31`
    """
    from takeaways.recall import memory_md, summary_md
    from takeaways.workers.secrets import mask_answer

    found = _load(agent, revision, at=at)
    if as_json:
        print_json(
            {
                "agent": agent,
                "revision": found.number,
                "made": iso(found.made_at_ms),
                **mask_answer(found.memory).model_dump(mode="json"),
            }
        )
    else:
        print_text(summary_md(found.memory) if summary else memory_md(found.memory))


@command(group)
def history(
    agent: Agent,
    limit: Annotated[int, typer.Option(min=1, help="How many revisions, newest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the revisions, newest first, each with what it did, and by which job, model and prompt.

    Example: `takeaways memory history scout`
    """
    from takeaways.workers.memories.history import made

    database = open_for_reading(read_settings())
    try:
        with database.read() as connection:
            found = made(connection, agent, limit=limit)
            if not found:
                _nothing(connection, agent)
    finally:
        database.dispose()
    if as_json:
        print_json([_history_as_json(one) for one in found])
        return
    shown = table("revision", "made", "by", "did", "model", "prompt", "job", right=("revision",))
    for one in found:
        by = f"{one.made_by} ({one.author})" if one.author else one.made_by
        shown.add_row(
            str(one.number),
            moment(one.made_at_ms),
            plain(by),
            plain(_did(one)),
            plain(one.model),
            plain(one.prompt_version),
            one.job_id or "",
        )
    console().print(shown)


@command(group)
def diff(
    agent: Agent,
    older: Annotated[
        int | None, typer.Argument(min=0, help="Compared with; the one before by default.")
    ] = None,
    newer: Annotated[int | None, typer.Argument(min=1, help="The newest by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a revision changed, line by line.

    Examples: `takeaways memory diff scout`, `takeaways memory diff scout 3 5`
    """
    from difflib import unified_diff

    from takeaways.recall import memory_md

    after = _load(agent, newer)
    before = _load(agent, after.number - 1 if older is None else older, empty_is_fine=True)
    lines = list(
        unified_diff(
            memory_md(before.memory).splitlines() if before.number else [],
            memory_md(after.memory).splitlines(),
            f"revision {before.number}",
            f"revision {after.number}",
            lineterm="",
        )
    )
    if as_json:
        print_json({"agent": agent, "from": before.number, "to": after.number, "diff": lines})
        return
    out = console()
    for line in lines:
        out.print(plain(line), style=_colour(line))
    if not lines:
        out.print(
            f"Revisions {before.number} and {after.number} say the same; `history` tells what was done."
        )


@command(group)
def blame(
    agent: Agent,
    line: Annotated[
        str | None, typer.Argument(help="The beginning of a line's id; all lines by default.")
    ] = None,
    revision: Annotated[int | None, typer.Option(min=1, help="An earlier revision.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show for each line who said so: candidates, rooms, messages, times and quotes.

    Of one line it also tells what it said before, until when, and what took its place.

    Examples: `takeaways memory blame scout`, `takeaways memory blame scout l:3f9c`
    """
    from takeaways.workers.memories import history as past

    database = open_for_reading(read_settings())
    try:
        with database.read() as connection:
            if not past.current_number(connection, agent):
                _nothing(connection, agent)
            found = past.blame(connection, agent, revision)
            if line is not None:
                named = line.removeprefix("l:")
                found = [one for one in found if one.line.id.removeprefix("l:").startswith(named)]
            ids = [one.line.id for one in found] if line is not None else []
            changes = [change for id_ in ids for change in past.changes_of(connection, agent, id_)]
    finally:
        database.dispose()
    if not found:
        console(stderr=True).print(plain(f"takeaways: no line of {agent} has an id that begins with {line}"))
        raise typer.Exit(Exit.NOTHING_FOUND)
    if as_json:
        print_json([_blamed_as_json(one, changes) for one in found])
        return
    _print_blame(found, changes)


@command(group)
def changes(agent: Agent, as_json: AsJson = False) -> None:
    """List what is no longer believed, oldest first: until when, what took its place, and why.

    Example: `takeaways memory changes scout`
    """
    from takeaways.workers.memories import history as past

    database = open_for_reading(read_settings())
    try:
        with database.read() as connection:
            if not past.current_number(connection, agent):
                _nothing(connection, agent)
            found = past.changes_of(connection, agent)
    finally:
        database.dispose()
    if as_json:
        print_json([_changed_as_json(one) for one in found])
        return
    if not found:
        console().print("Nothing was ever taken back.")
    for one in found:
        console().print(plain(_changed(one)))


def _load(
    agent: str, revision: int | None, *, at: datetime | None = None, empty_is_fine: bool = False
) -> Revision:
    from takeaways.recall import snapshot
    from takeaways.workers.memories import history as past

    database = open_for_reading(read_settings())
    try:
        with snapshot(database) as connection:
            if at is not None:
                # A day means its end: what was believed on it.
                until = at.replace(hour=23, minute=59, second=59) if at.time() == at.time().min else at
                revision = past.revision_at(
                    connection, agent, round(until.replace(tzinfo=UTC).timestamp() * 1000)
                )
            found = past.load_revision(connection, agent, revision)
            if not found.number and not empty_is_fine:
                _nothing(connection, agent)
    finally:
        database.dispose()
    return found


def _nothing(connection: Connection, agent: str) -> None:
    require_known(connection, agent)
    console(stderr=True).print(plain(f"takeaways: {agent} has no memory yet; see `takeaways status {agent}`"))
    raise typer.Exit(Exit.NOTHING_FOUND)


def _did(one: Made) -> str:
    """The account in words."""
    from collections import Counter

    from takeaways.workers.consolidation.account import Account

    account = Account.from_json(one.account)
    fates = Counter(settled.fate.value for settled in account.settled)
    hows = Counter(retired.how.value for retired in account.retired)
    words = [f"{number} {fate}" for fate, number in sorted(fates.items())]
    words += [f"{number} {how.replace('_', ' ')}" for how, number in sorted(hows.items())]
    if not words:
        words = [f"{len(account.changes)} sections changed"]
    return ", ".join([*words, one.why] if one.why else words)


def _history_as_json(one: Made) -> dict[str, Any]:
    return {
        "revision": one.number,
        "made": iso(one.made_at_ms),
        "made_by": one.made_by,
        "author": one.author,
        "why": one.why,
        "job_id": one.job_id,
        "model": one.model,
        "prompt_version": one.prompt_version,
        "thinned_out": not one.is_whole,
        "account": one.account,
    }


def _print_blame(found: list[Blamed], changes: list[Changed]) -> None:
    out = console()
    section = None
    for one in found:
        if one.section != section:
            section = one.section
            out.print(plain(f"## {section}"), style="bold")
        marks = f"{one.line.kind}{', pinned' if one.line.pinned else ''}"
        out.print(plain(f"- {one.line.text}"))
        out.print(plain(f"    {one.line.id}  {marks}  since revision {one.since_revision}"), style="dim")
        for witness in one.witnesses:
            where = f"{witness.room_title or witness.room_id}, message {witness.message_id}"
            who = f" by {witness.author}" if witness.author else ""
            out.print(plain(f"    {moment(witness.said_at_ms)}{who} in {where}: “{witness.quote}”"))
        if not one.witnesses:
            out.print(plain("    written by hand"))
    for change in changes:
        out.print(plain(_changed(change)))


def _changed(one: Changed) -> str:
    until = f"until revision {one.number} ({moment(one.made_at_ms)})"
    why = f": {one.retired.reason}" if one.retired.reason else ""
    now = f" Now: “{one.now}” ({one.retired.by})" if one.now else ""
    how = one.retired.how.value.replace("_", " ")
    return f"“{one.retired.line.text}” {until}, then {how}{why}.{now}"


def _changed_as_json(one: Changed) -> dict[str, Any]:
    return {
        "until_revision": one.number,
        "made": iso(one.made_at_ms),
        "now": one.now,
        **one.retired.model_dump(mode="json"),
    }


def _blamed_as_json(one: Blamed, changes: list[Changed]) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "section": one.section,
        **one.line.model_dump(mode="json"),
        "since_revision": one.since_revision,
        "witnesses": [
            {
                **{name: value for name, value in asdict(witness).items() if name != "said_at_ms"},
                "said": iso(witness.said_at_ms),
            }
            for witness in one.witnesses
        ],
        "before": [
            _changed_as_json(change)
            for change in changes
            if one.line.id in (change.retired.line.id, change.retired.by)
        ],
    }


def _colour(line: str) -> str:
    if line.startswith(("---", "+++", "@@")):
        return "cyan"
    return {"+": "green", "-": "red"}.get(line[:1], "")
