"""What a batch of events changes: counting, identity, order and revisions. Pure; nothing here does I/O.

The plan works on copies of the rows that the batch is about, in the order of the stream, so that an edit
finds the message that came two entries before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from takeaways.schemas.events import (
    AnyData,
    Conversation,
    Event,
    MessageDeleted,
    MessageEdited,
    MessagesRecorded,
    RoomCompacted,
    RunCompleted,
    to_ms,
)
from takeaways.schemas.secrets import mask_label
from takeaways.workers.intake.admission import is_of_erased_person, is_outdated
from takeaways.workers.intake.entries import Entry
from takeaways.workers.intake.messages import NO_PARTS, IncomingMessage, offset_minutes, run_end
from takeaways.workers.intake.picture import (
    AWAITED,
    DELETED,
    STORED,
    AgentCopy,
    MessageCopy,
    MessageKey,
    Picture,
    RoomCopy,
    RunKey,
)
from takeaways.workers.intake.taken import Taken

EDITED = "edited"
SUCCEEDED = "succeeded"


@dataclass(slots=True)
class RunRow:
    """A run that was not known before."""

    agent_id: str
    generation: int
    run_id: str
    room_id: str
    user_id: str | None
    status: str
    counted: bool
    started_at_ms: int | None
    ended_at_ms: int


@dataclass(slots=True)
class Plan:
    """The outcome of each entry in order, and the rows to write; the copies in the picture hold the rest."""

    picture: Picture
    outcomes: list[Taken] = field(default_factory=list)
    runs: list[RunRow] = field(default_factory=list)
    ends: dict[RunKey, tuple[int, int]] = field(default_factory=dict)
    stored: int = 0


def plan(entries: Sequence[Entry], picture: Picture) -> Plan:
    """Plan a batch without deletions of agents, rooms or persons. Changes the copies in `picture`."""
    made = Plan(picture)
    planner = _Planner(picture, made)
    made.outcomes.extend(planner.take(entry) for entry in entries)
    return made


class _Planner:
    def __init__(self, picture: Picture, made: Plan) -> None:
        self._picture = picture
        self._plan = made
        self._undated: dict[RunKey, list[MessageCopy]] = {}

    def take(self, entry: Entry) -> Taken:
        event = entry.event
        assert event is not None  # noqa: S101 - entries without one have gone to the dead letters
        if entry.agent_id is None:
            return Taken.NOT_A_ROOM
        data: Any = event.data
        agent = self._picture.agents[event.agent_id]
        room = self._picture.rooms.get((event.agent_id, data.room.id))
        if is_outdated(data, entry.at_ms, agent, room):
            return Taken.OUTDATED
        if room is None:
            room = RoomCopy(event.agent_id, data.room.id, fresh=True)
            self._picture.rooms[event.agent_id, data.room.id] = room
        self._name(data, agent, room)
        match data:
            case RunCompleted():
                return self._run(event, data, entry.messages, agent, room)
            case MessagesRecorded():
                return self._recorded(event, data, entry.messages, agent, room)
            case RoomCompacted():
                return self._compacted(event, data, agent, room)
            case MessageEdited():
                return self._edited(event, data, entry.messages[0], agent, room)
            case MessageDeleted():
                return self._deleted(event, data, agent, room)
        raise AssertionError(f"{type(data).__name__} is not planned here")

    def _name(self, data: AnyData, agent: AgentCopy, room: RoomCopy) -> None:
        name = mask_label(data.agent.name)
        if name and name != agent.name:
            agent.name, agent.touched = name, True
        title = mask_label(data.room.title)  # type: ignore[union-attr] # only events of a room come here
        if title and title != room.title:
            room.title, room.changed = title, True

    def _run(
        self,
        event: Event,
        data: RunCompleted,
        messages: Sequence[IncomingMessage],
        agent: AgentCopy,
        room: RoomCopy,
    ) -> Taken:
        ended_at = run_end(event, data)
        ended_at_ms = to_ms(ended_at)
        self._converse(data.conversation, ended_at_ms, room)
        self._run_on(data, ended_at_ms, agent)
        is_new = (event.agent_id, data.run_id) not in self._picture.runs
        if is_new:
            self._count(event, data, ended_at_ms, agent, room)
            self._date(event, data.run_id, ended_at_ms, offset_minutes(ended_at))
        self._store(event, messages, agent, room)
        self._active(room, ended_at_ms)
        return Taken.TAKEN_IN if is_new else Taken.REPEATED

    def _count(
        self, event: Event, data: RunCompleted, ended_at_ms: int, agent: AgentCopy, room: RoomCopy
    ) -> None:
        counted = data.status == SUCCEEDED
        started_at_ms = to_ms(data.started_at) if data.started_at else None
        self._picture.runs[event.agent_id, data.run_id] = ended_at_ms
        self._plan.runs.append(
            RunRow(
                agent_id=event.agent_id,
                generation=agent.generation,
                run_id=data.run_id,
                room_id=room.room_id,
                user_id=self._user(event.agent_id, data.user_id, ended_at_ms),
                status=data.status,
                counted=counted,
                started_at_ms=started_at_ms,
                ended_at_ms=ended_at_ms,
            )
        )
        agent.touched = True
        if counted:
            agent.runs += 1
            # A clock that runs ahead must not put off the idle timer.
            ended_ms = min(ended_at_ms, self._picture.now_ms)
            agent.last_success_ms = max(agent.last_success_ms or ended_ms, ended_ms)

    def _run_on(self, data: RunCompleted, ended_at_ms: int, agent: AgentCopy) -> None:
        """The agent's model is that of its latest run, whatever arrives last."""
        if data.agent.model is None and data.agent.window is None:
            return
        ended_ms = min(ended_at_ms, self._picture.now_ms)
        if agent.model_at_ms is None or ended_ms >= agent.model_at_ms:
            agent.model, agent.model_window = data.agent.model, data.agent.window
            agent.model_at_ms, agent.touched = ended_ms, True

    def _date(self, event: Event, run_id: str, ended_at_ms: int, offset: int) -> None:
        """Messages without a time that were recorded ahead of the run's end were said at it."""
        key = event.agent_id, run_id
        self._plan.ends[key] = ended_at_ms, offset
        for message in self._undated.pop(key, ()):
            message.said_at_ms, message.offset_minutes, message.undated = ended_at_ms, offset, False

    def _recorded(
        self,
        event: Event,
        data: MessagesRecorded,
        messages: Sequence[IncomingMessage],
        agent: AgentCopy,
        room: RoomCopy,
    ) -> Taken:
        self._converse(data.conversation, to_ms(event.time), room)
        kept = self._store(
            event, messages, agent, room, self._picture.runs.get((event.agent_id, data.run_id))
        )
        return Taken.TAKEN_IN if kept or not messages else Taken.OUTDATED

    def _store(
        self,
        event: Event,
        messages: Sequence[IncomingMessage],
        agent: AgentCopy,
        room: RoomCopy,
        run_ended_ms: int | None = None,
    ) -> int:
        """Store what is new. Returns how many messages were not kept out by a person's erasure."""
        erased = self._picture.erased_persons.get(event.agent_id, {})
        kept = 0
        for message in messages:
            said_at_ms, undated = message.said_at_ms, message.undated
            if undated and run_ended_ms is not None:
                said_at_ms, undated = run_ended_ms, False
            if erased and is_of_erased_person(message, said_at_ms, erased):
                continue
            kept += 1
            key = event.agent_id, room.room_id, message.message_id
            known = self._picture.messages.get(key)
            if known is not None and known.arrival:
                continue  # it came before, in another event of the same run or in a repeat
            if known is None:
                known = self._new(key, STORED, message)
            self._arrive(known, message, agent, said_at_ms, undated=undated)
            self._active(room, said_at_ms)
        return kept

    def _arrive(
        self,
        stored: MessageCopy,
        message: IncomingMessage,
        agent: AgentCopy,
        said_at_ms: int,
        *,
        undated: bool,
    ) -> None:
        """The message itself is here: what an edit or a deletion that came first has said stands."""
        stored.told, stored.arrival = message, agent.next_arrival()
        stored.said_at_ms, stored.offset_minutes, stored.undated = said_at_ms, message.offset_minutes, undated
        if stored.state == AWAITED:
            stored.state = STORED
        if stored.state == STORED:
            agent.became_unread += 1
            self._plan.stored += 1
        agent.touched = True
        if undated and message.run_id is not None:
            self._undated.setdefault((stored.agent_id, message.run_id), []).append(stored)

    def _compacted(self, event: Event, data: RoomCompacted, agent: AgentCopy, room: RoomCopy) -> Taken:
        number, same = data.conversation.compaction, data.conversation.id == room.conversation_id
        if same and room.compaction_counted is not None and number <= room.compaction_counted:
            return Taken.REPEATED
        agent.compactions += 1
        agent.touched = True
        self._converse(data.conversation, to_ms(event.time), room)
        if data.conversation.id == room.conversation_id:
            room.compaction_counted, room.changed = number, True
            room.boundary_message_id = data.last_message_id
        return Taken.TAKEN_IN

    def _converse(self, conversation: Conversation | None, at_ms: int, room: RoomCopy) -> None:
        """Follow the room's conversation; an event that is late does not bring an older one back."""
        if conversation is None:
            return
        if conversation.id == room.conversation_id:
            if conversation.compaction > room.compaction:
                room.compaction, room.changed = conversation.compaction, True
        elif room.conversation_id is None or at_ms >= (room.last_activity_ms or at_ms):
            room.conversation_id, room.compaction = conversation.id, conversation.compaction
            room.compaction_counted, room.boundary_message_id, room.changed = None, None, True

    def _edited(
        self, event: Event, data: MessageEdited, message: IncomingMessage, agent: AgentCopy, room: RoomCopy
    ) -> Taken:
        key = event.agent_id, room.room_id, data.message_id
        known = self._picture.messages.get(key)
        if known is None:
            if self._may_be_of_erased_person(event, message):
                return Taken.OUTDATED
            known = self._new(key, AWAITED, message)
        elif data.revision <= known.revision:
            return Taken.SUPERSEDED
        known.revision, known.parts, known.rewritten = data.revision, message.parts, True
        if not known.arrival:
            known.state = AWAITED
            return Taken.TAKEN_IN
        if known.state == STORED and known.read_by is not None:
            agent.withdraw(room.room_id, data.message_id, EDITED)
        was_unread = known.is_unread
        # A new place in the order of arrival: a job that reads the old words does not reach it.
        known.state, known.read_by, known.arrival = STORED, None, agent.next_arrival()
        if known.is_unread and not was_unread:
            agent.became_unread += 1
        agent.touched = True
        return Taken.TAKEN_IN

    def _deleted(self, event: Event, data: MessageDeleted, agent: AgentCopy, room: RoomCopy) -> Taken:
        key = event.agent_id, room.room_id, data.message_id
        known = self._picture.messages.get(key)
        if known is None:
            known = self._new(key, DELETED, None)
            known.said_at_ms = to_ms(event.time)
        elif data.revision <= known.revision:
            return Taken.SUPERSEDED
        if known.is_unread:
            agent.left_unread += 1
        elif known.state == STORED and known.read_by is not None:
            agent.withdraw(room.room_id, data.message_id, DELETED)
        known.revision, known.state, known.parts, known.rewritten = data.revision, DELETED, NO_PARTS, True
        agent.touched = True
        return Taken.TAKEN_IN

    def _new(self, key: MessageKey, state: str, message: IncomingMessage | None) -> MessageCopy:
        made = MessageCopy(*key, arrival=0, revision=0, state=state, told=message, fresh=True)
        if message is not None:
            made.parts = message.parts
            made.said_at_ms, made.offset_minutes = message.said_at_ms, message.offset_minutes
        self._picture.messages[key] = made
        return made

    def _may_be_of_erased_person(self, event: Event, message: IncomingMessage) -> bool:
        """An edit from before an erasure whose message is not here may be of one that was erased."""
        at_ms = to_ms(event.time)
        return at_ms <= self._picture.last_person_erased_ms.get(event.agent_id, at_ms - 1)

    def _user(self, agent_id: str, user_id: str | None, at_ms: int) -> str | None:
        if user_id is None:
            return None
        erased_ms = self._picture.erased_persons.get(agent_id, {}).get(user_id)
        return None if erased_ms is not None and at_ms <= erased_ms else user_id

    def _active(self, room: RoomCopy, at_ms: int) -> None:
        at_ms = min(at_ms, self._picture.now_ms)
        if room.last_activity_ms is None or at_ms > room.last_activity_ms:
            room.last_activity_ms, room.changed = at_ms, True
