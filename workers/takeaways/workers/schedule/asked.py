"""Work that somebody asks for, before it would be due."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import structlog
from sqlalchemy import func, select, update

from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.errors import BadInput
from takeaways.schemas.ids import why_bad
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents, quarantines

log = structlog.get_logger(__name__)


def ask(database: Database, agent_ids: Iterable[str], kinds: Iterable[Kind]) -> int:
    """Mark extraction, consolidation or both as asked for, whatever the counts say. Returns the agents marked.

    The job that answers is the same as any other; it ends at once where nothing waits. An agent never heard of
    is not made. Raises `BadInput` for an id that breaks the rule.
    """
    wanted = list(agent_ids)
    for agent_id in wanted:
        if problem := why_bad(agent_id):
            raise BadInput(f"agent id: {problem}")
    marks: dict[str, Any] = {f"{kind}s_asked": agents.c[f"{kind}s_asked"] + 1 for kind in kinds}
    with database.write() as connection:
        marks["wake_at_ms"] = now_ms(connection)
        marked = 0
        for agent_id in sorted(wanted):
            marked += connection.execute(
                update(agents).where(agents.c.agent_id == agent_id).values(marks)
            ).rowcount
    return marked


def ask_set_aside(database: Database, agent_ids: Iterable[str] | None = None) -> dict[str, int]:
    """Let what was set aside be tried again now, of these agents or of all. Returns the batches by agent.

    For when the reason is gone: a bug, a model, a limit. Each batch is tried alone, as it would be later.
    """
    open_ones = [quarantines.c.lifted_at_ms.is_(None)]
    if agent_ids is not None:
        open_ones.append(quarantines.c.agent_id.in_(list(agent_ids)))
    with database.write() as connection:
        at_ms = now_ms(connection)
        counted = connection.execute(
            select(quarantines.c.agent_id, quarantines.c.kind, func.count())
            .where(*open_ones)
            .group_by(quarantines.c.agent_id, quarantines.c.kind)
            .order_by(quarantines.c.agent_id, quarantines.c.kind)
        ).all()
        batches: dict[str, int] = {}
        for agent_id, kind, number in counted:
            # The agent first, as everywhere, so that a job that sets one aside meanwhile waits for this.
            connection.execute(
                update(agents)
                .where(agents.c.agent_id == agent_id)
                .values({f"{kind}_retry_ms": at_ms, "wake_at_ms": at_ms})
            )
            batches[agent_id] = batches.get(agent_id, 0) + number
        connection.execute(update(quarantines).where(*open_ones).values(retry_at_ms=at_ms))
    return batches
