"""`takeaways jobs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeaways.workers.cli.amounts import count, dollars
from takeaways.workers.cli.context import open_for_reading, read_settings, require_known
from takeaways.workers.cli.output import AsJson, console, iso, moment, plain, print_json, table
from takeaways.workers.exits import Exit

if TYPE_CHECKING:
    from rich.table import Table

_COLOURS = {
    "remembered": "green",
    "nothing_to_remember": "green",
    "failed": "red",
    "quarantined": "red",
    "refused": "yellow",
    "too_long": "yellow",
    "unreadable_answer": "yellow",
    "refused_edits": "yellow",
}


def jobs(
    agent: Annotated[str | None, typer.Argument(help="Only this agent's.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the jobs, newest first, each with the name of its ending.

    Examples: `takeaways jobs`, `takeaways jobs scout --limit 100 --json`
    """
    from takeaways.workers.cli.overview import recent_jobs

    database = open_for_reading(read_settings())
    try:
        with database.read() as connection:
            found = recent_jobs(connection, agent, limit=limit)
            if agent is not None and not found:
                require_known(connection, agent)
    finally:
        database.dispose()
    if as_json:
        print_json([job_as_json(job) for job in found])
    elif found:
        console().print(jobs_table(found))
    if not found:
        console(stderr=True).print("No jobs yet.")
        raise typer.Exit(Exit.NOTHING_FOUND)


def jobs_table(found: Sequence[Mapping[str, Any]], *, with_agent: bool = True) -> Table:
    columns = ("started", *(("agent",) if with_agent else ()), "job", "because", "ending", "took", "did")
    shown = table(*columns, right=("took",))
    for job in found:
        outcome = job["outcome"] or "running"
        colour = _COLOURS.get(outcome, "cyan")
        shown.add_row(
            moment(job["started_ms"]),
            *((plain(job["agent_id"]),) if with_agent else ()),
            job["kind"],
            job["reason"],
            f"[{colour}]{outcome}[/]",
            took(job["started_ms"], job["ended_ms"]),
            plain(did(job)),
        )
    return shown


def took(started_ms: int, ended_ms: int | None) -> str:
    return "" if ended_ms is None else f"{(ended_ms - started_ms) / 1000:.2f} s"


def did(job: Mapping[str, Any]) -> str:
    """What a job read and made, in words."""
    parts = []
    if job["messages_read"]:
        parts.append(f"{count(job['messages_read'], 'message')} read")
    if job["candidates_made"]:
        parts.append(count(job["candidates_made"], "candidate"))
    if job["candidates_settled"]:
        parts.append(f"{count(job['candidates_settled'], 'candidate')} settled")
    if job["revision"]:
        parts.append(f"revision {job['revision']}")
    if job["calls"]:
        tokens = f"{job['input_tokens']:,} tokens in, {job['output_tokens']:,} out"
        cost = job["cost_microdollars"]
        parts.append(f"{tokens}, {dollars(cost)}" if cost else tokens)
    if job["detail"]:
        parts.append(job["detail"])
    return ", ".join(parts)


def job_as_json(job: Mapping[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in job.items() if not name.endswith("_ms")}
    return {**shown, "started": iso(job["started_ms"]), "ended": iso(job["ended_ms"])}
