"""Taking the lease: decide once more under the row's lock, then own the agent until `lease_until_ms`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, select, update
from sqlalchemy.engine import RowMapping

from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents, candidates, jobs, messages, quarantines
from takeaways.workers.faults import fault_point
from takeaways.workers.leases.lease import Lease, Pass
from takeaways.workers.models.resolve import AgentModel
from takeaways.workers.schedule.decide import Decision, Reason, decide
from takeaways.workers.schedule.due import NOT_DUE
from takeaways.workers.schedule.moment import moment
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.state import AgentState

LOCK_TIMEOUT_MS = 10_000
# Made once: a job locks its agent some ten times, and making a statement of all columns costs more than sending it.
_LOCKED = select(agents).where(agents.c.agent_id == bindparam("agent_id")).with_for_update()


@dataclass(frozen=True, slots=True)
class Claimed:
    """The lease, and how long what was due had waited for it."""

    lease: Lease
    waited_ms: int = 0


@dataclass(frozen=True, slots=True)
class NotClaimed:
    """Nobody's fault: nothing of this kind may start now. `decision` is None for an agent never heard of."""

    decision: Decision | None


def claim(
    database: Database, agent_id: str, kind: Kind, *, owner: str, job_id: str, policy: Policy
) -> Claimed | NotClaimed:
    """Take the lease of `agent_id` for one job of `kind` if that is what `decide` says is next.

    The attempt is counted here, before the work, so that a batch that kills its worker is counted too.
    """
    with database.write(lock_timeout_ms=LOCK_TIMEOUT_MS) as connection:
        row = lock(connection, agent_id)
        if row is None:
            return NotClaimed(None)
        at = moment(connection)
        at_ms, (clock_ms, clock_boot) = at.now_ms, at.lease_clock
        decision = decide(AgentState.of(dict(row), at), policy, at_ms)
        if decision.next is not kind or decision.reason is None:
            return NotClaimed(decision)
        work = _underway(row, kind) or _begin(connection, row, kind, decision.reason, at_ms)
        tried = attempts_key(connection, agent_id, kind, work)
        attempts = row["attempts"] + 1 if row["attempts_at"] == tried else 1
        lease = Lease(
            agent_id=agent_id,
            generation=row["generation"],
            epoch=row["epoch"] + 1,
            owner=owner,
            kind=kind,
            job_id=job_id,
            work=work,
            attempts=attempts,
            exhausted=attempts > (1 if work.quarantine_id else policy.max_attempts),
            agent=AgentModel(row["model"], row["model_window"]),
        )
        connection.execute(
            update(agents)
            .where(agents.c.agent_id == agent_id)
            .values(
                {
                    "owner": owner,
                    "owner_kind": kind.value,
                    "epoch": lease.epoch,
                    "lease_until_ms": clock_ms + policy.lease_ms,
                    "lease_boot": clock_boot,
                    "attempts": attempts,
                    "attempts_at": tried,
                    "wake_at_ms": at_ms + policy.lease_ms,
                    "hints": 0,
                    "left_for": None,
                    "left_until_ms": None,
                    "not_before_ms": None,
                    "parked_because": None,
                    **NOT_DUE.columns(),
                    f"{kind}_pass": work.to_json(),
                }
            )
        )
        connection.execute(
            jobs.insert().values(
                job_id=job_id,
                agent_id=agent_id,
                generation=lease.generation,
                kind=kind.value,
                epoch=lease.epoch,
                reason=decision.reason.value,
                owner=owner,
                started_ms=at_ms,
            )
        )
        fault_point("in_claim")
    due_since_ms = at_ms if row["due_since_ms"] is None else row["due_since_ms"]
    return Claimed(lease, max(at_ms - due_since_ms, 0))


def lock(connection: Connection, agent_id: str) -> RowMapping | None:
    """The agent's row, locked until the transaction ends. None for an agent never heard of."""
    return connection.execute(_LOCKED, {"agent_id": agent_id}).mappings().one_or_none()


def _underway(row: RowMapping, kind: Kind) -> Pass | None:
    stored: dict[str, Any] | None = row[f"{kind}_pass"]
    return Pass.stored(stored) if stored else None


def _begin(connection: Connection, row: RowMapping, kind: Kind, reason: Reason, at_ms: int) -> Pass:
    quarantine_id = (
        _oldest_quarantine(connection, row["agent_id"], kind, at_ms)
        if reason is Reason.QUARANTINE_RETRY
        else None
    )
    if kind is Kind.EXTRACTION:
        return Pass(
            reason,
            row["arrivals_total"],
            row["extractions_asked"],
            runs=row["runs_total"],
            quarantine_id=quarantine_id,
        )
    return Pass(
        reason,
        row["candidates_total"],
        row["consolidations_asked"],
        compactions=row["compactions_total"],
        last_success_ms=row["last_success_ms"],
        quarantine_id=quarantine_id,
    )


def _oldest_quarantine(connection: Connection, agent_id: str, kind: Kind, at_ms: int) -> str | None:
    return connection.execute(
        select(quarantines.c.quarantine_id)
        .where(
            quarantines.c.agent_id == agent_id,
            quarantines.c.kind == kind.value,
            quarantines.c.lifted_at_ms.is_(None),
        )
        .where(quarantines.c.retry_at_ms <= at_ms)
        .order_by(quarantines.c.retry_at_ms, quarantines.c.quarantine_id)
        .limit(1)
    ).scalar_one_or_none()


def attempts_key(connection: Connection, agent_id: str, kind: Kind, work: Pass) -> str:
    """What is tried next, as the attempts are counted for it: where the waiting work begins.

    That stands for the segment, because the plan of the same backlog is always the same.
    """
    if work.quarantine_id is not None:
        return f"{kind}:{work.quarantine_id}"
    if kind is Kind.EXTRACTION:
        waiting = (
            messages.c.read_by.is_(None),
            messages.c.quarantine_id.is_(None),
            messages.c.state == "stored",
        )
        begins = select(func.min(messages.c.arrival)).where(
            messages.c.agent_id == agent_id, messages.c.arrival <= work.upto, *waiting
        )
    else:
        begins = select(func.min(candidates.c.place)).where(
            candidates.c.agent_id == agent_id, candidates.c.place < work.upto, candidates.c.state == "waiting"
        )
    return f"{kind}:{connection.execute(begins).scalar_one()}"
