"""`takeaways extract`, `consolidate` and `flush`: work that is due because somebody asked for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeaways.schemas.queues import Kind
from takeaways.workers.cli.amounts import count
from takeaways.workers.cli.context import build_services, read_settings, require_known
from takeaways.workers.cli.output import AsJson, console, plain, print_json
from takeaways.workers.exits import Exit

if TYPE_CHECKING:
    from takeaways.workers.bootstrap import Services
    from takeaways.workers.jobs.flush import Flushed
    from takeaways.workers.jobs.result import JobResult

Now = Annotated[
    bool, typer.Option("--now", help="Do it here and wait, instead of leaving it to the workers.")
]
Agent = Annotated[str, typer.Argument(help="The agent's id.")]


PATIENCE_SECONDS = 600.0
"""How long a command waits for a model that is busy or away, an agent."""


def extract(agent: Agent, now: Now = False, as_json: AsJson = False) -> None:
    """Read what is new in an agent's rooms, whatever the count of runs says.

    Example: `takeaways extract scout --now`
    """
    _work(Kind.EXTRACTION, agent, now, as_json)


def consolidate(agent: Agent, now: Now = False, as_json: AsJson = False) -> None:
    """Merge an agent's waiting candidates into its memory, without waiting for it to be idle.

    Example: `takeaways consolidate scout --now`
    """
    _work(Kind.CONSOLIDATION, agent, now, as_json)


def flush(
    agents: Annotated[list[str] | None, typer.Argument(help="Only these agents; without any, all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Extract and consolidate everything there is, here and now. Safe beside running workers.

    Examples: `takeaways flush`, `takeaways flush scout ranger`
    """
    from takeaways.workers.jobs.flush import flush as run

    services = build_services(read_settings())
    out = console(stderr=True)
    try:
        _require_known(services, *agents or ())
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
            task = progress.add_task("flushing", total=None)

            def step(_flushed: Flushed, done: int, total: int) -> None:
                progress.update(task, completed=done, total=total)

            flushed = run(services, agents or None, progress=step, patience_seconds=PATIENCE_SECONDS)
    finally:
        services.close()
    report_flushed(flushed, as_json)


def retry(
    agents: Annotated[list[str] | None, typer.Argument(help="Only these agents; without any, all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let the workers try again now what was set aside, without waiting for its time.

    For when the reason is gone: a bug that was mended, a model, a limit. Each batch is tried alone, and one that
    fails again waits longer than before. `takeaways status AGENT` shows what is set aside, and why.

    Examples: `takeaways retry scout`, `takeaways retry`
    """
    from takeaways.workers.schedule.asked import ask_set_aside

    services = build_services(read_settings())
    try:
        _require_known(services, *agents or ())
        asked = ask_set_aside(services.database, agents or None)
    finally:
        services.close()
    if as_json:
        print_json([{"agent": agent, "batches": number} for agent, number in asked.items()])
        return
    for agent, number in asked.items():
        console().print(plain(f"{agent}: {count(number, 'batch')} to be tried again by the workers"))
    if not asked:
        console().print("Nothing is set aside.")


def report_flushed(flushed: tuple[Flushed, ...], as_json: bool) -> None:
    """Print what a flush did; exits 1 when something still waits."""
    if as_json:
        print_json([flushed_as_json(one) for one in flushed])
    else:
        for one in flushed:
            console().print(plain(f"{one.agent_id}: {describe(one)}"))
        if not flushed:
            console().print("Nothing was waiting.")
    if any(one.unread or one.waiting for one in flushed):
        raise typer.Exit(Exit.FAILED)


def describe(one: Flushed) -> str:
    """What was done for an agent, and what still waits."""
    done = "; ".join(said(job) for job in one.jobs) or "nothing was waiting"
    if not (one.unread or one.waiting):
        return done
    rest = f"{count(one.unread, 'message')} unread, {count(one.waiting, 'candidate')} waiting"
    return f"{done}. Still {rest}: see `takeaways status`"


def flushed_as_json(one: Flushed) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(one)


def said(job: JobResult) -> str:
    """A job's ending with what it did."""
    from dataclasses import asdict

    from takeaways.workers.cli.jobs import did

    what = did(asdict(job))
    return f"{job.outcome}{f' ({what})' if what else ''}"


def _work(kind: Kind, agent: str, now: bool, as_json: bool) -> None:
    from takeaways.workers.jobs.flush import flush as run
    from takeaways.workers.schedule.asked import ask

    services = build_services(read_settings())
    try:
        _require_known(services, agent)
        if now:
            report_flushed_one(
                kind, run(services, [agent], kinds=(kind,), patience_seconds=PATIENCE_SECONDS)[0], as_json
            )
            return
        ask(services.database, [agent], [kind])
        services.hints.hint(kind, agent, "asked")
    finally:
        services.close()
    if as_json:
        print_json({"agent": agent, "asked": kind})
    else:
        console().print(
            plain(f"{kind} of {agent} is asked for; the workers do it. See `takeaways status {agent}`")
        )


def report_flushed_one(kind: Kind, flushed: Flushed, as_json: bool) -> None:
    """Print the jobs of one kind; exits 1 when the last did not do the work."""
    if as_json:
        print_json(flushed_as_json(flushed))
    else:
        done = "; ".join(said(job) for job in flushed.jobs) or "nothing was waiting"
        console().print(plain(f"{kind} of {flushed.agent_id}: {done}"))
    if flushed.jobs and not flushed.jobs[-1].outcome.is_success:
        raise typer.Exit(Exit.FAILED)


def _require_known(services: Services, *agents: str) -> None:
    with services.database.read() as connection:
        require_known(connection, *agents)
