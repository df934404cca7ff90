"""The statements of intake: what a batch reads of the database and how its plan is written. No decisions.

Locks are taken in one order everywhere: event ids sorted in one statement, then the agents' rows in the order
of their ids, then the rest. Writes in another order deadlocked more often than they committed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, func, select

from takeaways.schemas import tables
from takeaways.schemas.events import (
    MessageDeleted,
    MessageEdited,
    MessagesRecorded,
    PersonDeleted,
    RunCompleted,
)
from takeaways.workers import rows
from takeaways.workers.intake.entries import Entry
from takeaways.workers.intake.picture import AgentCopy, MessageCopy, Picture, RoomCopy
from takeaways.workers.intake.plan import Plan, RunRow
from takeaways.workers.intake.taken import Taken
from takeaways.workers.intake.wake import Wake
from takeaways.workers.schedule import due

EventKey = tuple[str, str]

# Made once: making a statement of all columns costs more than sending it.
_LOCKED: Final = (
    select(tables.agents)
    .where(tables.agents.c.agent_id.in_(bindparam("agent_ids", expanding=True)))
    .order_by(tables.agents.c.agent_id)
    .with_for_update()
)
_INBOX: Final = ("source", "event_id", "agent_id", "type", "body_hash", "outcome", "taken_in_ms")
_ROOM_KEY: Final = ("agent_id", "room_id")
_ROOM: Final = (
    "title",
    "last_activity_ms",
    "conversation_id",
    "compaction",
    "compaction_counted",
    "boundary_message_id",
)
_RUN: Final = (
    "agent_id",
    "generation",
    "run_id",
    "room_id",
    "user_id",
    "status",
    "counted",
    "started_at_ms",
    "ended_at_ms",
)
_MESSAGE_KEY: Final = ("agent_id", "room_id", "message_id")
_STANDING: Final = ("arrival", "state", "revision")
_TOLD: Final = (
    "role",
    "author_id",
    "author_name",
    "author_kind",
    "user_id",
    "run_id",
    "run_started_ms",
    "position",
    "ordinal",
    "said_at_ms",
    "offset_minutes",
    "undated",
)
_AGENT: Final = (
    "arrivals_total+",
    "messages_total+",
    "messages_read+",
    "runs_total+",
    "compactions_total+",
    "runs_served",
    "boot_id",
    "last_success_ms",
    "name",
    "model",
    "model_window",
    "model_at_ms",
    "wake_at_ms",
    "hints",
    "left_for",
    "left_until_ms",
    *due.COLUMNS,
)
# What stands in a row whose message is not here: a deletion came first.
_UNTOLD: Final = ("system", "system", None, "system", None, None, None, None, 0)


def add_event_ids(
    connection: Connection, entries: Mapping[EventKey, Entry], now_ms: int
) -> tuple[set[EventKey], dict[EventKey, str]]:
    """Store the ids of new events. Returns these, and the body hash of each that was there before."""
    values = []
    for (source, event_id), entry in sorted(entries.items()):
        event = entry.event
        if event is not None:
            outcome = Taken.TAKEN_IN if entry.agent_id is not None else Taken.NOT_A_ROOM
            values.append(
                (
                    source,
                    event_id,
                    event.agent_id,
                    event.data.TYPE,
                    entry.body_hash,
                    outcome.value,
                    now_ms,
                )
            )
    keys = ("source", "event_id")
    new = {(row[0], row[1]) for row in rows.insert(connection, tables.inbox, _INBOX, values, returning=keys)}
    old = [key for key in entries if key not in new]
    found = rows.fetch(connection, tables.inbox, keys, old, ("source", "event_id", "body_hash"))
    return new, {(row[0], row[1]): row[2] for row in found}


def set_outcomes(connection: Connection, outcomes: Iterable[tuple[EventKey, Taken]]) -> None:
    values = [(source, event_id, outcome.value) for (source, event_id), outcome in outcomes]
    rows.update(connection, tables.inbox, ("source", "event_id"), ("outcome",), values)


def lock_agents(connection: Connection, agent_ids: Collection[str]) -> dict[str, AgentCopy]:
    """Lock the agents' rows in the order of their ids, making those that are not there."""
    in_order = sorted(agent_ids)
    rows.insert(connection, tables.agents, ("agent_id",), [(agent_id,) for agent_id in in_order])
    return {agent_id: AgentCopy(row) for agent_id, row in read_agents(connection, in_order).items()}


def read_agents(connection: Connection, agent_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """The agents' rows, locked in order."""
    if not agent_ids:
        return {}
    found = connection.execute(_LOCKED, {"agent_ids": list(agent_ids)})
    return {row["agent_id"]: dict(row) for row in found.mappings()}


def free_agents(connection: Connection, agent_ids: Collection[str]) -> set[str]:
    """Which of the agents nobody else holds, among those that are there."""
    agents = tables.agents
    statement = (
        select(agents.c.agent_id)
        .where(agents.c.agent_id.in_(sorted(agent_ids)))
        .order_by(agents.c.agent_id)
        .with_for_update(skip_locked=True)
    )
    return set(connection.execute(statement).scalars())


def known_agents(connection: Connection, agent_ids: Collection[str]) -> set[str]:
    agents = tables.agents
    statement = select(agents.c.agent_id).where(agents.c.agent_id.in_(sorted(agent_ids)))
    return set(connection.execute(statement).scalars())


def look(
    connection: Connection, entries: Sequence[Entry], agents: dict[str, AgentCopy], now_ms: int
) -> Picture:
    """Read what is known of the rooms, runs, messages and persons that a batch is about."""
    rooms: set[tuple[str, str]] = set()
    runs: set[tuple[str, int, str]] = set()
    messages: set[tuple[str, str, str]] = set()
    editing: set[str] = set()
    people: set[tuple[str, str]] = set()
    for entry in entries:
        event = entry.event
        if event is None or entry.agent_id is None:
            continue
        data: Any = event.data
        agent_id = event.agent_id
        if (room := getattr(data, "room", None)) is not None:
            rooms.add((agent_id, room.id))
        if isinstance(data, RunCompleted | MessagesRecorded):
            runs.add((agent_id, agents[agent_id].generation, data.run_id))
            if data.user_id is not None:
                people.add((agent_id, data.user_id))
            for message in entry.messages:
                messages.add((agent_id, message.room_id, message.message_id))
                if message.author_kind == "person":
                    people.add((agent_id, message.author_id))
        elif isinstance(data, MessageEdited | MessageDeleted):
            messages.add((agent_id, data.room.id, data.message_id))
            editing.add(agent_id)
        elif isinstance(data, PersonDeleted):
            people.add((agent_id, data.person_id))
    picture = Picture(now_ms, agents)
    _look_at_rooms(connection, rooms, picture)
    for row in rows.fetch(
        connection,
        tables.runs,
        ("agent_id", "generation", "run_id"),
        runs,
        ("agent_id", "run_id", "ended_at_ms"),
    ):
        picture.runs[row[0], row[1]] = row[2]
    _look_at_messages(connection, messages, picture)
    _look_at_persons(connection, people, editing, picture)
    return picture


def _look_at_rooms(connection: Connection, wanted: set[tuple[str, str]], picture: Picture) -> None:
    columns = (*_ROOM_KEY, "generation", "deleted_at_ms", *_ROOM)
    for row in rows.fetch(connection, tables.rooms, _ROOM_KEY, wanted, columns):
        picture.rooms[row[0], row[1]] = RoomCopy(*row)


def _look_at_messages(connection: Connection, wanted: set[tuple[str, str, str]], picture: Picture) -> None:
    columns = (*_MESSAGE_KEY, "arrival", "revision", "state", "read_by", "quarantine_id")
    for row in rows.fetch(connection, tables.messages, _MESSAGE_KEY, wanted, columns):
        picture.messages[row[0], row[1], row[2]] = MessageCopy(*row)


def _look_at_persons(
    connection: Connection, wanted: set[tuple[str, str]], editing: set[str], picture: Picture
) -> None:
    keys = ("agent_id", "person_id")
    for agent_id, person_id, at_ms in rows.fetch(
        connection, tables.persons, keys, wanted, (*keys, "deleted_at_ms")
    ):
        picture.erased_persons.setdefault(agent_id, {})[person_id] = at_ms
    persons = tables.persons
    if editing:
        last = (
            select(persons.c.agent_id, func.max(persons.c.deleted_at_ms))
            .where(persons.c.agent_id.in_(sorted(editing)))
            .group_by(persons.c.agent_id)
        )
        picture.last_person_erased_ms = {row[0]: row[1] for row in connection.execute(last)}


def write(connection: Connection, plan: Plan) -> None:
    """Write rooms, runs and messages of a plan. The agents' rows come last, see `write_agents`."""
    picture = plan.picture
    write_rooms(connection, picture.rooms.values())
    rows.insert(connection, tables.runs, _RUN, [_run(run) for run in plan.runs])
    _write_messages(connection, picture.messages.values())
    ends = [(*key, at_ms, offset, False) for key, (at_ms, offset) in sorted(plan.ends.items())]
    rows.update(
        connection,
        tables.messages,
        ("agent_id", "run_id"),
        ("said_at_ms", "offset_minutes", "undated"),
        ends,
        where="undated",
    )


def write_rooms(connection: Connection, rooms: Collection[RoomCopy]) -> None:
    fresh = [(*key, *values) for room, key, values in map(_room, rooms) if room.fresh]
    rows.insert(connection, tables.rooms, _ROOM_KEY + _ROOM, fresh)
    changed = [(*key, *values) for room, key, values in map(_room, rooms) if room.changed and not room.fresh]
    rows.update(connection, tables.rooms, _ROOM_KEY, _ROOM, changed)


def _room(room: RoomCopy) -> tuple[RoomCopy, tuple[str, str], tuple[Any, ...]]:
    values = (
        room.title,
        room.last_activity_ms,
        room.conversation_id,
        room.compaction,
        room.compaction_counted,
        room.boundary_message_id,
    )
    return room, (room.agent_id, room.room_id), values


def _run(run: RunRow) -> tuple[Any, ...]:
    return (
        run.agent_id,
        run.generation,
        run.run_id,
        run.room_id,
        run.user_id,
        run.status,
        run.counted,
        run.started_at_ms,
        run.ended_at_ms,
    )


def _write_messages(connection: Connection, messages: Collection[MessageCopy]) -> None:
    fresh, told, rewritten = [], [], []
    for message in messages:
        key = (message.agent_id, message.room_id, message.message_id)
        standing = (message.arrival, message.state, message.revision)
        if message.fresh:
            fresh.append((*key, *standing, *_told(message), message.parts))
            continue
        if message.told is not None:
            told.append((*key, *standing, *_told(message)))
        if message.rewritten:
            rewritten.append((*key, *standing, message.parts, message.read_by))
    rows.insert(connection, tables.messages, (*_MESSAGE_KEY, *_STANDING, *_TOLD, "parts"), fresh)
    rows.update(connection, tables.messages, _MESSAGE_KEY, _STANDING + _TOLD, told)
    rows.update(connection, tables.messages, _MESSAGE_KEY, (*_STANDING, "parts", "read_by"), rewritten)


def _told(message: MessageCopy) -> tuple[Any, ...]:
    when = (message.said_at_ms, message.offset_minutes, message.undated)
    told = message.told
    if told is None:
        return (*_UNTOLD, *when)
    return (
        told.role,
        told.author_id,
        told.author_name,
        told.author_kind,
        told.user_id,
        told.run_id,
        told.run_started_ms,
        told.position,
        told.ordinal,
        *when,
    )


def write_agents(connection: Connection, changes: Iterable[tuple[AgentCopy, Wake]], boot_id: str) -> None:
    """One UPDATE for each agent of the batch, in the order of their ids."""
    values = []
    for agent, wake in changes:
        row = agent.row
        values.append(
            (
                row["agent_id"],
                agent.arrivals,
                agent.became_unread,
                agent.left_unread,
                agent.runs,
                agent.compactions,
                row["runs_served"] if row["boot_id"] == boot_id else row["runs_total"],
                boot_id,
                agent.last_success_ms,
                agent.name,
                agent.model,
                agent.model_window,
                agent.model_at_ms,
                wake.wake_at_ms,
                wake.hints,
                wake.left_for,
                wake.left_until_ms,
                *wake.due,
            )
        )
    rows.update(connection, tables.agents, ("agent_id",), _AGENT, sorted(values, key=lambda row: str(row[0])))
