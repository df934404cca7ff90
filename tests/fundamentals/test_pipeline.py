"""How memory comes about, from the first event to the note in another room. Read from top to bottom."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest

from takeaways.recall import Recall
from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.models.offline import OfflineModel
from takeaways.workers.schedule.decide import Reason
from tests.pipeline import Pipeline, pipeline

RULE = "From now on, every quote over $40k needs sign-off by Dana before it goes out."


@pytest.fixture
def system(sqlite_database: Database, redis_url: str) -> Iterator[Pipeline]:
    """A real database, a real Valkey, and the model that needs no key."""
    with pipeline(sqlite_database, redis_url, OfflineModel()) as made:
        yield made


def a_run(
    system: Pipeline,
    number: int,
    said: str,
    *,
    room: str = "quotes",
    status: Literal["succeeded", "failed"] = "succeeded",
) -> None:
    """The agent worked once in a room: a person said something, the agent answered."""
    ended_at = datetime.now(UTC) - timedelta(minutes=60 - number)
    system.producer.run_completed(
        agent_id="scout",
        room=room,
        run_id=f"run-{number}",
        status=status,
        ended_at=ended_at,
        conversation=f"{room}-1",
        messages=[
            {"role": "user", "content": said},
            {"role": "assistant", "content": "Understood."},
        ],
    )


def test_four_runs_wait_for_a_fifth(system: Pipeline) -> None:
    """Extraction reads several runs at once, so that each token is sent to a model about once."""
    for number in range(4):
        a_run(system, number, RULE)
    system.take_in()

    assert system.decision("scout").next is None

    a_run(system, 4, "Thanks!", room="somewhere-else")
    system.take_in()

    assert system.decision("scout").next is Kind.EXTRACTION
    assert system.decision("scout").reason is Reason.RUNS


def test_failed_runs_do_not_count_but_what_was_said_is_read(system: Pipeline) -> None:
    """A user who says something lasting in a run that fails has still said it."""
    a_run(system, 0, RULE, status="failed")
    for number in range(1, 5):
        a_run(system, number, "What is the status of the Lindqvist deal?")
    system.take_in()
    assert system.decision("scout").next is None

    a_run(system, 5, "And the one after that?")
    system.take_in()
    system.work()

    assert any("sign-off" in text for text, _, _ in system.lessons("scout"))


def test_what_is_said_in_one_room_is_known_in_the_next(system: Pipeline) -> None:
    """The story of Takeaways: a rule from one conversation shapes another."""
    recall = Recall(system.database)
    a_run(system, 0, RULE)
    for number in range(1, 5):
        a_run(system, number, "What is the status of the Lindqvist deal?")
    system.take_in()
    [extraction] = system.work()
    assert extraction.outcome is Outcome.REMEMBERED
    assert recall.note("scout", "new-deal", "too-early").text is None

    system.advance(hours=6)
    [consolidation] = system.work()
    note = recall.note("scout", "new-deal", "first")

    assert consolidation.outcome is Outcome.REMEMBERED
    assert note.text is not None
    assert "sign-off by Dana" in note.text


def test_a_conversation_keeps_the_note_it_began_with(system: Pipeline) -> None:
    """The same bytes for the life of a conversation: a memory update breaks no prompt cache."""
    recall = Recall(system.database)
    a_run(system, 0, RULE)
    system.take_in()
    system.flush()
    first = recall.note("scout", "new-deal", "c-1")

    a_run(system, 1, "I prefer quotes as PDF, never as a spreadsheet.")
    system.take_in()
    system.flush()

    assert recall.note("scout", "new-deal", "c-1").text == first.text
    assert recall.note("scout", "another-deal", "c-2").text != first.text

    system.producer.room_compacted(agent_id="scout", room="new-deal", conversation="c-1", compaction=1)
    system.take_in()

    assert recall.note("scout", "new-deal", "c-1").text != first.text


def test_a_compaction_consolidates_what_was_extracted(system: Pipeline) -> None:
    """A conversation that begins again should begin with what it just taught."""
    a_run(system, 0, RULE)
    for number in range(1, 5):
        a_run(system, number, "And now?")
    system.take_in()
    system.work()

    system.producer.room_compacted(agent_id="scout", room="quotes", conversation="quotes-1", compaction=1)
    system.take_in()
    [job] = system.work()

    assert job.reason == Reason.COMPACTED
    assert "sign-off" in system.memory("scout").model_dump_json()


def test_the_same_event_twice_changes_nothing(system: Pipeline) -> None:
    """A service that is not sure whether it published publishes again."""
    for number in [0, 1, 2, 3, 3, 2, 1, 0]:
        a_run(system, number, RULE)
    system.take_in()

    assert system.agent("scout")["runs_total"] == 4
    assert system.agent("scout")["messages_total"] == 8


def test_every_line_can_show_where_it_comes_from(system: Pipeline) -> None:
    """ "Why do you believe that?" has an answer: the message and the words."""
    a_run(system, 0, RULE)
    system.take_in()
    system.flush()

    line = next(line for section in system.memory("scout").sections for line in section.lines)

    from takeaways.schemas.tables import candidates

    [source] = [row for row in system.rows(candidates) if row["candidate_id"] in line.candidates]
    assert source["evidence"][0]["message_id"] == "run-0#0"
    assert source["evidence"][0]["quote"] in RULE
