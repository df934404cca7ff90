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
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError, to_jsonable_python

from takeaways.schemas import text
from takeaways.schemas.errors import BadInput, DeadLetterReason, UnreadableMessage
from takeaways.schemas.ids import Id, digest, why_bad
from takeaways.schemas.queues import COMPACTIONS_STREAM, RUNS_STREAM

MAX_ENTRY_BYTES: Final = 16 * 1024 * 1024
MAX_INFLATED_BYTES: Final = 64 * 1024 * 1024
TYPE_PREFIX: Final = "takeaways."
_MAX_INT: Final = 2**53 - 1  # the largest integer that every JSON reader keeps exactly


def _storable(value: Any) -> Any:
    return text.one_line(value) if isinstance(value, str) else value


def _when(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        raise PydanticCustomError("time", "a time is RFC 3339 text with an offset, not a number")
    return value


DisplayText = Annotated[str, BeforeValidator(_storable), Field(max_length=1_000)]
Moment = Annotated[AwareDatetime, BeforeValidator(_when)]
Count = Annotated[int, Field(strict=True, ge=0, le=_MAX_INT)]


class Wire(BaseModel):
    """Base of all that travels: frozen, closed to unknown fields when written."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="null")


class Author(Wire):
    """Who said a message, apart from the role it has for the model."""

    id: Id
    name: DisplayText | None = None
    kind: Literal["person", "agent", "system", "tool"]


class Message(Wire):
    """One message as platforms have them: Anthropic content blocks, an OpenAI chat message, or plain text.

    `content` and `tool_calls` are read in one place, `transcripts.normalise`. Without an `id` a message is
    `run_id#ordinal`. `position` orders it within the room; without one, time and ordinal do.
    """

    id: Id | None = None
    role: Literal["user", "assistant", "system", "developer", "tool", "function"]
    content: Any = None
    author: Author | None = None
    time: Moment | None = None
    position: Count | None = None
    ordinal: Count | None = None
    name: DisplayText | None = None
    tool_calls: list[Any] | None = None
    tool_call_id: Any = None


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
    """The agent ended a run in a room. Counts towards the next extraction when it succeeded."""

    TYPE = "takeaways.run.completed.v1"

    room: RoomRef
    run_id: Id
    status: Literal["succeeded", "failed"]
    conversation: Conversation | None = None
    user_id: Id | None = None
    started_at: Moment | None = None
    ended_at: Moment | None = None
    messages: tuple[Message, ...] = ()
    parts: Count = 0


class MessagesRecorded(Data):
    """Messages of a run, ahead of its end: a part of a large one, or of one that still works."""

    TYPE = "takeaways.messages.recorded.v1"

    room: RoomRef
    run_id: Id
    conversation: Conversation | None = None
    user_id: Id | None = None
    started_at: Moment | None = None
    part: Count = 0
    parts: Count = 0
    messages: tuple[Message, ...]


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
_FAMILIES: Final = frozenset(name.rpartition(".")[0] for name in MODELS)


class Envelope(BaseModel):
    """The CloudEvents 1.0 attributes that we read. Extension attributes are allowed, as the standard says."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    specversion: Literal["1.0"] = "1.0"
    id: Id
    source: Id
    type: Id
    subject: Id
    time: Moment
    datacontenttype: Literal["application/json"] | None = None
    traceparent: Annotated[str, Field(max_length=200)] | None = None
    contentencoding: Literal["gzip"] | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One event as it was read. `agent_id` is the envelope's subject, `time` keeps its offset.

    `body_hash` covers what the event says (type, agent, data) and not when it was sent, so that the same
    event published twice is a duplicate and another one under its id is a conflict.
    """

    id: str
    source: str
    agent_id: str
    time: datetime
    data: AnyData
    body_hash: str
    traceparent: str | None = None
    unknown_fields: int = 0

    @classmethod
    def of(cls, data: AnyData, *, id: str, source: str, agent_id: str, time: datetime) -> Self:  # noqa: A002 - CloudEvents' name
        """Make an event to be published. Raises `BadInput` for an id that breaks the rule or a time without offset."""
        for what, value in (("id", id), ("source", source), ("agent_id", agent_id)):
            if problem := why_bad(value):
                raise BadInput(f"{what}: {problem}")
        if time.tzinfo is None:
            raise BadInput("time: an event's time needs an offset; use datetime.now(UTC)")
        return cls(id=id, source=source, agent_id=agent_id, time=time, data=data, body_hash=digest(data.TYPE, agent_id, _plain(data)))


def _plain(data: Wire) -> Any:
    return to_jsonable_python(data, exclude_none=True, exclude_defaults=True)


def encode(event: Event, *, compress_over_bytes: int | None = None) -> bytes:
    """Return the event as the bytes of one stream field; data longer than `compress_over_bytes` travels gzipped."""
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
    data = _plain(event.data)
    if compress_over_bytes is not None and len(raw := _dump(data)) > compress_over_bytes:
        envelope["contentencoding"] = "gzip"
        envelope["data_base64"] = base64.b64encode(gzip.compress(raw, mtime=0)).decode("ascii")
    else:
        envelope["data"] = data
    return _dump(envelope)


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


def decode(payload: bytes, *, stream: str | None = None) -> Event:
    """Read one entry of a stream. `stream`, when given, must be the one this type of event travels on.

    Raises `UnreadableMessage`; its text names fields and never quotes what stood in them.
    """
    if len(payload) > MAX_ENTRY_BYTES:
        raise _unreadable(DeadLetterReason.TOO_LARGE, f"{len(payload)} bytes, at most {MAX_ENTRY_BYTES} are read")
    raw = _parse(payload)
    if not isinstance(raw, dict):
        raise _unreadable(DeadLetterReason.NOT_AN_EVENT, f"a CloudEvent is a JSON object, not {type(raw).__name__}")
    try:
        envelope = Envelope.model_validate(raw)
    except ValidationError as error:
        raise _translated(error, raw, DeadLetterReason.NOT_AN_EVENT) from None
    model = MODELS.get(envelope.type)
    if model is None:
        family = envelope.type.rpartition(".")[0]
        reason = DeadLetterReason.UNKNOWN_VERSION if family in _FAMILIES else DeadLetterReason.UNKNOWN_TYPE
        raise _unreadable(reason, f"this worker does not read the type {envelope.type[:80]!r}")
    if stream is not None and model.STREAM != stream:
        raise _unreadable(DeadLetterReason.WRONG_STREAM, f"{model.TYPE} travels on {model.STREAM}, not on {stream}")
    raw_data = _data_of(raw, envelope)
    data, unknown = _read_data(model, raw_data)
    return Event(
        id=envelope.id,
        source=envelope.source,
        agent_id=envelope.subject,
        time=envelope.time,
        data=data,  # type: ignore[arg-type] # MODELS holds just the members of AnyData
        body_hash=digest(envelope.type, envelope.subject, raw_data),
        traceparent=envelope.traceparent,
        unknown_fields=unknown,
    )


def _read_data(model: type[Data], raw: Any) -> tuple[Data, int]:
    try:
        return model.model_validate(raw), 0
    except ValidationError as error:
        unknown = sum(problem["type"] == "extra_forbidden" for problem in error.errors(include_url=False, include_input=False))
        if unknown == error.error_count():
            return model.model_validate(raw, extra="ignore"), unknown
        raise _translated(error, raw, DeadLetterReason.BAD_FIELD) from None


def _data_of(raw: dict[str, Any], envelope: Envelope) -> Any:
    if "data_base64" not in raw:
        return raw.get("data")
    try:
        packed = base64.b64decode(raw["data_base64"], validate=True)
        if envelope.contentencoding == "gzip":
            with gzip.GzipFile(fileobj=io.BytesIO(packed)) as unpacked:
                packed = unpacked.read(MAX_INFLATED_BYTES + 1)
    except (binascii.Error, OSError, EOFError, TypeError, ValueError) as error:
        raise _unreadable(DeadLetterReason.NOT_AN_EVENT, f"data_base64 cannot be read: {type(error).__name__}") from None
    if len(packed) > MAX_INFLATED_BYTES:
        raise _unreadable(DeadLetterReason.TOO_LARGE, f"its data inflates to over {MAX_INFLATED_BYTES} bytes")
    return _parse(packed)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _parse(payload: bytes) -> Any:
    try:
        return json.loads(payload.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_twins)
    except UnicodeDecodeError as error:
        raise _unreadable(DeadLetterReason.NOT_JSON, f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise _unreadable(DeadLetterReason.NOT_JSON, f"{error.msg} at character {error.pos}") from None
    except RecursionError:
        raise _unreadable(DeadLetterReason.NOT_JSON, "nested too deeply") from None
    except ValueError as error:  # numbers of thousands of digits, NaN, a key twice
        raise _unreadable(DeadLetterReason.NOT_JSON, str(error)[:200]) from None


def _translated(error: ValidationError, raw: Any, reason: DeadLetterReason) -> UnreadableMessage:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    if any(problem["type"] in ("bad_id", "string_unicode") for problem in problems):
        reason = DeadLetterReason.BAD_ID
    detail = "; ".join(f"{'.'.join(str(step)[:40] for step in p['loc']) or 'data'}: {p['msg']}" for p in problems[:5])
    return _unreadable(reason, detail)


def _unreadable(reason: DeadLetterReason, detail: str) -> UnreadableMessage:
    return UnreadableMessage(reason, detail)


def to_ms(moment: datetime) -> int:
    """Milliseconds since 1970 UTC of an aware time."""
    return round((moment - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds() * 1000)  # noqa: UP017 - reads better
