"""Setting a batch aside, visibly: an explicit gap that is retried alone after a cool-down."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import Connection, func, select, update

from takeaways.schemas.database import now_ms
from takeaways.schemas.queues import Kind
from takeaways.schemas.secrets import mask
from takeaways.schemas.tables import quarantines
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.leases import Lease
from takeaways.workers.schedule.policy import Policy

MAX_DOUBLINGS = 5


def put(
    connection: Connection, lease: Lease, *, items: int, why: Outcome, detail: str, policy: Policy
) -> str:
    """Record that `items` messages or candidates are set aside; a batch that fails again waits twice as long."""
    at_ms = now_ms(connection)
    reason = mask(f"{why}: {detail}")
    if (again := lease.work.quarantine_id) is not None:
        attempts = quarantines.c.attempts
        tried = connection.execute(select(attempts).where(quarantines.c.quarantine_id == again)).scalar_one()
        wait_ms = _wait_ms(policy, tried)
        connection.execute(
            update(quarantines)
            .where(quarantines.c.quarantine_id == again)
            .values(attempts=attempts + 1, reason=reason, retry_at_ms=at_ms + wait_ms)
        )
        return again
    quarantine_id = uuid.uuid4().hex
    connection.execute(
        quarantines.insert().values(
            quarantine_id=quarantine_id,
            agent_id=lease.agent_id,
            kind=lease.kind.value,
            reason=reason,
            items=items,
            attempts=1,
            made_at_ms=at_ms,
            retry_at_ms=at_ms + _wait_ms(policy, 0),
        )
    )
    return quarantine_id


def lift(connection: Connection, quarantine_id: str) -> None:
    """Its batch was worked off."""
    connection.execute(
        update(quarantines)
        .where(quarantines.c.quarantine_id == quarantine_id)
        .values(lifted_at_ms=now_ms(connection), retry_at_ms=None)
    )


def next_retry(connection: Connection, agent_id: str, kind: Kind) -> dict[str, Any]:
    """The agent's column that says when the earliest batch of this kind is tried again."""
    at_ms = connection.execute(
        select(func.min(quarantines.c.retry_at_ms)).where(
            quarantines.c.agent_id == agent_id,
            quarantines.c.kind == kind.value,
            quarantines.c.lifted_at_ms.is_(None),
        )
    ).scalar_one()
    return {f"{kind}_retry_ms": at_ms}


def _wait_ms(policy: Policy, doublings: int) -> int:
    return round(policy.quarantine_seconds * 1000) << min(doublings, MAX_DOUBLINGS)
