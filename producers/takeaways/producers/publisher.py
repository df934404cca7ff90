"""The calls that services make, shared by everything that publishes; `_send` is what differs."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, Generic, Literal, TypeVar

from takeaways.producers.entries import stamped
from takeaways.producers.identity import event_id
from takeaways.producers.messages import AnyMessage, as_message, as_messages, made, name_of
from takeaways.schemas.errors import BadInput
from takeaways.schemas.events import (
    AgentDeleted,
    Conversation,
    Event,
    MessageDeleted,
    MessageEdited,
    MessagesRecorded,
    PersonDeleted,
    RoomCompacted,
    RoomDeleted,
    RoomRef,
    RunCompleted,
)
from takeaways.schemas.ids import derived, why_bad

SOURCE: Final = "takeaways.producers"

Sent = TypeVar("Sent")


def utc_now() -> datetime:
    """The time of this machine's clock."""
    return datetime.now(UTC)


class Publisher(ABC, Generic[Sent]):
    """The events as calls with plain arguments.

    Ids are text of 1 to 255 code points. A room is its id, or a `RoomRef` with title and kind; a conversation
    is its id, with `compaction` counting how often the platform compacted it. Messages are dicts as the model
    APIs have them (Anthropic content blocks, OpenAI chat messages, plain strings as content), SDK objects or
    `Message`. Times are `datetime` with an offset. `generation` is the agent's, where the platform counts it.

    The same call gives the same event id, so that repeating it after a crash changes nothing; only deletions
    get a new id each time, unless they name a generation. Bad arguments raise `BadInput` and send nothing.
    """

    def __init__(self, *, source: str = SOURCE, now: Callable[[], datetime] = utc_now) -> None:
        if problem := why_bad(source):
            raise BadInput(f"source: {problem}")
        self.source = source
        self._now = now

    @abstractmethod
    def _send(self, event: Event) -> Sent: ...

    def publish(self, event: Event) -> Sent:
        """Publish an event that was made elsewhere. A large one is cut and split like any other."""
        return self._send(event)

    def run_completed(
        self,
        *,
        agent_id: str,
        room: str | RoomRef,
        run_id: str,
        status: Literal["succeeded", "failed"] = "succeeded",
        messages: Iterable[AnyMessage] = (),
        conversation: str | Conversation | None = None,
        compaction: int | None = None,
        model: str | None = None,
        window: int | None = None,
        agent_name: str | None = None,
        user_id: str | None = None,
        started_at: datetime | None = None,
        ended_at: datetime | None = None,
        first_ordinal: int = 0,
        generation: int | None = None,
        time: datetime | None = None,
        traceparent: str | None = None,
    ) -> Sent:
        """The agent ended a run in a room; `messages` are those that are new since its last run there.

        A retried run is another run and has an id of its own. `window` is the context window of `model`, in
        tokens. `user_id` says for whom the agent worked. `first_ordinal` is the number of this run's messages
        that `messages_recorded` sent before. `time` is when it happened: by default `ended_at`, else now.
        """
        new = as_messages(messages, f"{name_of(RunCompleted)}: messages")
        return self._made(
            RunCompleted,
            agent_id,
            time=time or ended_at,
            traceparent=traceparent,
            agent=_agent(agent_name, model, window, generation),
            room=_room(room),
            run_id=run_id,
            status=status,
            conversation=_conversation(conversation, compaction),
            user_id=user_id,
            started_at=started_at,
            ended_at=ended_at,
            messages=stamped(new, run_id, first_ordinal) if first_ordinal else new,
        )

    def messages_recorded(
        self,
        *,
        agent_id: str,
        room: str | RoomRef,
        run_id: str,
        messages: Iterable[AnyMessage],
        first_ordinal: int | None = None,
        conversation: str | Conversation | None = None,
        compaction: int | None = None,
        model: str | None = None,
        window: int | None = None,
        agent_name: str | None = None,
        user_id: str | None = None,
        started_at: datetime | None = None,
        generation: int | None = None,
        time: datetime | None = None,
        traceparent: str | None = None,
    ) -> Sent:
        """Messages of a run that goes on, so that they are safe before it ends. They count with the run.

        `first_ordinal` is the place of the first one in the whole run, from 0: it may be left out where every
        message has an id of its own, because without either two messages could not be told apart.
        """
        new = as_messages(messages, f"{name_of(MessagesRecorded)}: messages")
        if first_ordinal is None and any(message.id is None and message.ordinal is None for message in new):
            raise BadInput(
                f"{name_of(MessagesRecorded)} of agent {agent_id!r}: a message has no id; give each an id,"
                " or say with first_ordinal how many messages of this run went before"
            )
        return self._made(
            MessagesRecorded,
            agent_id,
            time=time,
            traceparent=traceparent,
            agent=_agent(agent_name, model, window, generation),
            room=_room(room),
            run_id=run_id,
            conversation=_conversation(conversation, compaction),
            user_id=user_id,
            started_at=started_at,
            messages=new if first_ordinal is None else stamped(new, run_id, first_ordinal),
        )

    def room_compacted(
        self,
        *,
        agent_id: str,
        room: str | RoomRef,
        conversation: str | Conversation,
        compaction: int | None = None,
        trigger: str | None = None,
        tokens_before: int | None = None,
        last_message_id: str | None = None,
        model: str | None = None,
        window: int | None = None,
        agent_name: str | None = None,
        generation: int | None = None,
        time: datetime | None = None,
        traceparent: str | None = None,
    ) -> Sent:
        """The platform compacted a room's conversation; `compaction` is the number it now has, from 1.

        `trigger` says why in the platform's words, `last_message_id` is the last message before the boundary.
        """
        context = _conversation(conversation, compaction)
        if compaction is None and not isinstance(conversation, Conversation):
            raise BadInput(
                f"{name_of(RoomCompacted)} of agent {agent_id!r}: say with compaction how often this"
                " conversation has been compacted now: 1 after the first time"
            )
        return self._made(
            RoomCompacted,
            agent_id,
            time=time,
            traceparent=traceparent,
            agent=_agent(agent_name, model, window, generation),
            room=_room(room),
            conversation=context,
            trigger=trigger,
            tokens_before=tokens_before,
            last_message_id=last_message_id,
        )

    def message_edited(
        self,
        *,
        agent_id: str,
        room: str | RoomRef,
        message_id: str,
        revision: int,
        message: AnyMessage,
        generation: int | None = None,
        time: datetime | None = None,
        traceparent: str | None = None,
    ) -> Sent:
        """A message has new content. `revision` counts from 1; the highest wins, whatever arrives first."""
        return self._made(
            MessageEdited,
            agent_id,
            time=time,
            traceparent=traceparent,
            agent=_agent(generation=generation),
            room=_room(room),
            message_id=message_id,
            revision=revision,
            message=as_message(message, f"{name_of(MessageEdited)}: message"),
        )

    def message_deleted(
        self,
        *,
        agent_id: str,
        room: str | RoomRef,
        message_id: str,
        revision: int,
        generation: int | None = None,
        time: datetime | None = None,
        traceparent: str | None = None,
    ) -> Sent:
        """A message is gone. `revision` counts edits and deletion together; the highest wins."""
        return self._made(
            MessageDeleted,
            agent_id,
            time=time,
            traceparent=traceparent,
            agent=_agent(generation=generation),
            room=_room(room),
            message_id=message_id,
            revision=revision,
        )

    def room_deleted(
        self,
        *,
        agent_id: str,
        room: str | RoomRef,
        generation: int | None = None,
        time: datetime | None = None,
        traceparent: str | None = None,
    ) -> Sent:
        """Forget a room: its messages and what rests on them. What is said there after `time` is new."""
        return self._made(
            RoomDeleted,
            agent_id,
            time=time,
            traceparent=traceparent,
            agent=_agent(generation=generation),
            room=_room(room),
        )

    def agent_deleted(
        self,
        *,
        agent_id: str,
        generation: int | None = None,
        time: datetime | None = None,
        traceparent: str | None = None,
    ) -> Sent:
        """Forget an agent. One made again under the same id, with events after `time`, starts empty."""
        agent = _agent(generation=generation)
        return self._made(AgentDeleted, agent_id, time=time, traceparent=traceparent, agent=agent)

    def person_deleted(
        self,
        *,
        agent_id: str,
        person_id: str,
        generation: int | None = None,
        time: datetime | None = None,
        traceparent: str | None = None,
    ) -> Sent:
        """Forget a person for this agent: what they said and what rests on it. Once for each agent."""
        return self._made(
            PersonDeleted,
            agent_id,
            time=time,
            traceparent=traceparent,
            agent=_agent(generation=generation),
            person_id=person_id,
        )

    def _made(
        self,
        model: type[Any],
        agent_id: str,
        *,
        time: datetime | None,
        traceparent: str | None,
        **fields: Any,
    ) -> Sent:
        if problem := why_bad(agent_id):
            raise BadInput(f"{name_of(model)}: agent_id: {problem}")
        given = {name: value for name, value in fields.items() if value is not None}
        data: Any = made(model, f"{name_of(model)} of agent {agent_id!r}", given)
        event = Event.of(
            data,
            id="to be derived",
            source=self.source,
            agent_id=agent_id,
            time=time or self._now(),
            traceparent=traceparent,
        )
        return self._send(replace(event, id=event_id(event) or derived(name_of(model), uuid.uuid4().hex)))


class Composer(Publisher[Event]):
    """Makes events and sends nothing: for an outbox table, or for `publish_many`."""

    def _send(self, event: Event) -> Event:
        return event


def _agent(
    name: str | None = None,
    model: str | None = None,
    window: int | None = None,
    generation: int | None = None,
) -> dict[str, Any]:
    found = {"name": name, "model": model, "window": window, "generation": generation}
    return {field: value for field, value in found.items() if value is not None}


def _room(room: str | RoomRef) -> Any:
    return {"id": room} if isinstance(room, str) else room


def _conversation(conversation: str | Conversation | None, compaction: int | None) -> Any:
    if conversation is None:
        if compaction is not None:
            raise BadInput("compaction: it counts for a conversation; name the conversation too")
        return None
    if isinstance(conversation, Conversation):
        if compaction is not None:
            raise BadInput(
                "compaction: give it in the Conversation or beside the conversation's id, not twice"
            )
        return conversation
    return {"id": conversation, "compaction": compaction or 0}
