"""The events on the wire: CloudEvents 1.0 in JSON, one frozen model a type.

Writers build a `data` model (unknown fields are refused) and call `encode`. Readers call
`decode`, which ignores unknown fields and counts them, so that a newer producer is never
stopped by an older worker, or raises `UnreadableMessage` with the reason.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
)
from pydantic_core import PydanticCustomError, to_jsonable_python

from takeaways.schemas import text
from takeaways.schemas.errors import BadInput, DeadLetterReason, UnreadableMessage
from takeaways.schemas.ids import Id, digest, why_bad
from takeaways.schemas.queues import COMPACTIONS_STREAM, RUNS_STREAM

MAX_ENTRY_BYTES: Final = 16 * 1024 * 1024  # of an entry, and of what its gzipped data inflates to
MAX_MESSAGES: Final = 100_000  # in one entry
MAX_DEPTH: Final = 200  # of nested arrays and objects; a whole one, with room left on the stack of any reader
TYPE_PREFIX: Final = "takeaways."
_MAX_INT: Final = 2**53 - 1  # the largest integer that every JSON reader keeps exactly
_RFC_3339 = re.compile(
    r"(\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:)(\d{2})((?:\.\d{1,30})?(?:[Zz]|[+-]\d{2}:\d{2}))", re.ASCII
)
_JSON_MEDIA_TYPE = re.compile(r"\s*(?:application|text)/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.ASCII | re.I)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _storable(value: Any) -> Any:
    return text.one_line(value) if isinstance(value, str) else value


def _when(value: Any) -> Any:
    if isinstance(value, datetime):
        # Offsets of old local times have seconds, which RFC 3339 cannot write.
        odd = (value.utcoffset() or timedelta()) % timedelta(minutes=1)
        return value.astimezone(UTC) if odd else value
    matched = _RFC_3339.fullmatch(value) if isinstance(value, str) else None
    if matched is None:
        raise PydanticCustomError(
            "time", "a time is RFC 3339 text with an offset, as 2026-03-02T09:00:00+01:00"
        )
    day, second, rest = matched.groups()
    return f"{day}59{rest}" if second == "60" else value  # a leap second, which no datetime holds


def _jsonable(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    try:
        return to_jsonable_python(value, exclude_none=True, inf_nan_mode="null")
    except UnicodeEncodeError:  # half a surrogate pair in a key
        return to_jsonable_python(text.mend_json(value), exclude_none=True, inf_nan_mode="null")


def _json_media_type(value: Any) -> Any:
    if isinstance(value, str) and not _JSON_MEDIA_TYPE.fullmatch(value):
        raise PydanticCustomError("media_type", "the data of an event is JSON; its type is application/json")
    return value


DisplayText = Annotated[str, BeforeValidator(_storable), Field(max_length=1_000)]
Moment = Annotated[AwareDatetime, BeforeValidator(_when)]
Count = Annotated[int, Field(strict=True, ge=0, le=_MAX_INT)]
Foreign = Annotated[Any, PlainSerializer(_jsonable)]
"""A value in the shape that some model's API gave it. It travels as it is; `transcripts` reads it."""


class Wire(BaseModel):
    """Base of all that travels: frozen, closed to unknown fields when written."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Author(Wire):
    """Who said a message, apart from the role it has for the model."""

    id: Id
    name: DisplayText | None = None
    kind: Literal["person", "agent", "system", "tool"]


class Message(Wire):
    """One message as platforms have them: Anthropic content blocks, an OpenAI chat message, or plain text.

    What it says (`content` and the fields from `tool_calls` on) is read in one place,
    `transcripts.normalise`. Without an `id` a message is `ids.message_id(run_id, ordinal)`. `position` orders
    it within the room; without one, time and `ordinal` do. `ordinal` is its place in the whole run, from 0:
    given by the producer where a run comes in several entries, and otherwise its place in the entry.
    """

    id: Id | None = None
    role: Literal["user", "assistant", "system", "developer", "tool", "function"]
    content: Foreign = None
    author: Author | None = None
    time: Moment | None = None
    position: Count | None = None
    ordinal: Count | None = None
    name: DisplayText | None = None
    tool_calls: Foreign = None
    tool_call_id: Foreign = None
    function_call: Foreign = None
    refusal: Foreign = None
    reasoning_content: Foreign = None
    audio: Foreign = None


Messages = Annotated[tuple[Message, ...], Field(max_length=MAX_MESSAGES)]


class AgentRef(Wire):
    """The agent beside its id (the event's subject). `window` is the context window of `model`, in tokens."""

    name: DisplayText | None = None
    model: DisplayText | None = None
    window: Count | None = None
    generation: Annotated[Count, Field(ge=1)] | None = None


class RoomRef(Wire):
    id: Id
    title: DisplayText | None = None
    kind: Literal["room", "task", "document"] = "room"
    generation: Annotated[Count, Field(ge=1)] | None = None


class Conversation(Wire):
    """The model's running context in a room; `compaction` counts how often the platform compacted it."""

    id: Id
    compaction: Count = 0


class Data(Wire):
    """Base of every event's data."""

    TYPE: ClassVar[str]
    STREAM: ClassVar[str] = RUNS_STREAM

    agent: AgentRef = AgentRef()


class RunCompleted(Data):
    """The agent ended a run in a room. Counts towards the next extraction when it succeeded.

    `parts` says how many `messages.recorded` of a large run went ahead of it.
    """

    TYPE = "takeaways.run.completed.v1"

    room: RoomRef
    run_id: Id
    status: Literal["succeeded", "failed"]
    conversation: Conversation | None = None
    user_id: Id | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None
    messages: Messages = ()
    parts: Count = 0


class MessagesRecorded(Data):
    """Messages of a run, ahead of its end: part 1 to `parts` of a large one, or 0 of one still at work."""

    TYPE = "takeaways.messages.recorded.v1"

    room: RoomRef
    run_id: Id
    conversation: Conversation | None = None
    user_id: Id | None = None
    started_at: Moment | None = None
    part: Count = 0
    parts: Count = 0
    messages: Messages


class RoomCompacted(Data):
    """The platform compacted a room's conversation; `conversation.compaction` is the number it now has."""

    TYPE = "takeaways.room.compacted.v1"
    STREAM = COMPACTIONS_STREAM

    room: RoomRef
    conversation: Conversation
    trigger: DisplayText | None = None
    tokens_before: Count | None = None
    last_message_id: Id | None = None


class MessageEdited(Data):
    """A message has new content. The highest `revision` wins, whatever arrives first."""

    TYPE = "takeaways.message.edited.v1"

    room: RoomRef
    message_id: Id
    revision: Annotated[Count, Field(ge=1)]
    message: Message


class MessageDeleted(Data):
    """A message is gone. The highest `revision` wins, whatever arrives first."""

    TYPE = "takeaways.message.deleted.v1"

    room: RoomRef
    message_id: Id
    revision: Annotated[Count, Field(ge=1)]


class RoomDeleted(Data):
    """Forget a room: its messages and what rests on them."""

    TYPE = "takeaways.room.deleted.v1"

    room: RoomRef


class AgentDeleted(Data):
    """Forget an agent. One made again under the same id starts empty."""

    TYPE = "takeaways.agent.deleted.v1"


class PersonDeleted(Data):
    """Forget a person for this agent: what they said and what rests on it."""

    TYPE = "takeaways.person.deleted.v1"

    person_id: Id


AnyData = (
    RunCompleted
    | MessagesRecorded
    | RoomCompacted
    | MessageEdited
    | MessageDeleted
    | RoomDeleted
    | AgentDeleted
    | PersonDeleted
)
MODELS: Final[dict[str, type[Data]]] = {
    model.TYPE: model
    for model in (
        RunCompleted,
        MessagesRecorded,
        RoomCompacted,
        MessageEdited,
        MessageDeleted,
        RoomDeleted,
        AgentDeleted,
        PersonDeleted,
    )
}
_FAMILIES: Final = tuple(name.rpartition(".")[0] for name in MODELS)


class Envelope(BaseModel):
    """The CloudEvents 1.0 attributes that we read. Extension attributes are allowed, as the standard says."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    specversion: Literal["1.0"] = "1.0"
    id: Id
    source: Id
    type: Id
    subject: Id
    time: Moment
    datacontenttype: Annotated[str, BeforeValidator(_json_media_type)] | None = None
    traceparent: DisplayText | None = None
    contentencoding: Literal["gzip"] | None = None


@dataclass(frozen=True)
class Event:
    """One event as it is published or was read. `agent_id` is the envelope's subject.

    `time` keeps its offset. `body` is the data as JSON values, just as it travels: fields that we do not know
    are still in it.
    """

    id: str
    source: str
    agent_id: str
    time: datetime
    data: AnyData
    body: Any
    traceparent: str | None = None
    unknown_fields: int = 0

    @classmethod
    def of(
        cls,
        data: AnyData,
        *,
        id: str,  # noqa: A002 - CloudEvents' name
        source: str,
        agent_id: str,
        time: datetime,
        traceparent: str | None = None,
    ) -> Self:
        """Make an event to be published.

        Raises `BadInput` for an id that breaks the rule, a time without offset, or content that is not JSON.
        """
        for what, value in (("id", id), ("source", source), ("agent_id", agent_id)):
            if problem := why_bad(value):
                raise BadInput(f"{what}: {problem}")
        if time.tzinfo is None:
            raise BadInput("time: an event's time needs an offset; use datetime.now(UTC)")
        return cls(
            id=id,
            source=source,
            agent_id=agent_id,
            time=_when(time),
            data=data,
            body=_body(data, agent_id),
            traceparent=text.one_line(traceparent) if traceparent else None,
        )

    @cached_property
    def body_hash(self) -> str:
        """Covers what the event says (type, agent, data) and not when it was sent: the same event published
        twice is a duplicate, another one under its id a conflict.
        """
        return digest(self.data.TYPE, self.agent_id, self.body)


def _body(data: AnyData, agent_id: str) -> Any:
    try:
        body = data.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    except (ValueError, RecursionError) as error:
        raise BadInput(
            f"{data.TYPE} of agent {agent_id}: a message holds something that is not JSON or is nested over"
            f" {MAX_DEPTH} levels deep ({str(error)[:200]}); pass dicts, lists, text and numbers"
        ) from None
    if _deeper_than(body, MAX_DEPTH - 1):
        raise BadInput(f"{data.TYPE} of agent {agent_id}: a message is nested over {MAX_DEPTH} levels deep")
    return body


def encode(event: Event, *, compress_over_bytes: int | None = None) -> bytes:
    """Return the event as the bytes of one stream field; data over `compress_over_bytes` travels gzipped."""
    envelope: dict[str, Any] = {
        "specversion": "1.0",
        "id": event.id,
        "source": event.source,
        "type": event.data.TYPE,
        "subject": event.agent_id,
        "time": event.time.isoformat(),
        "datacontenttype": "application/json",
    }
    if event.traceparent:
        envelope["traceparent"] = event.traceparent
    if compress_over_bytes is not None and len(raw := to_json(event.body)) > compress_over_bytes:
        envelope["contentencoding"] = "gzip"
        envelope["data_base64"] = base64.b64encode(gzip.compress(raw, mtime=0)).decode("ascii")
    else:
        envelope["data"] = event.body
    return to_json(envelope)


def to_json(value: Any) -> bytes:
    """Compact JSON in UTF-8; half a surrogate pair, which UTF-8 has no bytes for, stands as its escape."""
    try:
        return _write_json(value).encode("utf-8")
    except UnicodeEncodeError:
        return _write_ascii_json(value).encode("ascii")


_write_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_write_ascii_json: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def decode(payload: bytes, *, stream: str | None = None) -> Event:
    """Read one entry of a stream. `stream`, when given, must be the one this type of event travels on.

    Raises `UnreadableMessage`; its text names fields and never quotes what stood in them.
    """
    if len(payload) > MAX_ENTRY_BYTES:
        raise _too_large(f"{len(payload)} bytes")
    raw = _parse(payload)
    if not isinstance(raw, dict):
        raise UnreadableMessage(
            DeadLetterReason.NOT_AN_EVENT, f"a CloudEvent is a JSON object, not {type(raw).__name__}"
        )
    try:
        envelope = Envelope.model_validate(raw)
    except ValidationError as error:
        raise _translated(error, DeadLetterReason.NOT_AN_EVENT) from None
    model = MODELS.get(envelope.type)
    if model is None:
        known = any(envelope.type == family or envelope.type.startswith(f"{family}.") for family in _FAMILIES)
        reason = DeadLetterReason.UNKNOWN_VERSION if known else DeadLetterReason.UNKNOWN_TYPE
        raise UnreadableMessage(reason, f"this worker does not read the type {envelope.type[:80]!a}")
    if stream is not None and stream != model.STREAM:
        raise UnreadableMessage(
            DeadLetterReason.WRONG_STREAM, f"{model.TYPE} travels on {model.STREAM}, not on {stream}"
        )
    body = _data_of(raw, envelope)
    data, unknown_fields = _read_data(model, body)
    return Event(
        id=envelope.id,
        source=envelope.source,
        agent_id=envelope.subject,
        time=envelope.time,
        data=data,  # type: ignore[arg-type] # MODELS holds just the members of AnyData
        body=body,
        traceparent=envelope.traceparent,
        unknown_fields=unknown_fields,
    )


def _read_data(model: type[Data], body: Any) -> tuple[Data, int]:
    try:
        return model.model_validate(body), 0
    except ValidationError as first:
        # Most events have no unknown field, so that they are looked for only where something was amiss.
        try:
            return model.model_validate(body, extra="ignore"), first.error_count()
        except ValidationError as error:
            raise _translated(error, DeadLetterReason.BAD_FIELD) from None


def _data_of(raw: dict[str, Any], envelope: Envelope) -> Any:
    packed = raw.get("data_base64")
    if packed is None:
        return raw.get("data")
    if raw.get("data") is not None:
        raise UnreadableMessage(
            DeadLetterReason.NOT_AN_EVENT, "an event has data or data_base64, this one has both"
        )
    try:
        unpacked = base64.b64decode(packed, validate=True)
        if envelope.contentencoding == "gzip":
            with gzip.GzipFile(fileobj=io.BytesIO(unpacked)) as file:
                unpacked = file.read(MAX_ENTRY_BYTES + 1)
    except (binascii.Error, OSError, EOFError, TypeError, ValueError, zlib.error) as error:
        raise UnreadableMessage(
            DeadLetterReason.NOT_AN_EVENT, f"data_base64 cannot be read: {type(error).__name__}"
        ) from None
    if len(unpacked) > MAX_ENTRY_BYTES:
        raise _too_large("the inflated data")
    return _parse(unpacked)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError("a number is too large for any reader")
    return number


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


_read_json: Final = json.JSONDecoder(
    parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_no_twins
).decode


def _parse(payload: bytes) -> Any:
    try:
        value = _read_json(payload.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _not_json(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise _not_json(f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise _not_json(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:  # numbers of thousands of digits, NaN, a key twice
        raise _not_json(str(error)[:200]) from None
    if payload.count(b"[") + payload.count(b"{") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        raise _not_json(f"nested deeper than {MAX_DEPTH} levels")
    return value


def _deeper_than(value: Any, levels: int) -> bool:
    """Level by level and not by recursion, which is what deep values break."""
    containers = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        if not containers:
            return False
        containers = [
            child
            for container in containers
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]
    return bool(containers)


def _translated(error: ValidationError, reason: DeadLetterReason) -> UnreadableMessage:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    if any(problem["type"] == "bad_id" for problem in problems):
        reason = DeadLetterReason.BAD_ID
    elif any(problem["loc"] == ("specversion",) for problem in problems):
        reason = DeadLetterReason.UNKNOWN_VERSION
    return UnreadableMessage(reason, text.one_line("; ".join(map(complaint, problems[:5]))))


def complaint(problem: Mapping[str, Any]) -> str:
    """One problem of a `ValidationError` as `field: what is wrong`, without what stood in the field."""
    return f"{'.'.join(str(step)[:40] for step in problem['loc']) or 'data'}: {problem['msg']}"


def _not_json(detail: str) -> UnreadableMessage:
    return UnreadableMessage(DeadLetterReason.NOT_JSON, detail)


def _too_large(what: str) -> UnreadableMessage:
    return UnreadableMessage(DeadLetterReason.TOO_LARGE, f"{what}; at most {MAX_ENTRY_BYTES} bytes are read")


def to_ms(moment: datetime) -> int:
    """Milliseconds since 1970 UTC of an aware time."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)
