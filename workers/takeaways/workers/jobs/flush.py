"""Flush: extract and consolidate everything there is, in this process, with progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, or_, select
from sqlalchemy.engine import RowMapping

from takeaways.schemas.database import now_ms
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents
from takeaways.workers.jobs.job import JobServices
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.result import JobResult
from takeaways.workers.jobs.run import run_job
from takeaways.workers.schedule.asked import ask

BUSY_WAIT_SECONDS = 0.05
BUSY_GIVE_UP_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Flushed:
    """What one agent's flush did: the jobs in order, and what still waits (0 and 0 when nothing stood in the way)."""

    agent_id: str
    jobs: tuple[JobResult, ...]
    unread: int
    waiting: int


def flush(
    services: JobServices,
    agent_ids: Sequence[str] | None = None,
    *,
    kinds: Sequence[Kind] = (Kind.EXTRACTION, Kind.CONSOLIDATION),
    progress: Callable[[Flushed, int, int], None] = lambda flushed, done, total: None,
    patience_seconds: float = 0.0,
) -> tuple[Flushed, ...]:
    """Extract, then consolidate, everything of these agents, or of all that have something waiting.

    The same jobs as any others, due because somebody asked, so that it is safe beside running workers: an agent
    that another job holds is waited for, and so is a model that is busy or away, for at most `patience_seconds` an
    agent. `progress` is told of every agent as it is done: (what, how many, of).
    """
    wanted = list(agent_ids) if agent_ids is not None else _with_work(services)
    flushed = []
    for number, agent_id in enumerate(wanted, start=1):
        results = [
            result for kind in kinds for result in _run_until_done(kind, agent_id, services, patience_seconds)
        ]
        with services.database.read() as connection:
            row = _row(connection, agent_id)
        one = Flushed(
            agent_id=agent_id,
            jobs=tuple(results),
            unread=row["messages_total"] - row["messages_read"] if row else 0,
            waiting=row["candidates_total"] - row["candidates_settled"] if row else 0,
        )
        flushed.append(one)
        progress(one, number, len(wanted))
    return tuple(flushed)


def _run_until_done(
    kind: Kind, agent_id: str, services: JobServices, patience_seconds: float
) -> list[JobResult]:
    """Ask for one pass and see it through its slices, waiting while another job holds the agent."""
    ask(services.database, [agent_id], [kind])
    results: list[JobResult] = []
    give_up = time.monotonic() + BUSY_GIVE_UP_SECONDS
    patient_until = time.monotonic() + patience_seconds
    in_vain = False
    while time.monotonic() < give_up:
        result = run_job(kind, agent_id, services)
        if result.outcome is Outcome.BUSY:
            time.sleep(BUSY_WAIT_SECONDS)
            continue
        if result.outcome is Outcome.NOTHING_DUE:
            if not _still_asked(services, agent_id, kind):
                return results
            # The other kind goes first this time. Is it not due either, a worker has just done it and ours is due
            # now; or, when that is so once more, nothing of the agent may start.
            in_vain_before = in_vain
            in_vain = run_job(kind.other, agent_id, services).outcome is Outcome.NOTHING_DUE
            if in_vain and in_vain_before:
                return results
            continue
        in_vain = False
        results.append(result)
        if result.outcome in (Outcome.OVERLOADED, Outcome.UNAVAILABLE):
            wait_seconds = _held_seconds(services, agent_id)
            if time.monotonic() + wait_seconds <= patient_until and not services.drain.wait(wait_seconds):
                continue
        if result.outcome is not Outcome.CONTINUES:
            return results
    return results


def _held_seconds(services: JobServices, agent_id: str) -> float:
    """How long nothing of the agent may start."""
    with services.database.read() as connection:
        row = _row(connection, agent_id)
        until_ms = row["not_before_ms"] if row is not None else None
        return max((until_ms or 0) - now_ms(connection), 0) / 1000


def _still_asked(services: JobServices, agent_id: str, kind: Kind) -> bool:
    with services.database.read() as connection:
        row = _row(connection, agent_id)
    return row is not None and row[f"{kind}s_asked"] > row[f"{kind}s_asked_served"]


def _row(connection: Connection, agent_id: str) -> RowMapping | None:
    return connection.execute(select(agents).where(agents.c.agent_id == agent_id)).mappings().one_or_none()


def _with_work(services: JobServices) -> list[str]:
    waiting = or_(
        agents.c.messages_total > agents.c.messages_read,
        agents.c.candidates_total > agents.c.candidates_settled,
    )
    with services.database.read() as connection:
        return list(
            connection.execute(select(agents.c.agent_id).where(waiting).order_by(agents.c.agent_id)).scalars()
        )
