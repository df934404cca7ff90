"""`takeaways status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeaways.workers.cli.amounts import count
from takeaways.workers.cli.context import open_for_reading, read_settings, unknown
from takeaways.workers.cli.output import AsJson, console, iso, moment, plain, print_json, table

if TYPE_CHECKING:
    from takeaways.workers.cli.overview import AgentView, Details, Overview
    from takeaways.workers.settings import Settings


def status(
    agent: Annotated[str | None, typer.Argument(help="One agent in full; without it, all in short.")] = None,
    prefix: Annotated[str, typer.Option(help="Only agents whose id begins so.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="How many agents to list.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Say in words what each agent waits for.

    Agents that somebody must look at soonest come first. It asks the same decision as the workers do.

    Examples: `takeaways status`, `takeaways status scout`, `takeaways status --prefix acme/ --json`
    """
    from takeaways.workers.cli.overview import agent_view, details, overview

    settings = read_settings()
    database = open_for_reading(settings)
    try:
        if agent is None:
            seen = overview(database, settings.policy, prefix=prefix, limit=limit)
            _all_as_json(seen, settings) if as_json else _all(seen, settings)
            return
        with database.read() as connection:
            view = agent_view(connection, agent, settings.policy)
            more = details(connection, agent)
    finally:
        database.dispose()
    if view is None:
        raise unknown(agent)
    print_json(_one_as_json(view, more)) if as_json else _one(view, more)


def _all(seen: Overview, settings: Settings) -> None:
    from takeaways.workers.settings import address

    out = console()
    if not seen.agents:
        out.print(plain(f"No agents in {address(settings.database)} yet."))
    else:
        shown = table("agent", "revision", "waits for", right=("revision",))
        for view in seen.agents:
            shown.add_row(plain(view.agent_id), _revision(view), plain(view.words))
        out.print(shown)
        if (hidden := seen.agents_total - len(seen.agents)) > 0:
            out.print(f"and {hidden:,} more (--limit)")
    for because, number in seen.parked.items():
        out.print(plain(f"{count(number, 'agent')} parked: {because}"), style="yellow")
    if seen.dead_letters:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in seen.dead_letters.items())
        out.print(f"open dead letters: {reasons}; see `takeaways dead-letters list`")


def _all_as_json(seen: Overview, settings: Settings) -> None:
    from takeaways.workers.settings import address

    print_json(
        {
            "database": address(settings.database),
            "redis": address(settings.redis_url),
            "now": iso(seen.now_ms),
            "agents_total": seen.agents_total,
            "parked": dict(seen.parked),
            "dead_letters_open": sum(seen.dead_letters.values()),
            "dead_letters": dict(seen.dead_letters),
            "agents": [_as_json(view) for view in seen.agents],
        }
    )


def _one(view: AgentView, more: Details) -> None:
    row, state = view.row, view.state
    out = console()
    name = f" ({row['name']})" if row["name"] else ""
    out.print(plain(f"{view.agent_id}{name}"), style="bold")
    if row["deleted_at_ms"]:
        out.print(f"deleted {moment(row['deleted_at_ms'])}")
    lines = {
        "waits for": view.words,
        "memory": f"revision {row['revision']}" if row["revision"] else "none yet",
        "rooms": f"{more.rooms:,}",
        "messages": f"{row['messages_total']:,} taken in, {state.unread:,} unread",
        "candidates": f"{row['candidates_total']:,} found, {state.candidates_waiting:,} waiting",
        "last good run": moment(state.last_success_ms) or "none",
        "tokens today": f"{more.spent_today:,}",
    }
    grid = table("", "")
    grid.show_header = False
    for label, value in lines.items():
        grid.add_row(label, plain(value))
    for aside in more.quarantines:
        when = f"; tried again {moment(aside['retry_at_ms'])}" if aside["retry_at_ms"] else ""
        grid.add_row("set aside", plain(f"{aside['items']} of {aside['kind']}: {aside['reason']}{when}"))
    out.print(grid)
    if more.last_jobs:
        from takeaways.workers.cli.jobs import jobs_table

        out.print(jobs_table(more.last_jobs, with_agent=False))


def _one_as_json(view: AgentView, more: Details) -> dict[str, Any]:
    from takeaways.workers.cli.jobs import job_as_json

    return {
        **_as_json(view),
        "name": view.row["name"],
        "rooms": more.rooms,
        "quarantines": [{**aside, "retry_at": iso(aside["retry_at_ms"])} for aside in more.quarantines],
        "jobs": [job_as_json(job) for job in more.last_jobs],
    }


def _as_json(view: AgentView) -> dict[str, Any]:
    state, decision = view.state, view.decision
    return {
        "agent": view.agent_id,
        "revision": view.row["revision"],
        "waits_for": view.words,
        "next": decision.next,
        "reason": decision.reason,
        "hold": decision.hold,
        "looked_at_again": iso(decision.wake_at_ms),
        "extraction": {"due": decision.extraction.due, "at": iso(decision.extraction.at_ms)},
        "consolidation": {"due": decision.consolidation.due, "at": iso(decision.consolidation.at_ms)},
        "runs_waiting": state.runs_waiting,
        "messages_unread": state.unread,
        "candidates_waiting": state.candidates_waiting,
        "last_success": iso(state.last_success_ms),
    }


def _revision(view: AgentView) -> str:
    return str(view.row["revision"] or "none")
