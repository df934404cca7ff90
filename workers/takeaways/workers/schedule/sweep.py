"""The sweep: hint every agent whose time to be looked at has come. It repairs every hint that was lost.

There is no leader and no timer elsewhere: each intake process sweeps. The column is indexed, so the cost
follows the work that is due and not the number of agents.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sqlalchemy import Connection, Select, and_, not_, or_, select, update

from takeaways.schemas.database import Database, now_expression
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents, system
from takeaways.workers import rows
from takeaways.workers.schedule.decide import Decision, decide
from takeaways.workers.schedule.due import COLUMNS, NOT_DUE, Due, due_after
from takeaways.workers.schedule.moment import moment
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.state import AgentState

LIMIT: Final = 200
QUEUE_CAP: Final = 1_000
# How long a pool leaves an agent to the other pool before it looks again.
LEFT_SECONDS: Final = 30.0
# The part of a wait by which those who were hinted together drift apart.
JITTER: Final = 0.25

_WAKE: Final = ("wake_at_ms", "hints", "left_for", "left_until_ms", *COLUMNS)


class Hinting(Protocol):
    def hint(self, kind: Kind, agent_id: str, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did. `more` says that as many agents were due as it takes at once: sweep again soon."""

    looked: int = 0
    hinted: int = 0
    not_due: int = 0
    left: int = 0
    more: bool = False
    queue_full: tuple[Kind, ...] = ()


@dataclass(frozen=True, slots=True)
class _Look:
    """What becomes of one agent's timer."""

    agent_id: str
    wake_at_ms: int | None
    hints: int
    left_for: Kind | None = None
    left_until_ms: int | None = None
    hint: tuple[Kind, str] | None = None
    due: Due = NOT_DUE


def sweep_once(
    database: Database,
    hints: Hinting,
    *,
    policy: Policy,
    kinds: Collection[Kind],
    limit: int = LIMIT,
    queue_length: Callable[[Kind], int] = lambda kind: 0,
    queue_cap: int = QUEUE_CAP,
    jitter: Callable[[], float] = random.random,
) -> Swept:
    """Look at agents that are due to be looked at, at most `limit`, and hint those due for `kinds`.

    A kind whose queue is as long as `queue_cap` gets no more. An agent due for another kind is left to the
    pool of that kind: its timer stays, and this pool then passes over it for half a minute. `jitter` gives numbers
    from 0 to 1, so that those who were hinted together are not all looked at again together.
    """
    full = tuple(kind for kind in kinds if queue_length(kind) >= queue_cap)
    wanted = frozenset(kinds) - frozenset(full)
    if not wanted:
        return Swept(queue_full=full)
    if database.is_sqlite:
        with database.read() as connection:
            if not connection.execute(_due(connection, wanted, 1)).all():
                return Swept(queue_full=full)
    with database.write() as connection:
        found = connection.execute(_due(connection, wanted, limit).with_for_update(skip_locked=True))
        due = found.mappings().all()
        at = moment(connection)
        looks = []
        for row in due:
            decision = decide(AgentState.of(dict(row), at), policy, at.now_ms)
            looks.append(_look(row, decision, wanted, policy, at.now_ms, jitter()))
        _write(connection, looks)
    for look in looks:
        if look.hint is not None:
            hints.hint(look.hint[0], look.agent_id, look.hint[1])
    hinted = sum(look.hint is not None for look in looks)
    left = sum(look.left_for is not None for look in looks)
    return Swept(len(looks), hinted, len(looks) - hinted - left, left, len(looks) >= limit, full)


def redecide(database: Database, *, policy: Policy, after: str = "", limit: int = LIMIT) -> str | None:
    """Decide anew for stored agents, because the policy is another one than when they were decided.

    Goes on `after` an agent's id and returns the last one done; None when all are, which is then on record.
    Returns None at once where the record says that this policy was applied.
    """
    with database.read() as connection:
        applied = connection.execute(
            select(system.c.policy_hash).where(system.c.id == 1)
        ).scalar_one_or_none()
        if applied == policy.hash:
            return None
    with database.write() as connection:
        found = connection.execute(
            select(agents)
            .where(agents.c.agent_id > after)
            .order_by(agents.c.agent_id)
            .limit(limit)
            .with_for_update()
        )
        batch = found.mappings().all()
        at = moment(connection)
        looks = []
        for row in batch:
            decision = decide(AgentState.of(dict(row), at), policy, at.now_ms)
            if decision.next is not None:
                due = due_after(dict(row), decision, at.now_ms)
                looks.append(_Look(row["agent_id"], at.now_ms, row["hints"], due=due))
            elif decision.wake_at_ms != row["wake_at_ms"]:
                looks.append(_Look(row["agent_id"], decision.wake_at_ms, 0))
        _write(connection, looks)
        if len(batch) == limit:
            last: str = batch[-1]["agent_id"]
            return last
        connection.execute(update(system).where(system.c.id == 1).values(policy_hash=policy.hash))
    return None


def _due(connection: Connection, kinds: Collection[Kind], limit: int) -> Select[Any]:
    now = now_expression(connection.dialect.name)
    left_to_others = and_(
        agents.c.left_for.is_not(None),
        not_(agents.c.left_for.in_(sorted(kind.value for kind in kinds))),
        agents.c.left_until_ms > now,
    )
    return (
        select(agents)
        .where(agents.c.wake_at_ms <= now, or_(agents.c.left_for.is_(None), not_(left_to_others)))
        .order_by(agents.c.wake_at_ms)
        .limit(limit)
    )


def _look(
    row: Any, decision: Decision, kinds: Collection[Kind], policy: Policy, now_ms: int, jitter: float
) -> _Look:
    agent_id = row["agent_id"]
    if decision.next is None or decision.reason is None:
        return _Look(agent_id, decision.wake_at_ms, 0)
    due = due_after(row, decision, row["wake_at_ms"])
    if decision.next not in kinds:
        return _Look(
            agent_id,
            row["wake_at_ms"],
            row["hints"],
            left_for=decision.next,
            left_until_ms=now_ms + round(LEFT_SECONDS * 1000),
            due=due,
        )
    hints = row["hints"] + 1
    wait_ms = round(policy.hint_wait_ms(hints) * (1.0 + JITTER * jitter))
    return _Look(agent_id, now_ms + wait_ms, hints, hint=(decision.next, decision.reason.value), due=due)


def _write(connection: Connection, looks: Sequence[_Look]) -> None:
    values = [
        (
            look.agent_id,
            look.wake_at_ms,
            look.hints,
            look.left_for and look.left_for.value,
            look.left_until_ms,
            *look.due,
        )
        for look in looks
    ]
    rows.update(connection, agents, ("agent_id",), _WAKE, sorted(values, key=lambda row: str(row[0])))
