"""What the intake process deletes when its time is over: event ids, and the text of messages where that is set.

Event ids are kept longer than any producer repeats one.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, delete, or_, select, update

from takeaways.schemas.database import Database, now_expression, now_ms
from takeaways.schemas.tables import candidates, inbox, jobs, messages

EVENT_IDS_DAYS: Final = 90
QUOTE_GONE: Final = "(deleted by retention)"
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


def drop_old_texts(
    database: Database, *, keep_days: float | None, quotes: bool = True, limit: int = _BATCH
) -> int:
    """Delete the text of messages that were extracted so many days ago, at most `limit`. Returns how many.

    Their rows stay, as id, time and author, so that provenance resolves and a repeat stores nothing. Without
    `quotes` the words that lessons quote go too. With `keep_days` None nothing is deleted.
    """
    if keep_days is None:
        return 0
    with database.read() as connection:
        past = jobs.c.ended_ms < now_expression(connection) - round(keep_days * _DAY_MS)
        keys = (
            select(messages.c.agent_id, messages.c.room_id, messages.c.message_id)
            .join_from(messages, jobs, jobs.c.job_id == messages.c.read_by)
            # One that was edited since, and read again, has a text once more.
            .where(or_(messages.c.expired_ms.is_(None), messages.c.expired_ms < jobs.c.ended_ms))
            .where(messages.c.state == "stored", past)
            .limit(limit)
        )
        found = sorted((row.agent_id, row.room_id, row.message_id) for row in connection.execute(keys))
    if not found:
        return 0
    with database.write() as connection:
        for agent_id, room_id, message_id in found:
            one = (messages.c.agent_id == agent_id, messages.c.room_id == room_id)
            connection.execute(
                update(messages)
                .where(*one, messages.c.message_id == message_id, messages.c.read_by.is_not(None))
                .values(parts=[], expired_ms=now_ms(connection))
            )
        if not quotes:
            _drop_quotes(connection, found)
    return len(found)


def _drop_quotes(connection: Connection, keys: list[tuple[str, str, str]]) -> None:
    gone = set(keys)
    for agent_id, room_id in sorted({key[:2] for key in keys}):
        rows = connection.execute(
            select(candidates.c.candidate_id, candidates.c.evidence).where(
                candidates.c.agent_id == agent_id, candidates.c.room_id == room_id
            )
        ).all()
        for row in rows:
            left = [
                {**one, "quote": QUOTE_GONE} if (agent_id, room_id, one["message_id"]) in gone else one
                for one in row.evidence
            ]
            if left != row.evidence:
                connection.execute(
                    update(candidates)
                    .where(candidates.c.agent_id == agent_id, candidates.c.candidate_id == row.candidate_id)
                    .values(evidence=left)
                )
