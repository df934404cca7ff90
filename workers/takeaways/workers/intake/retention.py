"""How long event ids are kept: long enough that no producer still repeats one."""

from __future__ import annotations

from typing import Final

from sqlalchemy import delete, select

from takeaways.schemas.database import Database, now_expression
from takeaways.schemas.tables import inbox

EVENT_IDS_DAYS: Final = 90
_BATCH: Final = 1_000
_DAY_MS: Final = 24 * 3600 * 1000


def drop_old_event_ids(database: Database, *, keep_days: int = EVENT_IDS_DAYS, limit: int = _BATCH) -> int:
    """Delete the oldest event ids that are past their time, at most `limit`. Returns how many."""
    with database.read() as connection:
        past = inbox.c.taken_in_ms < now_expression(connection) - keep_days * _DAY_MS
        keys = select(inbox.c.source, inbox.c.event_id).where(past).order_by(inbox.c.taken_in_ms).limit(limit)
        found = [(row.source, row.event_id) for row in connection.execute(keys)]
    if not found:
        return 0
    with database.write() as connection:
        for source, event_id in sorted(found):
            connection.execute(delete(inbox).where(inbox.c.source == source, inbox.c.event_id == event_id))
    return len(found)
