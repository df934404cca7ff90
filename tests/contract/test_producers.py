"""What every producer promises: on a real server, in asyncio, and in the stand-ins for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from pydantic import BaseModel

from takeaways.producers import AsyncProducer, BadInput, Composer, Limits, Message, Producer, RoomRef
from takeaways.producers.testing import AsyncRecordingProducer, RecordingProducer
from takeaways.schemas import ids
from takeaways.schemas.events import (
    AgentDeleted,
    Event,
    MessageDeleted,
    MessageEdited,
    MessagesRecorded,
    PersonDeleted,
    RoomCompacted,
    RoomDeleted,
    RunCompleted,
    decode,
)
from takeaways.schemas.queues import COMPACTIONS_STREAM, FIELD, RUNS_STREAM, STREAMS
from takeaways.schemas.transcripts import Attachment, Text, ToolResult, normalise

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
HELLO = {"role": "user", "content": "Hello"}
RECORDED = {"room": "r", "run_id": "x", "messages": [HELLO], "first_ordinal": 0}
COMPACTED = {
    "room": "r",
    "conversation": "c",
    "compaction": 1,
    "trigger": "size",
    "tokens_before": 9,
    "last_message_id": "m",
}
EDITED = {"message_id": "m", "revision": 1, "message": HELLO}


@dataclass(frozen=True)
class Subject:
    """A producer under test. `call` makes one call on it and waits; `read` is what a worker would find."""

    producer: Any
    run: Callable[[Any], Any]
    read: Callable[[], list[Event]]

    def call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self.run(getattr(self.producer, method)(*args, **kwargs))

    def completed(self, **changes: Any) -> str:
        arguments = {
            "agent_id": "agent-a",
            "room": "room-1",
            "run_id": "run-1",
            "messages": [HELLO],
            **changes,
        }
        event_id: str = self.call("run_completed", **arguments)
        return event_id


def entries_in(redis_url: str) -> list[Event]:
    with redis.Redis.from_url(redis_url) as client:
        found: list[Event] = []
        for stream in STREAMS:
            entries: Any = client.xrange(stream)
            for _, fields in entries:
                assert list(fields) == [FIELD.encode()]
                found.append(decode(fields[FIELD.encode()], stream=stream))
        return found


@pytest.fixture(params=["redis", "asyncio", "recording", "asyncio recording"])
def make(request: pytest.FixtureRequest, redis_url: str) -> Iterator[Callable[..., Subject]]:
    """Makes a producer of each kind, with the arguments of a test."""
    made: list[Subject] = []
    with asyncio.Runner() as runner:

        def run(value: Any) -> Any:
            return runner.run(value) if isinstance(value, Coroutine) else value

        def make(**kwargs: Any) -> Subject:
            producer: Any
            match request.param:
                case "redis":
                    producer = Producer(redis_url, **kwargs)
                case "asyncio":
                    producer = AsyncProducer(redis_url, **kwargs)
                case "recording":
                    producer = RecordingProducer(**kwargs)
                case _:
                    producer = AsyncRecordingProducer(**kwargs)
            remote = isinstance(producer, Producer | AsyncProducer)
            made.append(Subject(producer, run, lambda: entries_in(redis_url) if remote else producer.events))
            return made[-1]

        yield make
        for subject in made:
            subject.call("close")


@pytest.fixture
def subject(make: Callable[..., Subject]) -> Subject:
    return make(source="tests", now=lambda: NOW)


def test_a_run_arrives_with_everything_that_was_said_about_it(subject: Subject) -> None:
    """What a service knows of a run is what the worker knows."""
    event_id = subject.completed(
        room=RoomRef(id="room-1", title="Support", kind="room"),
        status="failed",
        conversation="conv-1",
        compaction=2,
        model="claude",
        window=200_000,
        agent_name="Ada",
        user_id="user-1",
        started_at=NOW - timedelta(minutes=1),
        ended_at=NOW,
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )

    (event,) = subject.read()
    assert (event.id, event.source, event.agent_id, event.time) == (event_id, "tests", "agent-a", NOW)
    assert event.traceparent is not None
    assert event.unknown_fields == 0
    assert event.data == RunCompleted.model_validate(
        {
            "agent": {"name": "Ada", "model": "claude", "window": 200_000},
            "room": {"id": "room-1", "title": "Support"},
            "run_id": "run-1",
            "status": "failed",
            "conversation": {"id": "conv-1", "compaction": 2},
            "user_id": "user-1",
            "started_at": NOW - timedelta(minutes=1),
            "ended_at": NOW,
            "messages": [HELLO],
        }
    )


@pytest.mark.parametrize(
    ("method", "arguments", "model", "stream"),
    [
        ("messages_recorded", RECORDED, MessagesRecorded, RUNS_STREAM),
        ("room_compacted", COMPACTED, RoomCompacted, COMPACTIONS_STREAM),
        ("message_edited", {"room": "r", **EDITED}, MessageEdited, RUNS_STREAM),
        ("message_deleted", {"room": "r", "message_id": "m", "revision": 2}, MessageDeleted, RUNS_STREAM),
        ("room_deleted", {"room": "r"}, RoomDeleted, RUNS_STREAM),
        ("agent_deleted", {"generation": 3}, AgentDeleted, RUNS_STREAM),
        ("person_deleted", {"person_id": "p"}, PersonDeleted, RUNS_STREAM),
    ],
)
def test_every_event_travels_on_its_stream(
    subject: Subject, method: str, arguments: dict[str, Any], model: type[Any], stream: str
) -> None:
    """Each call is one entry, on the stream that the right pool reads."""
    event_id = subject.call(method, agent_id="agent-a", time=NOW, **arguments)

    (event,) = subject.read()
    assert isinstance(event.data, model)
    assert (event.id, event.agent_id, event.time, event.data.STREAM) == (event_id, "agent-a", NOW, stream)


def test_the_same_run_published_twice_is_the_same_event(make: Callable[..., Subject]) -> None:
    """A service that crashed after publishing publishes again, at another time: nothing counts twice."""
    first, again = make(now=lambda: NOW), make(now=lambda: NOW + timedelta(hours=1))

    assert first.completed() == again.completed()

    hashes = {event.body_hash for event in [*first.read(), *again.read()]}
    assert len(hashes) == 1


def test_events_that_differ_in_what_makes_them_have_other_ids(subject: Subject) -> None:
    """Two agents may number their runs alike, and every compaction of a conversation is one of its own."""
    runs = [subject.completed(run_id=run, agent_id=agent) for run in ("1", "2") for agent in ("a", "b")]
    compactions = [
        subject.call("room_compacted", agent_id="a", room=room, conversation="c", compaction=number)
        for room in ("r", "s")
        for number in (1, 2)
    ]
    deletions = [subject.call("room_deleted", agent_id="a", room="r") for _ in range(2)]

    assert len({*runs, *compactions, *deletions}) == 10
    assert runs[0] == subject.completed(run_id="1", agent_id="a")


def test_a_run_is_dated_by_its_end(subject: Subject) -> None:
    """An event that is sent late, after its agent was deleted, must not bring the agent back."""
    ended_at = NOW - timedelta(days=1)

    subject.completed(ended_at=ended_at)
    subject.completed(run_id="run-2")

    assert [event.time for event in subject.read()] == [ended_at, NOW]


def test_messages_may_come_as_dicts_models_or_objects_of_an_sdk(subject: Subject) -> None:
    """People pass what they have in their hands."""

    class Completion(BaseModel):
        """As OpenAI's SDK has it: with fields beside the content that say nothing more."""

        role: str = "assistant"
        content: str = "Hi"
        refusal: str | None = None
        annotations: list[str] = []

    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9},
    }

    subject.completed(
        messages=[HELLO, Message(role="user", content="x"), answer, {**HELLO, "annotations": []}]
    )

    (event,) = subject.read()
    assert event.unknown_fields == 0
    assert isinstance(event.data, RunCompleted)
    assert [message.id for message in event.data.messages] == [None, None, "msg_1", None]
    assert normalise(event.data.messages[2]) == (Text(text="Hi"),)


# Sizes.

SMALL = Limits(message_bytes=1_024, entry_bytes=8 * 1_024)


def test_a_long_message_is_cut_and_says_how_long_it_was(make: Callable[..., Subject]) -> None:
    """A tool that prints two megabytes does not fill Redis, and nobody takes the beginning for the whole."""
    subject = make()
    messages = [{"role": "tool", "tool_call_id": "c", "content": "日本語\n" * 500_000}, HELLO]

    subject.completed(messages=messages)

    (event,) = subject.read()
    assert isinstance(event.data, RunCompleted)
    (result,) = normalise(event.data.messages[0])
    assert isinstance(result, ToolResult)
    assert len(result.text) + result.cut_chars == 2_000_000
    assert 60_000 < len(result.text.encode()) <= 64 * 1_024
    assert event.data.messages[1].content == "Hello"


def test_the_bytes_of_a_picture_are_not_sent(make: Callable[..., Subject]) -> None:
    """Only its type and size are of use to a memory."""
    subject = make()
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "QUJD" * 100_000},
    }

    subject.completed(
        messages=[{"role": "user", "content": [picture, {"type": "text", "text": "this button"}]}]
    )

    (event,) = subject.read()
    assert isinstance(event.data, RunCompleted)
    assert normalise(event.data.messages[0]) == (
        Attachment(kind="image", media_type="image/png", size_bytes=300_000),
        Text(text="this button"),
    )


def test_a_large_run_is_split_into_parts_before_its_end(make: Callable[..., Subject]) -> None:
    """No entry is over its limit, every message arrives once and in its place, and the run counts once."""
    subject = make(limits=SMALL)
    messages = [{"role": "user", "content": f"{number} " * 100} for number in range(100)]
    messages[7]["id"] = "mine"

    event_id = subject.completed(messages=messages)

    *parts, end = subject.read()
    assert isinstance(end.data, RunCompleted)
    assert (end.id, end.data.messages, end.data.parts) == (event_id, (), len(parts))
    arrived: list[Message] = []
    for place, part in enumerate(parts, 1):
        assert isinstance(part.data, MessagesRecorded)
        assert (part.data.run_id, part.data.part, part.data.parts) == ("run-1", place, len(parts))
        arrived += part.data.messages
    assert [message.ordinal for message in arrived] == list(range(100))
    assert [message.id for message in arrived[6:9]] == ["run-1#6", "mine", "run-1#8"]
    assert [message.content for message in arrived] == [message["content"] for message in messages]
    assert len({part.id for part in parts}) == len(parts) > 1


def test_a_split_run_published_again_is_the_same_events(make: Callable[..., Subject]) -> None:
    """Whoever crashed in the middle of a large run publishes all of it again."""
    messages = [{"role": "user", "content": f"{number} " * 100} for number in range(50)]
    first, again = make(limits=SMALL), make(limits=SMALL)

    first.completed(messages=messages)
    before = {(event.id, event.body_hash) for event in first.read()}
    again.completed(messages=messages)

    assert {(event.id, event.body_hash) for event in again.read()} == before


def test_recorded_messages_that_are_too_many_are_split_too(make: Callable[..., Subject]) -> None:
    """A run that works for a day sends what it has without counting bytes."""
    subject = make(limits=SMALL)
    messages = [{"role": "user", "content": f"{number} " * 100} for number in range(50)]

    event_id = subject.call(
        "messages_recorded", agent_id="a", room="r", run_id="x" * 255, messages=messages, first_ordinal=10
    )

    events = subject.read()
    arrived = [message for event in events for message in event.data.messages]  # type: ignore[union-attr]
    assert len(events) > 1
    assert events[-1].id == event_id
    assert [message.ordinal for message in arrived] == list(range(10, 60))
    assert len({message.id for message in arrived}) == 50
    assert all(ids.why_bad(message.id) is None for message in arrived)


def test_an_edit_that_is_too_long_is_cut(make: Callable[..., Subject]) -> None:
    """Somebody pastes a log file into an old message."""
    subject = make(limits=SMALL)

    subject.call(
        "message_edited",
        agent_id="a",
        room="r",
        message_id="m",
        revision=1,
        message={**HELLO, "content": "x" * 9_999},
    )

    (event,) = subject.read()
    assert isinstance(event.data, MessageEdited)
    (text,) = normalise(event.data.message)
    assert isinstance(text, Text)
    assert len(text.text) + text.cut_chars == 9_999
    assert len(text.text) < 1_024


def test_a_large_event_travels_compressed_where_that_is_asked_for(make: Callable[..., Subject]) -> None:
    """Long runs of text shrink to a fifth; readers notice no difference."""
    plain, packed = make(), make(limits=Limits(compress_over_bytes=1_000))
    messages = [{"role": "user", "content": "again and again " * 1_000}]

    plain.completed(messages=messages)
    expected = plain.read()[0]
    packed.completed(messages=messages, run_id="run-2")

    assert packed.read()[-1].data == expected.data.model_copy(update={"run_id": "run-2"})


# Many at once.


def test_many_events_are_published_in_order_and_in_few_round_trips(subject: Subject) -> None:
    """An import sends thousands; they arrive in the order in which they were given."""
    compose = Composer(source="tests", now=lambda: NOW)
    events = [
        compose.run_completed(agent_id="agent-a", room="room-1", run_id=f"run-{number}", messages=[HELLO])
        for number in range(1_000)
    ]

    published = subject.call("publish_many", iter(events))

    assert published == [event.id for event in events]
    assert [event.id for event in subject.read()] == published
    assert subject.call("publish", events[0]) == events[0].id


# What is refused.


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"agent_id": "a\x00"}, "agent_id: .*control characters"),
        ({"room": ""}, r"agent 'agent-a': room\.id: an id is not empty"),
        ({"run_id": 7}, "run_id: an id is text, not int"),
        ({"status": "ok"}, "status: .*'succeeded' or 'failed'"),
        ({"ended_at": datetime(2026, 3, 2)}, "ended_at: .*timezone"),  # noqa: DTZ001 - the mistake
        ({"time": datetime(2026, 3, 2)}, "time: .*offset"),  # noqa: DTZ001 - the mistake
        ({"compaction": 2}, "compaction: .*name the conversation"),
        ({"window": -1}, "agent.window"),
        ({"messages": [{"role": "user", "contnt": "x"}]}, r"messages\.0: contnt: .*did you mean content\?"),
        ({"messages": [HELLO, "just text"]}, r"messages\.1: a message is a dict, .* not str"),
        ({"messages": [HELLO, {"content": "x"}]}, r"messages\.1: role: Field required"),
        ({"messages": HELLO}, "messages is a list of messages, not one dict"),
        (
            {"messages": [{**HELLO, "content": object()}]},
            "agent agent-a: a message holds something that is not JSON",
        ),
    ],
)
def test_a_bad_argument_is_refused_with_a_text_that_helps(
    subject: Subject, changes: dict[str, Any], told: str
) -> None:
    """The developer reads which argument is wrong and what would be right; nothing was sent."""
    with pytest.raises(BadInput, match=told):
        subject.completed(**changes)

    assert subject.read() == []


def test_recorded_messages_need_an_id_or_a_place(subject: Subject) -> None:
    """Two messages without either would be taken for one, and one of them lost."""
    arguments = {"agent_id": "a", "room": "r", "run_id": "x"}

    with pytest.raises(BadInput, match="first_ordinal"):
        subject.call("messages_recorded", **arguments, messages=[HELLO])
    subject.call("messages_recorded", **arguments, messages=[{**HELLO, "id": "m1"}])

    assert len(subject.read()) == 1


def test_a_compaction_needs_its_number(subject: Subject) -> None:
    """Without it two compactions of a conversation would be one event."""
    with pytest.raises(BadInput, match="1 after the first time"):
        subject.call("room_compacted", agent_id="a", room="r", conversation="c")


@pytest.mark.parametrize("limits", [{"message_bytes": 10}, {"entry_bytes": 2**24}, {"message_bytes": 2**21}])
def test_limits_that_cannot_work_are_refused(limits: dict[str, int]) -> None:
    """No producer writes what readers would put into the dead letters."""
    with pytest.raises(BadInput, match="message_bytes <= entry_bytes"):
        Limits(**limits)
