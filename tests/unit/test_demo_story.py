"""The conversations that ship with the package: whole, believable, and enough to learn from."""

from __future__ import annotations

from datetime import UTC, datetime

from takeaways.schemas.events import decode, encode, to_ms
from takeaways.schemas.transcripts import Said, normalise
from takeaways.workers.demo import KeyFact, Story, story
from takeaways.workers.extraction.render import excerpts
from takeaways.workers.importing import ImportedRoom
from takeaways.workers.models import ConsolidationRequest, ExtractionRequest
from takeaways.workers.models.answers import CreateSection, Learned
from takeaways.workers.models.offline.model import OfflineModel
from takeaways.workers.models.requests import OfferedCandidate, RoomPart
from takeaways.workers.models.seam import Call

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_the_story_has_two_extractions_worth_of_runs_and_one_that_failed() -> None:
    """The demo shows the rule of five as it is: counted over all rooms, failed runs left out."""
    told = story().in_order()

    assert sum(run.status == "succeeded" for _, run in told) == 10
    assert [room.room_id for room, run in told if run.status == "failed"] == ["crm-migration"]
    assert 40 <= sum(len(run.messages) for _, run in told) <= 60


def test_every_message_of_the_story_can_be_published() -> None:
    """What the demo sends is what any service sends."""
    for event in story().events(published_at=NOW):
        assert decode(encode(event), stream=event.data.STREAM).data == event.data


def test_message_ids_and_times_run_forward_in_each_room() -> None:
    """A transcript that jumps back in time would look like a bug of the product."""
    for room in story().rooms:
        messages = [message for run in room.runs for message in run.messages]
        times = [message.time for message in messages if message.time]

        assert len({message.id for message in messages}) == len(messages) == len(times)
        assert times == sorted(times)
        assert all(run.ended_at >= run.messages[-1].time for run in room.runs if run.messages[-1].time)


def test_the_story_can_be_moved_so_that_it_ended_just_now() -> None:
    """To watch the idle timer, the last run has to be recent; all else keeps its distance."""
    moved, told = story(ends_at=NOW), story()

    assert moved.in_order()[-1][1].ended_at == NOW
    by = NOW - told.in_order()[-1][1].ended_at
    assert [run.ended_at - by for _, run in moved.in_order()] == [run.ended_at for _, run in told.in_order()]


def test_a_key_fact_stands_in_a_memory_when_one_line_says_it_all() -> None:
    """Words scattered over several lines are not the fact."""
    fact = KeyFact("quotes", ("$40k", "sign-off"))

    assert fact.stands_in("- Quotes over $40K need sign-off.")
    assert not fact.stands_in("- A quote of $40k\n- sign-off is easy")


def test_the_rules_find_what_the_story_teaches_and_not_what_the_wiki_page_plants() -> None:
    """Without any language model the demo must show a memory that is worth having."""
    told = story()

    memory = learned_from(told)

    assert [fact for fact in told.learned if not fact.stands_in(memory)] == []
    assert [fact for fact in told.unlearned if fact.stands_in(memory)] == []
    assert told.question.needs.stands_in(memory)


def learned_from(told: Story) -> str:
    """The lines that the offline model makes of the story, extracted and consolidated in one go."""
    model = OfflineModel()
    found: list[tuple[int, Learned]] = []
    for room in told.rooms:
        part = RoomPart("r1", room.room_id, room.title, "", excerpts(_said(told, room)))
        times = {excerpt.label: excerpt.said_at_ms for excerpt in part.excerpts}
        answer = model.extract(ExtractionRequest((part,)), Call()).answer
        found += [(times[lesson.evidence[0].message], lesson) for lesson in answer.rooms[0].candidates]
    found.sort(key=lambda one: one[0])
    offered = tuple(
        OfferedCandidate(f"c{number}", lesson.kind, lesson.topic, lesson.text, said_at_ms)
        for number, (said_at_ms, lesson) in enumerate(found, start=1)
    )
    edits = model.consolidate(ConsolidationRequest((), offered), Call()).answer.edits
    return "\n".join(line.text for edit in edits if isinstance(edit, CreateSection) for line in edit.lines)


def _said(told: Story, room: ImportedRoom) -> list[Said]:
    return [
        Said(
            agent_id=told.agent_id,
            room_id=room.room_id,
            message_id=message.id or "",
            role=message.role,
            author=message.author,
            parts=normalise(message),
            said_at_ms=to_ms(message.time),
        )
        for run in room.runs
        for message in run.messages
        if message.time and message.author
    ]
