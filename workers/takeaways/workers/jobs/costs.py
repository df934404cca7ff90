"""What the jobs cost: tokens and money by day (UTC), agent and model, summed from `jobs` when somebody asks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Connection, func, select

from takeaways.schemas.database import begins_with, now_ms
from takeaways.schemas.tables import jobs
from takeaways.workers.schedule.spending import day_of

_DAY_MS: Final = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Spent:
    """One agent's jobs with one model on one day, counted where they began.

    `cost_microdollars` is of those with a price; `without_price` counts the others.
    """

    day: str
    agent_id: str
    model: str
    jobs: int
    calls: int
    input_tokens: int
    cached_tokens: int
    written_tokens: int
    output_tokens: int
    cost_microdollars: int
    without_price: int


def spent_lately(
    connection: Connection, *, days: int, agent_id: str | None = None, prefix: str = ""
) -> list[Spent]:
    """What was spent on the last `days` days, today included; the latest day first, then by agent and model."""
    first = day_of(now_ms(connection)) - days + 1
    day = jobs.c.started_ms // _DAY_MS
    sums = (
        jobs.c.calls,
        jobs.c.input_tokens,
        jobs.c.cached_tokens,
        jobs.c.written_tokens,
        jobs.c.output_tokens,
    )
    wanted = (
        select(
            day,
            jobs.c.agent_id,
            jobs.c.model,
            func.count(),
            *(func.sum(one) for one in sums),
            func.coalesce(func.sum(jobs.c.cost_microdollars), 0),
            func.count() - func.count(jobs.c.cost_microdollars),
        )
        .where(jobs.c.started_ms >= first * _DAY_MS, jobs.c.calls > 0)
        .group_by(day, jobs.c.agent_id, jobs.c.model)
        .order_by(day.desc(), jobs.c.agent_id, jobs.c.model)
    )
    if agent_id is not None:
        wanted = wanted.where(jobs.c.agent_id == agent_id)
    if prefix:
        wanted = wanted.where(begins_with(jobs.c.agent_id, prefix))
    return [
        Spent(_date(int(row[0])), row[1], row[2] or "", *map(int, row[3:]))
        for row in connection.execute(wanted)
    ]


def _date(day: int) -> str:
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day):%Y-%m-%d}"
