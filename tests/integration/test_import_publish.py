"""Imported rooms through a real producer into a real stream: what comes out is what was read."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import redis

from takeaways.producers import Producer
from takeaways.schemas.events import Event, MessagesRecorded, RunCompleted, decode
from takeaways.schemas.queues import COMPACTIONS_STREAM, FIELD, RUNS_STREAM, STREAMS
from takeaways.workers.importing import SOURCE, Problem, events_of, read

SAMPLES = Path(__file__).parents[1] / "payloads" / "imports"
NOW = datetime(2026, 3, 2, tzinfo=UTC)


def publish(path: Path, redis_url: str) -> int:
    """Publish what `path` holds; return how many messages that was."""
    problems: list[Problem] = []
    messages = 0
    with Producer(redis_url, source=SOURCE) as producer:
        for room in read(path, agent_id="scout", report=problems.append, undated=NOW):
            producer.publish_many(events_of(room, "scout", published_at=NOW))
            messages += room.message_count
    return messages


def arrived(redis_url: str) -> dict[str, list[Event]]:
    with redis.Redis.from_url(redis_url) as client:
        found: dict[str, list[Event]] = {}
        for stream in STREAMS:
            entries: Any = client.xrange(stream)
            found[stream] = [decode(fields[FIELD.encode()], stream=stream) for _, fields in entries]
        return found


def message_ids(events: list[Event]) -> list[tuple[str, str | None]]:
    return [
        (event.data.room.id, message.id)
        for event in events
        if isinstance(event.data, RunCompleted | MessagesRecorded)
        for message in event.data.messages
    ]


def test_every_message_of_every_shape_arrives_once_and_compactions_apart(redis_url: str) -> None:
    """The producer accepts what the reader yields, and each kind of event travels where its pool looks."""
    messages = publish(SAMPLES, redis_url)

    found = arrived(redis_url)
    ids = message_ids(found[RUNS_STREAM])
    assert len(ids) == len(set(ids)) == messages > 0
    assert [event.data.TYPE for event in found[COMPACTIONS_STREAM]] == ["takeaways.room.compacted.v1"]


def test_a_second_import_publishes_the_same_events_again(redis_url: str) -> None:
    """The inbox knows each of them by source and id, and so a second import changes nothing."""
    publish(SAMPLES, redis_url)
    once = [(event.source, event.id, event.body_hash) for event in arrived(redis_url)[RUNS_STREAM]]

    publish(SAMPLES, redis_url)

    twice = [(event.source, event.id, event.body_hash) for event in arrived(redis_url)[RUNS_STREAM]]
    assert twice == once * 2


def test_a_room_larger_than_an_entry_arrives_in_parts_without_loss(redis_url: str, tmp_path: Path) -> None:
    """One run of some megabytes, with one message of two, is split and cut by the producer."""
    said = [{"role": "user", "content": f"{number} " + "word " * 400} for number in range(2_000)]
    said.append({"role": "assistant", "content": json.dumps(["x" * 2_000_000])})
    (tmp_path / "large.json").write_text(json.dumps(said))

    messages = publish(tmp_path, redis_url)

    events = arrived(redis_url)[RUNS_STREAM]
    assert len(set(message_ids(events))) == messages == 2_001
    assert [event.data.TYPE for event in events][-1] == "takeaways.run.completed.v1"
    assert len(events) > 2
