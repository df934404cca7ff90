"""How one event becomes entries of a stream: the too long is cut and marked, the too large is split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from takeaways.producers.identity import event_id
from takeaways.schemas.errors import BadInput
from takeaways.schemas.events import (
    MAX_ENTRY_BYTES,
    Event,
    Message,
    MessageEdited,
    MessagesRecorded,
    RunCompleted,
    encode,
    to_json,
)
from takeaways.schemas.ids import message_id
from takeaways.schemas.transcripts import PARTS, cut, normalise

_AROUND_BYTES: Final = 4 * 1024  # the envelope and the fields beside the messages, generously


class Entry(NamedTuple):
    """An entry to be: the stream that it goes to, the bytes of its one field, the event that it carries."""

    stream: str
    payload: bytes
    event_id: str


@dataclass(frozen=True, slots=True)
class Limits:
    """How large things may be on the wire. Data over `compress_over_bytes` travels gzipped; None: never."""

    message_bytes: int = 64 * 1024
    entry_bytes: int = 1024 * 1024
    compress_over_bytes: int | None = None

    def __post_init__(self) -> None:
        if not 1_024 <= self.message_bytes <= self.entry_bytes <= MAX_ENTRY_BYTES // 4:
            raise BadInput(
                "the limits must be 1 KiB <= message_bytes <= entry_bytes <= 4 MiB (readers take 16 MiB, and"
                f" escapes need room): {self.message_bytes} and {self.entry_bytes} bytes were given"
            )


DEFAULT_LIMITS: Final = Limits()


def entries_of(event: Event, limits: Limits) -> list[Entry]:
    """The entries that carry `event`, in the order in which to send them. The last one has the event's id."""
    payload = encode(event)
    if len(payload) > limits.message_bytes:
        events = fitting(event, limits)
        return [
            _entry(fitted, encode(fitted, compress_over_bytes=limits.compress_over_bytes))
            for fitted in events
        ]
    if limits.compress_over_bytes is not None and len(payload) > limits.compress_over_bytes:
        payload = encode(event, compress_over_bytes=limits.compress_over_bytes)
    return [_entry(event, payload)]


def _entry(event: Event, payload: bytes) -> Entry:
    return Entry(event.data.STREAM, payload, event.id)


def fitting(event: Event, limits: Limits) -> list[Event]:
    """Cut the messages of an event that are over their limit, and split it where it still is over its own.

    A run becomes parts of `messages.recorded` and its `run.completed` without messages; recorded messages
    become several such events.
    """
    match event.data:
        case MessageEdited(message=message):
            (bounded,) = _bounded((message,), (event.body["message"],), limits)
            return [_with(event, message=bounded)]
        case RunCompleted(messages=messages) | MessagesRecorded(messages=messages) if messages:
            bounded_all = _bounded(messages, event.body["messages"], limits)
            fitted = event if bounded_all == messages else _with(event, messages=bounded_all)
            if len(to_json(fitted.body)) + _AROUND_BYTES <= limits.entry_bytes:
                return [fitted]
            return list(_split(fitted, limits))
    return [event]


def _bounded(messages: Sequence[Message], written: Sequence[Any], limits: Limits) -> tuple[Message, ...]:
    return tuple(
        _cut(Message.model_validate(json), limits.message_bytes)
        if len(to_json(json)) > limits.message_bytes
        else message
        for message, json in zip(messages, written, strict=True)
    )


def _cut(message: Message, max_bytes: int) -> Message:
    """The message as parts: bytes of files are only named in them, and what is still too long is cut."""
    parts = cut(normalise(message), max_bytes)
    kept = message.model_dump(include={"id", "role", "author", "time", "position", "ordinal", "name"})
    return Message.model_validate(
        {**kept, "content": PARTS.dump_python(parts, mode="json", exclude_defaults=False)}
    )


def _split(event: Event, limits: Limits) -> Iterator[Event]:
    data = event.data
    if not isinstance(data, RunCompleted | MessagesRecorded):
        raise TypeError(f"{data.TYPE} has no messages to split")
    groups = list(_groups(stamped(data.messages, data.run_id), limits.entry_bytes - _AROUND_BYTES))
    if isinstance(data, RunCompleted):
        shared = {
            name: getattr(data, name)
            for name in MessagesRecorded.model_fields.keys() & RunCompleted.model_fields
        }
        recorded = MessagesRecorded(**{**shared, "messages": ()})
        for part, group in enumerate(groups, 1):
            update = {"messages": group, "part": part, "parts": len(groups)}
            yield _renamed(replace_data(event, recorded.model_copy(update=update)))
        yield _with(event, messages=(), parts=len(groups))
        return
    for group in groups[:-1]:
        yield _renamed(_with(event, messages=group))
    yield _with(event, messages=groups[-1])


def stamped(messages: Iterable[Message], run_id: str, first_ordinal: int = 0) -> tuple[Message, ...]:
    """Give every message its place in the whole run, and an id where it has none."""
    placed = (
        (message, place if message.ordinal is None else message.ordinal)
        for place, message in enumerate(messages, first_ordinal)
    )
    return tuple(
        message.model_copy(update={"ordinal": ordinal, "id": message.id or message_id(run_id, ordinal)})
        for message, ordinal in placed
    )


def _groups(messages: tuple[Message, ...], max_bytes: int) -> Iterator[tuple[Message, ...]]:
    group: list[Message] = []
    used = 0
    for message in messages:
        size = len(to_json(message.model_dump(mode="json", exclude_none=True))) + 1
        if group and used + size > max_bytes:
            yield tuple(group)
            group, used = [], 0
        group.append(message)
        used += size
    yield tuple(group)


def replace_data(event: Event, data: Any) -> Event:
    """The same envelope around other data."""
    return Event.of(
        data,
        id=event.id,
        source=event.source,
        agent_id=event.agent_id,
        time=event.time,
        traceparent=event.traceparent,
    )


def _with(event: Event, **fields: Any) -> Event:
    return replace_data(event, event.data.model_copy(update=fields))


def _renamed(event: Event) -> Event:
    return replace(event, id=event_id(event) or event.id)
