"""Leaving an agent alone for a while without claiming it: its model answers nobody now."""

from __future__ import annotations

from sqlalchemy import update

from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents
from takeaways.workers.leases.claim import LOCK_TIMEOUT_MS, NotClaimed, lock
from takeaways.workers.schedule.decide import decide
from takeaways.workers.schedule.due import NOT_DUE
from takeaways.workers.schedule.moment import moment
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.state import AgentState


def hold_off(
    database: Database, agent_id: str, kind: Kind, *, policy: Policy, wait_seconds: float, because: str | None
) -> NotClaimed:
    """Let nothing of the agent start for so long, if a job of `kind` would start now.

    `because` is what `status` says meanwhile. No job is recorded and no attempt counted: nothing was tried.
    """
    with database.write(lock_timeout_ms=LOCK_TIMEOUT_MS) as connection:
        row = lock(connection, agent_id)
        if row is None:
            return NotClaimed(None)
        at = moment(connection)
        decision = decide(AgentState.of(dict(row), at), policy, at.now_ms)
        if decision.next is not kind:
            return NotClaimed(decision)
        held = {"not_before_ms": at.now_ms + round(wait_seconds * 1000), "parked_because": because}
        decision = decide(AgentState.of({**row, **held}, at), policy, at.now_ms)
        connection.execute(
            update(agents)
            .where(agents.c.agent_id == agent_id)
            .values(**held, **NOT_DUE.columns(), wake_at_ms=decision.wake_at_ms, hints=0)
        )
        return NotClaimed(decision)
