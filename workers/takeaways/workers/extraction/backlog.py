"""What an extraction reads and writes: unread messages, candidates, session summaries. No decision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, func, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import RowMapping

from takeaways.schemas.database import now_ms
from takeaways.schemas.events import Author
from takeaways.schemas.memories import Candidate
from takeaways.schemas.tables import candidates, messages, rooms
from takeaways.schemas.transcripts import PARTS, Said
from takeaways.workers.extraction.segment import RoomBacklog
from takeaways.workers.secrets import mask

MAX_ROWS: Final = 2_000
Key = tuple[str, str]
_DAY_MS: Final = 86_400_000


def load(
    connection: Connection, agent_id: str, *, upto: int, quarantine_id: str | None
) -> tuple[tuple[RoomBacklog, ...], dict[Key, int]]:
    """The oldest unread messages up to the horizon, room by room, and the revision of each as it was read.

    At most `MAX_ROWS` messages: the rest waits for the next step. With a `quarantine_id`, only what it holds.
    """
    waiting = _waiting(agent_id, upto, quarantine_id)
    order = connection.execute(
        select(messages.c.room_id, func.min(messages.c.said_at_ms))
        .where(waiting)
        .group_by(messages.c.room_id)
        .order_by(func.min(messages.c.said_at_ms), messages.c.room_id)
    ).all()
    backlog: list[RoomBacklog] = []
    revisions: dict[Key, int] = {}
    for room_id, _first in order:
        left = MAX_ROWS - len(revisions)
        if left <= 0:
            break
        found = connection.execute(_in_order(waiting, room_id).limit(left)).mappings().all()
        revisions.update({(room_id, row["message_id"]): row["revision"] for row in found})
        backlog.append(_room(connection, agent_id, room_id, found))
    return tuple(backlog), revisions


def _waiting(agent_id: str, upto: int, quarantine_id: str | None) -> ColumnElement[bool]:
    set_aside = (
        messages.c.quarantine_id.is_(None)
        if quarantine_id is None
        else messages.c.quarantine_id == quarantine_id
    )
    return and_(
        messages.c.agent_id == agent_id,
        messages.c.read_by.is_(None),
        messages.c.state == "stored",
        messages.c.arrival <= upto,
        set_aside,
    )


def _in_order(waiting: ColumnElement[bool], room_id: str) -> Any:
    """Rows of one room in the order of `Said.sort_key`."""
    return (
        select(messages)
        .where(waiting, messages.c.room_id == room_id)
        .order_by(
            messages.c.position.is_(None),
            messages.c.position,
            messages.c.said_at_ms,
            func.coalesce(messages.c.run_started_ms, 0),
            messages.c.ordinal,
            messages.c.message_id,
        )
    )


def _room(connection: Connection, agent_id: str, room_id: str, found: Iterable[RowMapping]) -> RoomBacklog:
    room = connection.execute(
        select(rooms.c.title, rooms.c.summary).where(rooms.c.agent_id == agent_id, rooms.c.room_id == room_id)
    ).one_or_none()
    return RoomBacklog(
        room_id=room_id,
        title=mask((room.title if room else None) or ""),
        previous_summary=mask((room.summary if room else None) or ""),
        said=tuple(said(row) for row in found),
    )


def said(row: RowMapping) -> Said:
    """One row of `messages` as extraction reads it."""
    return Said(
        agent_id=row["agent_id"],
        room_id=row["room_id"],
        message_id=row["message_id"],
        role=row["role"],
        author=Author(id=row["author_id"], name=row["author_name"], kind=row["author_kind"]),
        parts=PARTS.validate_python(row["parts"]),
        said_at_ms=row["said_at_ms"],
        offset_minutes=row["offset_minutes"],
        position=row["position"],
        run_started_ms=row["run_started_ms"],
        ordinal=row["ordinal"],
        arrival=row["arrival"],
    )


def unchanged(connection: Connection, agent_id: str, revisions: dict[Key, int]) -> set[Key]:
    """Which of the messages read are still as they were: not edited, deleted or read meanwhile."""
    found = connection.execute(
        select(messages.c.room_id, messages.c.message_id, messages.c.revision)
        .where(messages.c.agent_id == agent_id, messages.c.state == "stored", messages.c.read_by.is_(None))
        .where(tuple_(messages.c.room_id, messages.c.message_id).in_(sorted(revisions)))
    )
    return {
        (row.room_id, row.message_id)
        for row in found
        if revisions[row.room_id, row.message_id] == row.revision
    }


def mark_read(connection: Connection, agent_id: str, keys: Iterable[Key], job_id: str) -> None:
    """Say which job read these messages; it also takes them out of a quarantine."""
    # Its text was there to be read: one that was edited after its text had expired has a text again.
    read = {"read_by": job_id, "read_ms": now_ms(connection), "expired_ms": None}
    _update(connection, agent_id, keys, **read, quarantine_id=None)


def set_aside(connection: Connection, agent_id: str, keys: Iterable[Key], quarantine_id: str) -> None:
    """Take messages out of the backlog, unread, under the quarantine's name."""
    _update(connection, agent_id, keys, quarantine_id=quarantine_id)


def _update(connection: Connection, agent_id: str, keys: Iterable[Key], **values: Any) -> None:
    connection.execute(
        update(messages)
        .where(
            messages.c.agent_id == agent_id,
            tuple_(messages.c.room_id, messages.c.message_id).in_(sorted(keys)),
        )
        .values(**values)
    )


def add_candidates(
    connection: Connection, agent_id: str, found: Iterable[Candidate], *, first_place: int, job_id: str
) -> int:
    """Store candidates as waiting; returns how many began to. One lesson of one message is one candidate.

    Nothing was said after today: what a wrong clock dates into the future counts as said now, or no later word
    could ever take its place.
    """
    at_ms = now_ms(connection)
    rows = [
        {
            "agent_id": agent_id,
            "candidate_id": candidate.id,
            "place": first_place + number,
            "room_id": candidate.room_id,
            "job_id": job_id,
            "kind": candidate.kind.value,
            "topic": candidate.topic,
            "text": candidate.text,
            "said_at_ms": candidate.said_at_ms if candidate.said_at_ms <= at_ms + _DAY_MS else at_ms,
            "state": "waiting",
            "evidence": [evidence.model_dump(mode="json") for evidence in candidate.evidence],
        }
        for number, candidate in enumerate(found)
    ]
    if not rows:
        return 0
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    # The rows as parameters, so that they go in batches: in one statement PostgreSQL takes 65,535 values.
    statement = insert(candidates)
    # What an edit had withdrawn and the new wording still says is learned again.
    revived = {
        name: statement.excluded[name] for name in ("place", "job_id", "said_at_ms", "evidence", "state")
    }
    statement = statement.on_conflict_do_update(
        index_elements=["agent_id", "candidate_id"], set_=revived, where=candidates.c.state == "withdrawn"
    )
    return len(connection.execute(statement.returning(candidates.c.candidate_id), rows).all())


def set_summaries(
    connection: Connection, agent_id: str, summaries: dict[str, str], *, at_ms: int, job_id: str
) -> None:
    """Replace the session summaries of rooms that got a new one."""
    for room_id, text in sorted(summaries.items()):
        connection.execute(
            update(rooms)
            .where(rooms.c.agent_id == agent_id, rooms.c.room_id == room_id)
            .values(summary=text, summary_at_ms=at_ms, summary_job_id=job_id)
        )
