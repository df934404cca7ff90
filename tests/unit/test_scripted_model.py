"""The stand-in for a model: additive by rule, or as a script says."""

from __future__ import annotations

import random
import threading

import pytest

from takeaways.schemas.errors import AnswerUnreadable, CallAborted, ModelUnavailable
from takeaways.schemas.events import Author
from takeaways.schemas.memories import EMPTY, Candidate, Memory
from takeaways.schemas.queues import Kind
from takeaways.schemas.transcripts import Said, Text
from takeaways.workers.consolidation.edits import apply
from takeaways.workers.consolidation.offer import offer
from takeaways.workers.extraction.answer import accept
from takeaways.workers.extraction.segment import RoomBacklog, next_request, plan
from takeaways.workers.models import Call, ExtractionAnswer, ExtractionRequest, MemoryModel
from takeaways.workers.models.answers import RoomLearned
from takeaways.workers.testing import ScriptedModel
from takeaways.workers.testing.scripted import topic_of

PEOPLE = [Author(id="ann", kind="person"), Author(id="agent-a", kind="agent")]


def said(room: str, number: int, text: str, author: Author = PEOPLE[0]) -> Said:
    return Said(
        "agent-a", room, f"{room}-{number}", "user", author, (Text(text=text),), 1_767_265_200_000 + number
    )


def backlog(*messages: Said, summary: str = "") -> RoomBacklog:
    return RoomBacklog(messages[0].room_id, "", summary, messages)


def extracted(model: MemoryModel, rooms: list[RoomBacklog]) -> tuple[list[Candidate], dict[str, str]]:
    found: list[Candidate] = []
    summaries: dict[str, str] = {}
    for planned in plan(rooms, 1_000, model.count_tokens):
        answered = model.extract(planned.request, Call())
        accepted = accept(planned.request, answered.answer, "agent-a")
        assert accepted.refused == ()
        found += accepted.candidates
        summaries |= accepted.summaries
    return found, summaries


def merge(model: MemoryModel, memory: Memory, pending: list[Candidate]) -> Memory:
    while pending:
        offered = offer(memory, pending, 5_000, model.count_tokens)
        answered = model.consolidate(offered.request, Call())
        memory = apply(memory, offered.candidates, offered, answered.answer).memory
        settled = {one.id for one in offered.candidates}
        pending = [one for one in pending if one.id not in settled]
    return memory


def bare(memory: Memory) -> list[tuple[str, str, list[tuple[str, int]]]]:
    return [
        (one.title, one.gist, [(each.text, each.said_at_ms) for each in one.lines]) for one in memory.sections
    ]


def test_it_gives_a_lesson_for_each_message_of_a_person() -> None:
    """A test can foresee what the memory will hold."""
    room = backlog(said("room-1", 1, "Staging uses\n9443."), said("room-1", 2, "Noted.", PEOPLE[1]))

    (candidate,), summaries = extracted(ScriptedModel(), [room])

    assert (candidate.text, candidate.topic) == ("Staging uses 9443.", "Room room-1")
    assert summaries["room-1"].startswith("1 lesson so far")


def test_after_everything_is_merged_batches_and_order_leave_no_trace() -> None:
    """What a test of faults compares must not depend on where a worker was killed."""
    texts = [
        "Use blue.",
        "日本語の締め日は二十日です。",
        "Ship on Monday, tomorrow.",
        "ok",
        "…",
        "# Never on Friday",
    ]
    messages = [said(f"room-{n % 3}", n, f"{texts[n % 6]} ({n})") for n in range(60)]
    rooms = [backlog(*(one for one in messages if one.room_id == f"room-{n}")) for n in range(3)]
    model = ScriptedModel()

    pending, _ = extracted(model, rooms)
    at_once = merge(model, EMPTY, pending)
    shuffled = random.Random(3).sample(pending, len(pending))
    in_pieces = EMPTY
    for start in range(0, len(shuffled), 7):
        in_pieces = merge(model, in_pieces, shuffled[start : start + 7])

    assert len(pending) == 60
    assert bare(at_once) == bare(in_pieces)


def test_a_session_summary_depends_on_the_set_of_lessons_alone() -> None:
    """Segments and orders differ from run to run; a message read twice must still be seen."""
    messages = [said("room-1", n, f"Lesson {n}.") for n in range(10)]
    model = ScriptedModel()

    _, whole = extracted(model, [backlog(*messages)])
    _, half = extracted(model, [backlog(*messages[5:])])
    _, both = extracted(model, [backlog(*messages[:5], summary=half["room-1"])])
    _, again = extracted(model, [backlog(messages[0], summary=whole["room-1"])])

    assert whole == both
    assert again != whole


@pytest.mark.parametrize("pair", [("a", "A"), ("x  y", "x y"), ("ü", "u\u0308"), ("r" * 200, "r" * 201)])
def test_rooms_never_share_a_section(pair: tuple[str, str]) -> None:
    """Room ids are compared exactly, titles are not."""
    assert topic_of(pair[0]).casefold() != topic_of(pair[1]).casefold()
    assert len(topic_of(pair[1])) <= 120


def test_a_script_says_what_happens_in_turn() -> None:
    """Failures in a given order are what most tests of a job are about."""

    def silent(request: ExtractionRequest) -> ExtractionAnswer:
        return ExtractionAnswer(
            rooms=tuple(RoomLearned(room=room.label, summary="s") for room in request.rooms)
        )

    model = ScriptedModel(extractions=[ModelUnavailable("busy", 2.0), silent])
    model.then_extract(AnswerUnreadable("cut"))
    request = next_request([backlog(said("room-1", 1, "Use blue."))], 1_000).request

    with pytest.raises(ModelUnavailable):
        model.extract(request, Call())
    assert model.extract(request, Call()).answer.rooms[0].candidates == ()
    with pytest.raises(AnswerUnreadable):
        model.extract(request, Call())
    assert model.extract(request, Call()).answer.rooms[0].candidates != ()
    assert model.extraction_requests == [request] * 4


def test_a_call_that_is_called_off_ends_at_once() -> None:
    """A worker that lost its lease must not sit out the model's time."""
    model = ScriptedModel(delay_seconds=60)
    call = Call(abort=threading.Event())
    request = next_request([backlog(said("room-1", 1, "Use blue."))], 1_000).request
    threading.Timer(0.05, call.abort.set).start()

    with pytest.raises(CallAborted):
        model.extract(request, call)


def test_a_call_that_takes_longer_than_it_may_is_unavailable() -> None:
    """The deadline of a call is ours."""
    request = next_request([backlog(said("room-1", 1, "Use blue."))], 1_000).request

    with pytest.raises(ModelUnavailable):
        ScriptedModel(delay_seconds=60).extract(request, Call(timeout_seconds=0.01))


def test_it_counts_and_reports_like_a_model() -> None:
    """Budgets and jobs ask it what they ask any other."""
    model: MemoryModel = ScriptedModel(window=8_000, overhead=300)
    request = next_request([backlog(said("room-1", 1, "Use blue."))], 1_000).request

    answered = model.extract(request, Call())

    assert (model.window, model.overhead_tokens(Kind.EXTRACTION), answered.model) == (8_000, 300, "scripted")
    assert answered.usage.input_tokens > 300
    assert answered.usage.output_tokens > 0
