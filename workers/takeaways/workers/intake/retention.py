"""What the intake process deletes when its time is over: event ids, and the text of messages where that is set.

Event ids are kept longer than any producer repeats one.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Select, select, update

from takeaways.schemas.database import Database, now_expression, now_ms
from takeaways.schemas.tables import candidates, inbox, messages
from takeaways.workers import rows

EVENT_IDS_DAYS: Final = 90
QUOTE_GONE: Final = "(deleted by retention)"
_BATCH: Final = 1_000
_DAY_MS: Final = 24 * 3600 * 1000


def drop_what_is_over(
    database: Database, *, text_days: float | None, quotes: bool, limit: int = _BATCH
) -> bool:
    """Delete one batch of each kind, in a short transaction of its own. Returns whether there may be more."""
    dropped = (
        drop_old_event_ids(database, limit=limit),
        drop_old_texts(database, keep_days=text_days, quotes=quotes, limit=limit),
    )
    return limit in dropped


def drop_old_event_ids(database: Database, *, keep_days: int = EVENT_IDS_DAYS, limit: int = _BATCH) -> int:
    """Delete the oldest event ids that are past their time, at most `limit`. Returns how many."""
    with database.read() as connection:
        past = inbox.c.taken_in_ms < now_expression(connection.dialect.name) - keep_days * _DAY_MS
        # In order, so that the index tells at once: a table in which nothing is over would be read to its end.
        oldest = select(inbox.c.event_id).where(past).order_by(inbox.c.taken_in_ms).limit(1)
        if connection.execute(oldest).first() is None:
            return 0
    with database.write() as connection:
        past = inbox.c.taken_in_ms < now_expression(connection.dialect.name) - keep_days * _DAY_MS
        # Each of several processes takes rows of its own, and none waits for another.
        batch = (
            select(inbox.c.source, inbox.c.event_id)
            .where(past)
            .order_by(inbox.c.taken_in_ms)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        found = [tuple(row) for row in connection.execute(batch)]
        rows.delete(connection, inbox, ("source", "event_id"), found)
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
        if connection.execute(_texts_before(connection, keep_days).limit(1)).first() is None:
            return 0
    with database.write() as connection:
        batch = _texts_before(connection, keep_days).limit(limit).with_for_update(skip_locked=True)
        found = sorted((row.agent_id, row.room_id, row.message_id) for row in connection.execute(batch))
        at_ms = now_ms(connection)
        rows.update(
            connection,
            messages,
            ("agent_id", "room_id", "message_id"),
            ("parts", "expired_ms"),
            [(*key, "[]", at_ms) for key in found],
        )
        if not quotes:
            _drop_quotes(connection, found)
    return len(found)


def _texts_before(connection: Connection, keep_days: float) -> Select[tuple[str, str, str]]:
    past = now_expression(connection.dialect.name) - round(keep_days * _DAY_MS)
    return (
        select(messages.c.agent_id, messages.c.room_id, messages.c.message_id)
        .where(messages.c.read_ms < past, messages.c.read_by.is_not(None), messages.c.expired_ms.is_(None))
        .order_by(messages.c.read_ms)
    )


def _drop_quotes(connection: Connection, keys: list[tuple[str, str, str]]) -> None:
    gone = set(keys)
    for agent_id, room_id in sorted({key[:2] for key in keys}):
        lessons = connection.execute(
            select(candidates.c.candidate_id, candidates.c.evidence).where(
                candidates.c.agent_id == agent_id, candidates.c.room_id == room_id
            )
        ).all()
        for row in lessons:
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
