"""Making memories directly in the database, as a consolidation would leave them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, insert, select, update

from takeaways.schemas.database import Database
from takeaways.schemas.ids import derived
from takeaways.schemas.memories import Lesson, Line, Memory, Section
from takeaways.schemas.tables import agents, note_texts, notes, revisions, rooms, section_texts

NOON_MS = 1_772_366_400_000
"""2026-03-01 12:00 UTC."""


def line(text: str, kind: Lesson = Lesson.FACT, *, said_at_ms: int = NOON_MS, pinned: bool = False) -> Line:
    return Line(id=derived("l", text), kind=kind, text=text, said_at_ms=said_at_ms, pinned=pinned)


def section(title: str, *lines: Line | str, gist: str = "") -> Section:
    made = tuple(one if isinstance(one, Line) else line(one) for one in lines)
    return Section(id=derived("s", title), title=title, gist=gist, lines=made)


def memory(*sections: Section) -> Memory:
    return Memory(sections=sections)


def meet(database: Database, agent_id: str) -> None:
    """Make the agent known, without a memory."""
    with database.write() as connection:
        _meet(connection, agent_id)


def remember(database: Database, agent_id: str, content: Memory, *, made_at_ms: int = NOON_MS) -> int:
    """Store `content` as the agent's next revision and return its number."""
    with database.write() as connection:
        _meet(connection, agent_id)
        number = (
            int(
                connection.execute(
                    select(agents.c.revision).where(agents.c.agent_id == agent_id)
                ).scalar_one()
            )
            + 1
        )
        stored = set(
            connection.execute(
                select(section_texts.c.digest).where(section_texts.c.agent_id == agent_id)
            ).scalars()
        )
        for one in content.sections:
            if one.digest not in stored:
                stored.add(one.digest)
                connection.execute(
                    insert(section_texts).values(
                        agent_id=agent_id, digest=one.digest, content=one.model_dump(mode="json")
                    )
                )
        connection.execute(
            insert(revisions).values(
                agent_id=agent_id,
                revision=number,
                sections=[one.digest for one in content.sections],
                account={},
                made_by="test",
                made_at_ms=made_at_ms,
            )
        )
        connection.execute(update(agents).where(agents.c.agent_id == agent_id).values(revision=number))
    return number


def forget(database: Database, agent_id: str) -> None:
    """Leave the agent as an erasure does: a raised fence, and nothing of what it knew."""
    with database.write() as connection:
        raised = {"generation": agents.c.generation + 1, "epoch": agents.c.epoch + 1, "revision": 0}
        connection.execute(update(agents).where(agents.c.agent_id == agent_id).values(raised))
        for table in (section_texts, revisions, rooms, notes, note_texts):
            connection.execute(table.delete().where(table.c.agent_id == agent_id))


def room(
    database: Database,
    agent_id: str,
    room_id: str,
    *,
    summary: str | None = None,
    title: str | None = None,
    last_activity_ms: int = NOON_MS,
    conversation_id: str | None = None,
    compaction: int = 0,
) -> None:
    """Store a room as intake and extraction would, in place of what was known of it."""
    with database.write() as connection:
        connection.execute(rooms.delete().where(rooms.c.agent_id == agent_id, rooms.c.room_id == room_id))
        connection.execute(
            insert(rooms).values(
                agent_id=agent_id,
                room_id=room_id,
                title=title,
                summary=summary,
                last_activity_ms=last_activity_ms,
                conversation_id=conversation_id,
                compaction=compaction,
            )
        )


def _meet(connection: Connection, agent_id: str) -> None:
    known: Iterable[str] = connection.execute(
        select(agents.c.agent_id).where(agents.c.agent_id == agent_id)
    ).scalars()
    if agent_id not in known:
        connection.execute(insert(agents).values(agent_id=agent_id))
