"""One entry of a stream, read: an event with its messages made ready, or why there is none. Pure.

All that can be done before the transaction is done here, so that locks are held for statements only, and so
that an entry that breaks our reader is found alone, among good ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from takeaways.schemas.errors import DeadLetterReason, UnreadableMessage
from takeaways.schemas.events import AgentDeleted, Event, PersonDeleted, RoomDeleted, decode, encode, to_ms
from takeaways.schemas.ids import why_bad
from takeaways.schemas.queues import FIELD
from takeaways.workers.intake.deadletters import DeadLetter, whole
from takeaways.workers.intake.messages import IncomingMessage, is_of_a_room, messages_of

_FIELD: Final = FIELD.encode()
_FORGETTING: Final = (AgentDeleted, RoomDeleted, PersonDeleted)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as intake works with it. Either `event` is there, or `reason` and `detail` say why not.

    `agent_id` is the agent whose row must be locked to take it in; None where nothing is stored for one.
    `forgets` says that it asks to forget an agent, a room or a person, in its place in the stream.
    """

    stream: str
    entry_id: str
    raw: bytes
    event: Event | None = None
    body_hash: str = ""
    at_ms: int = 0
    messages: tuple[IncomingMessage, ...] = ()
    agent_id: str | None = None
    forgets: bool = False
    reason: DeadLetterReason | None = None
    detail: str = ""

    @classmethod
    def of(cls, event: Event, entry_id: str = "0-1") -> Self:
        """The entry that a producer would have made of an event."""
        return cls.with_event(event.data.STREAM, entry_id, encode(event), event)

    @classmethod
    def with_event(cls, stream: str, entry_id: str, raw: bytes, event: Event) -> Self:
        """The entry of an event that was read from `raw`."""
        forgets = isinstance(event.data, _FORGETTING)
        return cls(
            stream,
            entry_id,
            raw,
            event,
            body_hash=event.body_hash,
            at_ms=to_ms(event.time),
            messages=messages_of(event),
            agent_id=event.agent_id if forgets or is_of_a_room(event.data) else None,
            forgets=forgets,
        )

    def dead_letter(self, reason: DeadLetterReason, detail: str) -> DeadLetter:
        """The entry as a dead letter, with as much of its identity as can be made out."""
        if self.event is not None:
            source, event_id, agent_id = self.event.source, self.event.id, self.event.agent_id
            return DeadLetter(
                self.stream, self.entry_id, reason, detail, self.raw, source, event_id, agent_id
            )
        found = _identity(self.raw)
        return DeadLetter(self.stream, self.entry_id, reason, detail, self.raw, *found)


def read_entry(stream: str, entry_id: str, fields: Mapping[bytes, bytes]) -> Entry:
    """Read one entry. Never raises: what cannot be read comes back with the reason and its bytes."""
    if set(fields) != {_FIELD}:
        detail = f"an entry has the one field {FIELD!r}, this one has {len(fields)} fields"
        return Entry(stream, entry_id, whole(fields), reason=DeadLetterReason.NOT_AN_EVENT, detail=detail)
    raw = fields[_FIELD]
    try:
        return Entry.with_event(stream, entry_id, raw, decode(raw, stream=stream))
    except UnreadableMessage as problem:
        return Entry(stream, entry_id, raw, reason=problem.reason, detail=problem.detail)
    except Exception as error:  # whatever it is, the next entry must not wait behind it
        detail = f"it cannot be read: {type(error).__name__}"  # the error's own text might quote a message
        return Entry(stream, entry_id, raw, reason=DeadLetterReason.BAD_FIELD, detail=detail)


def _identity(raw: bytes) -> tuple[str | None, str | None, str | None]:
    """Source, event id and agent id of bytes that are no event, where they can be made out."""
    try:
        found: Any = json.loads(raw)
    except (ValueError, RecursionError):
        return None, None, None
    if not isinstance(found, dict):
        return None, None, None
    source, event_id, agent_id = (
        value if why_bad(value := found.get(name)) is None else None for name in ("source", "id", "subject")
    )
    return source, event_id, agent_id
