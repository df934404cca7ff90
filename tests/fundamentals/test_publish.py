"""Publishing, from the first run to the last goodbye. Read it from the top."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from takeaways.producers import AsyncProducer, BadInput, Composer, Limits, Producer, RoomRef
from takeaways.producers.testing import RecordingProducer
from takeaways.schemas.events import MessagesRecorded, RoomCompacted, RunCompleted

MESSAGES = [
    {"role": "user", "content": "Quotes over $40k need sign-off from finance."},
    {"role": "assistant", "content": "Understood: I ask finance before I send one."},
]


def test_a_finished_run_is_published_with_one_call(redis_url: str) -> None:
    """The agent finished its work in a room: tell Redis, and go on."""
    with Producer(redis_url, source="shop") as producer:
        event_id = producer.run_completed(
            agent_id="acme/sales", room="pricing", run_id="run-1", status="succeeded", messages=MESSAGES
        )

    assert event_id.startswith("run:")


def test_publishing_again_is_always_safe() -> None:
    """The id of an event is made from the run: after a crash, call again, and it is the same event."""
    producer = RecordingProducer()

    first = producer.run_completed(agent_id="acme/sales", room="pricing", run_id="run-1", messages=MESSAGES)
    again = producer.run_completed(agent_id="acme/sales", room="pricing", run_id="run-1", messages=MESSAGES)
    other = producer.run_completed(agent_id="acme/sales", room="pricing", run_id="run-2", messages=MESSAGES)

    assert first == again != other


def test_whatever_is_known_of_a_run_can_be_said() -> None:
    """Each detail sharpens the memory: who spoke, when, with which model, in which running context."""
    producer = RecordingProducer()

    producer.run_completed(
        agent_id="acme/sales",
        agent_name="Sales agent",
        room=RoomRef(id="pricing", title="Pricing"),
        run_id="run-1",
        status="failed",
        conversation="conv-1",
        compaction=2,
        model="claude-sonnet-4-5",
        window=200_000,
        user_id="user-7",
        started_at=datetime(2026, 3, 2, 9, 0, tzinfo=UTC),
        ended_at=datetime(2026, 3, 2, 9, 5, tzinfo=UTC),
        messages=[
            {
                "id": "m1",
                "role": "user",
                "content": "Hello",
                "author": {"id": "user-7", "name": "Mara", "kind": "person"},
                "time": datetime(2026, 3, 2, 9, 0, tzinfo=UTC),
            }
        ],
    )

    (run,) = producer.of(RunCompleted)
    assert run.messages[0].author is not None
    assert run.messages[0].author.name == "Mara"


def test_a_compaction_is_published_when_the_platform_compacts() -> None:
    """Nothing that was compacted away is lost to the memory: it starts a consolidation."""
    producer = RecordingProducer()

    producer.room_compacted(agent_id="acme/sales", room="pricing", conversation="conv-1", compaction=1)

    (compaction,) = producer.of(RoomCompacted)
    assert compaction.conversation.compaction == 1


def test_a_long_run_sends_its_messages_ahead() -> None:
    """What is said is safe before the run ends. `first_ordinal` counts the messages that went before."""
    producer = RecordingProducer()
    thanks = [{"role": "user", "content": "Thanks"}]

    producer.messages_recorded(
        agent_id="acme/sales", room="pricing", run_id="run-1", messages=MESSAGES, first_ordinal=0
    )
    producer.run_completed(
        agent_id="acme/sales", room="pricing", run_id="run-1", messages=thanks, first_ordinal=2
    )

    (recorded,) = producer.of(MessagesRecorded)
    (completed,) = producer.of(RunCompleted)
    assert [message.id for message in (*recorded.messages, *completed.messages)] == [
        "run-1#0",
        "run-1#1",
        "run-1#2",
    ]


def test_messages_that_change_and_people_who_leave_are_told_too() -> None:
    """An edit, a deletion, a goodbye: the memory follows."""
    producer = RecordingProducer()
    new = {"role": "user", "content": "Quotes over $50k need sign-off."}

    producer.message_edited(agent_id="acme/sales", room="pricing", message_id="m1", revision=1, message=new)
    producer.message_deleted(agent_id="acme/sales", room="pricing", message_id="m1", revision=2)
    producer.room_deleted(agent_id="acme/sales", room="pricing")
    producer.person_deleted(agent_id="acme/sales", person_id="user-7")
    producer.agent_deleted(agent_id="acme/sales")

    assert len(producer.events) == 5


def test_many_events_are_composed_first_and_published_together(redis_url: str) -> None:
    """A composer makes events and sends nothing: for a batch, or for the outbox of your own database."""
    compose = Composer(source="shop")
    events = [
        compose.run_completed(
            agent_id="acme/sales", room="pricing", run_id=f"run-{number}", messages=MESSAGES
        )
        for number in range(100)
    ]

    with Producer(redis_url) as producer:
        published = producer.publish_many(events)

    assert published == [event.id for event in events]


def test_in_asyncio_every_call_is_awaited(redis_url: str) -> None:
    """The same calls, without blocking the loop."""

    async def service() -> str:
        async with AsyncProducer(redis_url) as producer:
            return await producer.run_completed(agent_id="acme/sales", room="pricing", run_id="run-1")

    assert asyncio.run(service()).startswith("run:")


def test_a_mistake_is_told_before_anything_is_sent() -> None:
    """The text says what is wrong, and what was probably meant."""
    producer = RecordingProducer()

    with pytest.raises(BadInput, match="did you mean content"):
        producer.run_completed(
            agent_id="acme/sales",
            room="pricing",
            run_id="run-1",
            messages=[{"role": "user", "contents": "Hi"}],
        )

    assert producer.events == []


def test_size_is_bounded_and_the_bounds_are_yours() -> None:
    """Long messages are cut and marked, large runs are split; by default at 64 KiB and 1 MiB."""
    producer = RecordingProducer(limits=Limits(message_bytes=2_048, entry_bytes=16_384))

    producer.run_completed(
        agent_id="acme/sales",
        room="pricing",
        run_id="run-1",
        messages=[{"role": "tool", "tool_call_id": "c1", "content": "line of output\n" * 10_000}] * 20,
    )

    (completed,) = producer.of(RunCompleted)
    assert completed.parts == len(producer.of(MessagesRecorded)) > 1
    assert all(len(entry.payload) <= 16_384 for entry in producer.entries)
