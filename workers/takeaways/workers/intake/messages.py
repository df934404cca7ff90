"""Messages of an event as rows: identity, author, time and the one internal form of what was said. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from takeaways.schemas.events import (
    AnyData,
    Author,
    Event,
    Message,
    MessageEdited,
    MessagesRecorded,
    RunCompleted,
    to_ms,
)
from takeaways.schemas.ids import message_id
from takeaways.schemas.secrets import mask_label, mask_parts
from takeaways.schemas.transcripts import PARTS, cut, normalise

# Producers cut here too; a reader does it again, because not every producer is ours.
MAX_MESSAGE_BYTES: Final = 64 * 1024
NO_PARTS: Final = "[]"
_SOMEBODY: Final = "user"


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """One message of an event. `parts` is JSON; `undated` says that its time stands in for its run's end."""

    room_id: str
    message_id: str
    role: str
    author_id: str
    author_name: str | None
    author_kind: str
    user_id: str | None
    run_id: str | None
    run_started_ms: int | None
    position: int | None
    ordinal: int
    said_at_ms: int
    offset_minutes: int
    undated: bool
    parts: str


def messages_of(event: Event) -> tuple[IncomingMessage, ...]:
    """The messages that an event brings, in its order; none for events of other types.

    An edit brings the new content under the message's id.
    """
    data = event.data
    if isinstance(data, RunCompleted | MessagesRecorded):
        run_started_ms = to_ms(data.started_at) if data.started_at else None
        ended_at = data.ended_at if isinstance(data, RunCompleted) else None
        return tuple(
            _incoming(
                event,
                message,
                room_id=data.room.id,
                id_=message.id or message_id(data.run_id, _ordinal(message, place)),
                user_id=data.user_id,
                run_id=data.run_id,
                run_started_ms=run_started_ms,
                ordinal=_ordinal(message, place),
                otherwise_at=ended_at or event.time,
                undated=message.time is None and isinstance(data, MessagesRecorded),
            )
            for place, message in enumerate(data.messages)
        )
    if isinstance(data, MessageEdited):
        return (
            _incoming(
                event,
                data.message,
                room_id=data.room.id,
                id_=data.message_id,
                ordinal=data.message.ordinal or 0,
                otherwise_at=event.time,
            ),
        )
    return ()


def run_end(event: Event, data: RunCompleted) -> datetime:
    """When a run ended; a producer that does not say means the event's own time."""
    return data.ended_at or event.time


def offset_minutes(moment: datetime) -> int:
    """Minutes east of UTC that the sender's clock showed."""
    offset = moment.utcoffset()
    return 0 if offset is None else round(offset.total_seconds() / 60)


def author_of(message: Message, *, agent_id: str, user_id: str | None) -> Author:
    """Who said it: what the message says, else what its role tells."""
    if message.author is not None:
        return message.author
    match message.role:
        case "user":
            return Author(id=user_id or _SOMEBODY, name=message.name, kind="person")
        case "assistant":
            return Author(id=agent_id, name=message.name, kind="agent")
        case "tool" | "function":
            return Author(id="tool", name=message.name, kind="tool")
        case _:
            return Author(id="system", name=message.name, kind="system")


def is_of_a_room(data: AnyData) -> bool:
    """Whether the event belongs to a room. Task steps and document work leave nothing behind."""
    room = getattr(data, "room", None)
    return room is None or room.kind == "room"


def _ordinal(message: Message, place: int) -> int:
    return place if message.ordinal is None else message.ordinal


def _incoming(
    event: Event,
    message: Message,
    *,
    room_id: str,
    id_: str,
    ordinal: int,
    otherwise_at: datetime,
    user_id: str | None = None,
    run_id: str | None = None,
    run_started_ms: int | None = None,
    undated: bool = False,
) -> IncomingMessage:
    author = author_of(message, agent_id=event.agent_id, user_id=user_id)
    said_at = message.time or otherwise_at
    return IncomingMessage(
        room_id=room_id,
        message_id=id_,
        role=message.role,
        author_id=author.id,
        author_name=mask_label(author.name),
        author_kind=author.kind,
        user_id=user_id,
        run_id=run_id,
        run_started_ms=run_started_ms,
        position=message.position,
        ordinal=ordinal,
        said_at_ms=to_ms(said_at),
        offset_minutes=offset_minutes(said_at),
        undated=undated,
        # Masked while it is whole: a cut would leave half a secret that nobody knows any more.
        parts=PARTS.dump_json(cut(mask_parts(normalise(message)), MAX_MESSAGE_BYTES)).decode("utf-8"),
    )
