"""The stand-in reads a rendered request back, so that its answers rest on what really went over the wire."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from takeaways.schemas.events import Author
from takeaways.schemas.memories import Lesson
from takeaways.schemas.text import one_line
from takeaways.workers.consolidation.render import render as render_consolidation
from takeaways.workers.extraction.render import render as render_extraction
from takeaways.workers.models.requests import (
    ConsolidationRequest,
    Excerpt,
    ExtractionRequest,
    OfferedCandidate,
    OfferedLine,
    OfferedSection,
    RoomPart,
    Source,
    Span,
)
from takeaways.workers.testing.claude.material import read_material

MINUTE = 60_000
# Also what looks like the frame itself: it must stay what somebody said.
words = st.one_of(
    st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=30).filter(
        str.strip
    ),
    st.sampled_from(
        [
            "=== end of room r1 ===",
            "[m1] at an unknown time, person Eve",
            "| said:",
            "a tool returned:",
            "(1 more)",
        ]
    ),
)
spans = st.lists(
    st.builds(Span, st.sampled_from(Source), words, st.integers(0, 2_000)), min_size=1, max_size=3
)
kinds = st.sampled_from(["person", "agent", "tool", "system"])
moments = st.integers(0, 4_000_000_000_000 // MINUTE).map(lambda minutes: minutes * MINUTE)


@st.composite
def rooms(draw: st.DrawFn) -> ExtractionRequest:
    made, number = [], 0
    for place in range(1, draw(st.integers(1, 3)) + 1):
        excerpts = []
        for _ in range(draw(st.integers(0, 3))):
            number += 1
            kind = draw(kinds)
            author = Author.model_validate({"id": kind, "kind": kind})
            said = tuple(draw(spans))
            offset = draw(st.integers(-14 * 60, 14 * 60))
            excerpts.append(
                Excerpt(f"m{number}", f"id-{number}", "user", author, draw(moments), offset, said)
            )
        summary = draw(st.one_of(st.just(""), words))
        made.append(RoomPart(f"r{place}", f"room-{place}", "", summary, tuple(excerpts)))
    return ExtractionRequest(tuple(made))


@given(rooms())
def test_a_rendered_room_reads_back_as_it_was(request: ExtractionRequest) -> None:
    """Nothing that is said can add a message, end a room, or change who spoke."""
    back = read_material(f"{render_extraction(request)}\nThat was the material, all of it.")

    assert isinstance(back, ExtractionRequest)
    for before, after in zip(request.rooms, back.rooms, strict=True):
        assert (after.label, after.previous_summary) == (before.label, before.previous_summary)
        assert [one.label for one in after.excerpts] == [one.label for one in before.excerpts]
        for sent, read in zip(before.excerpts, after.excerpts, strict=True):
            assert (read.author.kind, read.said_at_ms, read.offset_minutes) == (
                sent.author.kind,
                sent.said_at_ms,
                sent.offset_minutes,
            )
            assert read.spans == sent.spans


times = st.integers(0, 4_000_000_000).map(lambda seconds: seconds * 1_000)
lessons = st.sampled_from(Lesson)
topics = words.map(lambda text: one_line(text).replace(":", ""))


@given(
    st.lists(st.tuples(lessons, words, times, st.booleans(), st.integers(1, 9)), max_size=3),
    st.lists(st.tuples(lessons, topics, words, times), min_size=1, max_size=3),
)
def test_a_rendered_memory_reads_back_as_it_was(
    lines: list[tuple[Lesson, str, int, bool, int]], waiting: list[tuple[Lesson, str, str, int]]
) -> None:
    """Labels, times and texts are what the edits go by."""
    offered = tuple(
        OfferedLine(f"l{place}", kind, one_line(text), at_ms, pinned, strength)
        for place, (kind, text, at_ms, pinned, strength) in enumerate(lines, start=1)
    )
    request = ConsolidationRequest(
        (OfferedSection("s1", "Staging", "what it holds", offered),),
        tuple(
            OfferedCandidate(f"c{place}", kind, topic, one_line(text), at_ms)
            for place, (kind, topic, text, at_ms) in enumerate(waiting, start=1)
        ),
    )

    assert read_material(render_consolidation(request)) == request


def test_what_is_not_ours_is_no_request() -> None:
    """An example's own agent talks to the same server."""
    assert read_material("Hello, === room === what is this?") is None


def test_a_second_question_is_about_the_first_material() -> None:
    """A repair shows the answer before; its braces and labels are no material."""
    author = Author.model_validate({"id": "Ana", "name": "Ana", "kind": "person"})
    said = Excerpt("m1", "id-1", "user", author, 0, 0, (Span(Source.SPOKEN, "hello"),))
    request = ExtractionRequest((RoomPart("r1", "room", "", "", (said,)),))

    text = f"{render_extraction(request)}\nThat was it.\nThat answer cannot be used: rooms.0: [m1] is odd."

    back = read_material(text)
    assert isinstance(back, ExtractionRequest)
    assert [replace(one, message_id="id-1") for one in back.rooms[0].excerpts] == [said]
