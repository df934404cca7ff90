"""`takeaways memory show|history|diff`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeaways.workers.cli.context import open_for_reading, read_settings
from takeaways.workers.cli.help import command
from takeaways.workers.cli.output import AsJson, console, iso, moment, plain, print_json, print_text, table
from takeaways.workers.exits import Exit

if TYPE_CHECKING:
    from takeaways.recall import Revision

group = typer.Typer(no_args_is_help=True, help="Show an agent's memory, its history and what changed.")
Agent = Annotated[str, typer.Argument(help="The agent's id.")]


@command(group)
def show(
    agent: Agent,
    revision: Annotated[int | None, typer.Option(min=1, help="An earlier revision.")] = None,
    summary: Annotated[bool, typer.Option("--summary", help="The index that a note carries.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the memory as Markdown.

    Examples: `takeaways memory show scout`, `takeaways memory show scout --revision 3 --json`
    """
    from takeaways.recall import memory_md, summary_md

    found = _load(agent, revision)
    if as_json:
        print_json(
            {
                "agent": agent,
                "revision": found.number,
                "made": iso(found.made_at_ms),
                **found.memory.model_dump(mode="json"),
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
    """List the revisions, newest first.

    Example: `takeaways memory history scout`
    """
    from sqlalchemy import select

    from takeaways.schemas.tables import revisions

    database = open_for_reading(read_settings())
    wanted = (
        select(revisions)
        .where(revisions.c.agent_id == agent)
        .order_by(revisions.c.revision.desc())
        .limit(limit)
    )
    try:
        with database.read() as connection:
            found = [dict(row) for row in connection.execute(wanted).mappings()]
    finally:
        database.dispose()
    if not found:
        _nothing(agent)
    if as_json:
        print_json([_history_as_json(row) for row in found])
        return
    shown = table("revision", "made", "by", "sections", "job", right=("revision", "sections"))
    for row in found:
        shown.add_row(
            str(row["revision"]),
            moment(row["made_at_ms"]),
            plain(row["made_by"]),
            str(len(row["sections"])),
            row["job_id"] or "",
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


def _load(agent: str, revision: int | None, *, empty_is_fine: bool = False) -> Revision:
    from takeaways.recall import load_memory, snapshot

    database = open_for_reading(read_settings())
    try:
        with snapshot(database) as connection:
            found = load_memory(connection, agent, revision)
    finally:
        database.dispose()
    if not found.number and not empty_is_fine:
        _nothing(agent)
    return found


def _nothing(agent: str) -> None:
    console(stderr=True).print(plain(f"takeaways: {agent} has no memory yet; see `takeaways status {agent}`"))
    raise typer.Exit(Exit.NOTHING_FOUND)


def _history_as_json(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "revision": row["revision"],
        "made": iso(row["made_at_ms"]),
        "made_by": row["made_by"],
        "job_id": row["job_id"],
        "sections": len(row["sections"]),
        "account": row["account"],
    }


def _colour(line: str) -> str:
    if line.startswith(("---", "+++", "@@")):
        return "cyan"
    return {"+": "green", "-": "red"}.get(line[:1], "")
