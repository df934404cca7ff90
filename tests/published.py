"""Events as a platform publishes them, and a look at what became of them. For tests of intake and sweep."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from sqlalchemy import select

from takeaways.schemas.database import Database
from takeaways.schemas.events import (
    AgentDeleted,
    AgentRef,
    AnyData,
    Conversation,
    Event,
    Message,
    MessageDeleted,
    MessageEdited,
    MessagesRecorded,
    PersonDeleted,
    RoomCompacted,
    RoomDeleted,
    RoomRef,
    RunCompleted,
    encode,
)
from takeaways.schemas.tables import agents, dead_letters, inbox, messages, rooms, runs
from takeaways.workers.intake.entries import Entry, read_entry
from takeaways.workers.schedule.policy import Policy

POLICY = Policy()
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
_entry_ids = count(1)


def at(minutes: float) -> datetime:
    """An instant of the story, minutes after its start."""
    return START + timedelta(minutes=minutes)


def event(data: AnyData, event_id: str, *, agent: str = "ada", minutes: float = 0) -> Event:
    return Event.of(data, id=event_id, source="platform", agent_id=agent, time=at(minutes))


def run(
    run_id: str,
    *said: str | Message,
    agent: str = "ada",
    room: str = "kitchen",
    minutes: float = 0,
    status: Any = "succeeded",
    kind: Any = "room",
    id: str | None = None,  # noqa: A002
    agent_ref: AgentRef | None = None,
    **more: Any,
) -> Event:
    """A run that ended; text is what the user said."""
    data = RunCompleted(
        agent=agent_ref or AgentRef(),
        room=RoomRef(id=room, kind=kind),
        run_id=run_id,
        status=status,
        ended_at=at(minutes),
        messages=tuple(_message(one) for one in said),
        **more,
    )
    return event(data, id or f"run:{run_id}", agent=agent, minutes=minutes)


def recorded(
    run_id: str, *said: str | Message, part: int = 0, agent: str = "ada", minutes: float = 0, **more: Any
) -> Event:
    data = MessagesRecorded(
        room=RoomRef(id="kitchen"),
        run_id=run_id,
        part=part,
        messages=tuple(_message(one) for one in said),
        **more,
    )
    return event(data, f"part:{run_id}:{part}", agent=agent, minutes=minutes)


def compacted(
    number: int, *, conversation: str = "c1", agent: str = "ada", minutes: float = 0, last: str | None = None
) -> Event:
    data = RoomCompacted(
        room=RoomRef(id="kitchen"),
        conversation=Conversation(id=conversation, compaction=number),
        last_message_id=last,
    )
    return event(data, f"compaction:{conversation}:{number}:{minutes}", agent=agent, minutes=minutes)


def edited(message_id: str, revision: int, text: str, *, agent: str = "ada", minutes: float = 0) -> Event:
    data = MessageEdited(
        room=RoomRef(id="kitchen"), message_id=message_id, revision=revision, message=_message(text)
    )
    return event(data, f"edit:{message_id}:{revision}", agent=agent, minutes=minutes)


def withdrawn(message_id: str, revision: int, *, agent: str = "ada", minutes: float = 0) -> Event:
    """A message that was deleted."""
    data = MessageDeleted(room=RoomRef(id="kitchen"), message_id=message_id, revision=revision)
    return event(data, f"delete:{message_id}:{revision}", agent=agent, minutes=minutes)


def forget_agent(*, agent: str = "ada", minutes: float = 0, generation: int | None = None) -> Event:
    return event(
        AgentDeleted(agent=AgentRef(generation=generation)), f"forget:{minutes}", agent=agent, minutes=minutes
    )


def forget_room(room: str = "kitchen", *, agent: str = "ada", minutes: float = 0) -> Event:
    return event(RoomDeleted(room=RoomRef(id=room)), f"forget:{room}:{minutes}", agent=agent, minutes=minutes)


def forget_person(person: str, *, agent: str = "ada", minutes: float = 0) -> Event:
    return event(PersonDeleted(person_id=person), f"forget:{person}:{minutes}", agent=agent, minutes=minutes)


def entry(published: Event) -> Entry:
    """The event as an entry that a reader got."""
    return read_entry(published.data.STREAM, f"{next(_entry_ids)}-0", {b"event": encode(published)})


def entries(*published: Event) -> list[Entry]:
    return [entry(one) for one in published]


def agent_row(database: Database, agent: str = "ada") -> dict[str, Any]:
    return dict(_all(database, select(agents).where(agents.c.agent_id == agent))[0])


def room_row(database: Database, room: str = "kitchen") -> dict[str, Any]:
    return dict(_all(database, select(rooms).where(rooms.c.room_id == room))[0])


def message_rows(database: Database, agent: str = "ada") -> dict[str, dict[str, Any]]:
    """Rows by message id."""
    found = _all(database, select(messages).where(messages.c.agent_id == agent))
    return {row["message_id"]: dict(row) for row in found}


def texts(database: Database, agent: str = "ada") -> dict[str, str]:
    """What stands in each message, by message id."""
    rows = message_rows(database, agent)
    return {
        key: " ".join(part["text"] for part in row["parts"] if "text" in part) for key, row in rows.items()
    }


def run_rows(database: Database) -> list[dict[str, Any]]:
    return [dict(row) for row in _all(database, select(runs).order_by(runs.c.run_id))]


def outcomes(database: Database) -> dict[str, str]:
    """What became of each event, by its id."""
    return {row["event_id"]: row["outcome"] for row in _all(database, select(inbox))}


def letters(database: Database) -> list[dict[str, Any]]:
    found = _all(database, select(dead_letters).order_by(dead_letters.c.entry_id))
    return [dict(row) for row in found]


def everything(database: Database) -> dict[str, list[dict[str, Any]]]:
    """All that intake stored, in an order that does not depend on when."""
    tables = {"agents": agents, "rooms": rooms, "runs": runs, "messages": messages}
    return {
        name: sorted((dict(row) for row in _all(database, select(table))), key=repr)
        for name, table in tables.items()
    }


def _message(said: str | Message) -> Message:
    return Message(role="user", content=said) if isinstance(said, str) else said


def _all(database: Database, statement: Any) -> Sequence[Any]:
    with database.read() as connection:
        return connection.execute(statement).mappings().all()
