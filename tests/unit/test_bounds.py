"""Whatever comes in, from files or on the wire, is read in bounded time and memory, without crash or loss."""

from __future__ import annotations

import json
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeaways.schemas.errors import DeadLetterReason
from takeaways.schemas.events import Author, Event, Message, RoomRef, RunCompleted, encode
from takeaways.schemas.queues import FIELD, RUNS_STREAM
from takeaways.schemas.secrets import mask
from takeaways.schemas.text import mend
from takeaways.schemas.transcripts import PARTS, Said
from takeaways.workers.extraction.render import render
from takeaways.workers.extraction.segment import RoomBacklog, next_request, plan
from takeaways.workers.importing import Problem, events_of, read
from takeaways.workers.intake.entries import Entry, read_entry
from takeaways.workers.intake.messages import MAX_MESSAGE_BYTES, IncomingMessage
from takeaways.workers.models.offline.reading import read_room
from takeaways.workers.models.tokens import estimate

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MEBIBYTE = 1024 * 1024


@contextmanager
def bounded(*, seconds: float, mebibytes: float) -> Iterator[None]:
    """CPU time and Python's memory beside what is there already. Tracing makes everything several times slower."""
    tracemalloc.start()
    begun = time.process_time()
    try:
        yield
        spent, peak = time.process_time() - begun, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert spent < seconds, f"{spent:.1f} s of CPU"
    assert peak < mebibytes * MEBIBYTE, f"{peak / MEBIBYTE:.0f} MiB"


def entry(*messages: Message) -> Entry:
    """What intake reads of a run with these messages."""
    run = RunCompleted(room=RoomRef(id="room-1"), run_id="run-1", status="succeeded", messages=messages)
    event = Event.of(run, id="e1", source="tests", agent_id="agent-a", time=NOON)
    return read_entry(RUNS_STREAM, "1-0", {FIELD.encode(): encode(event)})


def heard(incoming: IncomingMessage) -> Said:
    return Said(
        agent_id="agent-a",
        room_id=incoming.room_id,
        message_id=incoming.message_id,
        role=incoming.role,
        author=Author(id=incoming.author_id, name=incoming.author_name, kind=incoming.author_kind),  # type: ignore[arg-type] # as it was read
        parts=PARTS.validate_json(incoming.parts),
        said_at_ms=incoming.said_at_ms,
        offset_minutes=incoming.offset_minutes,
        ordinal=incoming.ordinal,
    )


def shown(found: Entry, budget: int = 100_000) -> str:
    backlog = RoomBacklog("room-1", "", "", tuple(map(heard, found.messages)))
    request = next_request([backlog], budget).request
    for room in request.rooms:
        read_room(room)
    return render(request)


def test_two_megabytes_on_one_line_are_bounded_from_file_to_prompt(tmp_path: Path) -> None:
    """A tool printed a table without a line break, as tools do."""
    rows = ",".join(f'{{"id":{number},"plan":"legacy","token":"t{number}"}}' for number in range(48_000))
    file = tmp_path / "log.jsonl"
    said = [
        {"role": "user", "content": "Which customers are on the legacy plan?"},
        {"role": "tool", "tool_call_id": "q", "content": f'{{"rows":[{rows}]}}'},
        {"role": "user", "content": "Always page that export by 1000."},
    ]
    file.write_text("".join(json.dumps(one) + "\n" for one in said))
    assert file.stat().st_size > 2 * MEBIBYTE

    with bounded(seconds=60, mebibytes=150):
        (room,) = read(file, agent_id="agent-a", report=print)
        (event, *_) = events_of(room, "agent-a", published_at=NOON)
        found = read_entry(RUNS_STREAM, "1-0", {FIELD.encode(): encode(event)})
        text = shown(found)

    assert max(len(one.parts) for one in found.messages) < 2 * MAX_MESSAGE_BYTES
    assert "Always page that export by 1000." in text
    assert estimate(text) <= 100_000


def test_a_hundred_thousand_messages_are_all_read() -> None:
    """The first import of years."""
    run = RunCompleted(
        room=RoomRef(id="room-1"),
        run_id="run-1",
        status="succeeded",
        messages=tuple(Message(role="user", content=f"Note {number}.") for number in range(100_000)),
    )
    event = Event.of(run, id="e1", source="tests", agent_id="agent-a", time=NOON)
    begun = time.process_time()

    found = read_entry(RUNS_STREAM, "1-0", {FIELD.encode(): encode(event)})
    backlog = RoomBacklog("room-1", "", "", tuple(map(heard, found.messages[:2_000])))
    covered = sum(len(planned.message_keys) for planned in plan([backlog], 100_000))

    assert len(found.messages) == 100_000
    assert covered == 2_000
    assert time.process_time() - begun < 60


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_what_is_nested_ten_thousand_deep_is_set_aside_and_stops_nothing(
    tmp_path: Path, opening: str
) -> None:
    """One recursion too many would take the process with it."""
    closing = "]" if opening == "[" else "}"
    deep = opening * 10_000 + "1" + closing * 10_000
    file = tmp_path / "deep.jsonl"
    file.write_text(f'{{"role":"user","content":{deep}}}\n{{"role":"user","content":"after it"}}\n')
    problems: list[Problem] = []

    with bounded(seconds=20, mebibytes=50):
        on_the_wire = read_entry(
            RUNS_STREAM, "1-0", {FIELD.encode(): f'{{"specversion":"1.0","data":{deep}}}'.encode()}
        )
        (room,) = read(file, agent_id="agent-a", report=problems.append)

    assert on_the_wire.reason is DeadLetterReason.NOT_JSON
    assert room.message_count == 1
    assert [problem.line for problem in problems if problem.lost] == [1]


def test_a_value_nested_deep_within_the_wires_bound_is_read(tmp_path: Path) -> None:
    """What the wire lets in must not be too deep for what reads it."""
    value: Any = "bottom"
    for level in range(150):
        value = [value] if level % 2 else {"content": value, "type": "tool_result"}

    text = shown(entry(Message(role="user", content=value), Message(role="user", content="after it")))

    assert "after it" in text


_TEXTS = st.text(max_size=60) | st.sampled_from(
    ["`", "```\n", "=== end of room r1 ===", "\ud83d", "\x00", "<agent-memory>"]
)
_BLOCKS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _TEXTS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.fixed_dictionaries(
            {"type": st.sampled_from(["text", "tool_use", "tool_result", "thinking", "image", "document", "odd"])},
            optional={
                "text": inner, "content": inner, "input": inner, "id": _TEXTS, "name": inner, "tool_use_id": _TEXTS,
                "source": inner, "thinking": inner,
            },
        )
    ),
    max_leaves=12,
)  # fmt: skip


@given(
    contents=st.lists(
        st.tuples(st.sampled_from(["user", "assistant", "tool", "system"]), _BLOCKS), min_size=1, max_size=5
    )
)
@settings(max_examples=150)
def test_any_message_goes_from_the_wire_to_the_prompt_without_a_crash(
    contents: list[tuple[Any, Any]],
) -> None:
    """The next platform has a shape that nobody has seen."""
    found = entry(*(Message(role=role, content=content) for role, content in contents))

    text = shown(found)

    assert found.reason is None
    assert len(found.messages) == len(contents)
    for line in text.splitlines():
        assert line.startswith(
            (
                "| ",
                "=== ",
                "[m",
                "called a tool:",
                "a tool returned:",
                "attached:",
                "inserted by",
                "said:",
                "(",
            )
        )


@given(
    words=st.lists(st.text(st.characters(categories=["L"]), min_size=1, max_size=12), min_size=1, max_size=40)
)
@settings(max_examples=100)
def test_every_word_that_somebody_said_reaches_the_prompt(words: list[str]) -> None:
    """No loss: what fits is there, word for word."""
    said = " ".join(words)

    text = shown(entry(Message(role="user", content=said)))

    assert mask(mend(said)) in text
