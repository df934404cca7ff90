"""What `status` shows, read from the database in one short transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, select

from takeaways.schemas import tables as t
from takeaways.schemas.database import Database, begins_with, now_ms
from takeaways.schemas.errors import DeadLetterReason
from takeaways.workers.cli.words import waits_for
from takeaways.workers.intake import deadletters
from takeaways.workers.schedule.decide import Decision, decide
from takeaways.workers.schedule.moment import moment
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.spending import day_of, spent_on
from takeaways.workers.schedule.state import AgentState


@dataclass(frozen=True, slots=True)
class AgentView:
    """An agent's row, what `decide` says of it, and that in words."""

    row: Mapping[str, Any]
    state: AgentState
    decision: Decision
    words: str

    @property
    def agent_id(self) -> str:
        agent_id: str = self.row["agent_id"]
        return agent_id


@dataclass(frozen=True, slots=True)
class Overview:
    """The agents that were asked for, and counts over all; those of open dead letters and of
    agents that are parked by reason.
    """

    agents: tuple[AgentView, ...]
    agents_total: int
    dead_letters: Mapping[DeadLetterReason, int]
    parked: Mapping[str, int]
    now_ms: int


def overview(database: Database, policy: Policy, *, prefix: str = "", limit: int = 50) -> Overview:
    """The agents somebody must look at soonest first, at most `limit`."""
    wanted = select(t.agents).where(t.agents.c.deleted_at_ms.is_(None))
    if prefix:
        wanted = wanted.where(begins_with(t.agents.c.agent_id, prefix))
    ordered = wanted.order_by(t.agents.c.wake_at_ms.is_(None), t.agents.c.wake_at_ms, t.agents.c.agent_id)
    with database.read() as connection:
        return Overview(
            agents=_views(connection, ordered.limit(limit), policy),
            agents_total=connection.scalar(select(func.count()).select_from(wanted.subquery())) or 0,
            dead_letters=deadletters.counted(connection),
            parked=_parked(connection),
            now_ms=now_ms(connection),
        )


def _parked(connection: Connection) -> dict[str, int]:
    """How many agents wait for what, the most first."""
    because, number = t.agents.c.parked_because, func.count()
    waiting = (because.is_not(None), t.agents.c.not_before_ms > now_ms(connection))
    found = connection.execute(
        select(because, number).where(*waiting).group_by(because).order_by(number.desc(), because)
    )
    return {row[0]: int(row[1]) for row in found}


def agent_view(connection: Connection, agent_id: str, policy: Policy) -> AgentView | None:
    """One agent, or None for one never heard of."""
    found = _views(connection, select(t.agents).where(t.agents.c.agent_id == agent_id), policy)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Details:
    """What else there is to know about one agent."""

    rooms: int
    quarantines: tuple[dict[str, Any], ...]
    last_jobs: tuple[dict[str, Any], ...]
    spent_today: int


def details(connection: Connection, agent_id: str) -> Details:
    rooms = select(func.count()).where(t.rooms.c.agent_id == agent_id, t.rooms.c.deleted_at_ms.is_(None))
    aside = select(t.quarantines).where(
        t.quarantines.c.agent_id == agent_id, t.quarantines.c.lifted_at_ms.is_(None)
    )
    return Details(
        rooms=connection.scalar(rooms) or 0,
        quarantines=tuple(dict(row) for row in connection.execute(aside).mappings()),
        last_jobs=tuple(recent_jobs(connection, agent_id, limit=5)),
        spent_today=_spent_today(connection, agent_id),
    )


def _spent_today(connection: Connection, agent_id: str) -> int:
    wanted = select(t.agents.c.spent_day, t.agents.c.spent_tokens).where(t.agents.c.agent_id == agent_id)
    row = connection.execute(wanted).one_or_none()
    return spent_on(day_of(now_ms(connection)), row.spent_day, row.spent_tokens) if row else 0


def recent_jobs(connection: Connection, agent_id: str | None, *, limit: int) -> list[dict[str, Any]]:
    """The newest jobs first."""
    wanted = select(t.jobs).order_by(t.jobs.c.started_ms.desc(), t.jobs.c.epoch.desc()).limit(limit)
    if agent_id is not None:
        wanted = wanted.where(t.jobs.c.agent_id == agent_id)
    return [dict(row) for row in connection.execute(wanted).mappings()]


def _views(connection: Connection, wanted: Select[Any], policy: Policy) -> tuple[AgentView, ...]:
    at = moment(connection)
    views = []
    for found in connection.execute(wanted).mappings():
        row = dict(found)
        state = AgentState.of(row, at)
        decision = decide(state, policy, at.now_ms)
        views.append(AgentView(row, state, decision, waits_for(state, decision, policy, at.now_ms)))
    return tuple(views)
