"""Work that somebody asks for, before it would be due."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import structlog
from sqlalchemy import update

from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.errors import BadInput
from takeaways.schemas.ids import why_bad
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents

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
