"""A model's answer costs money: it is kept until it is committed, and never longer than it may be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents, jobs, kept_answers
from takeaways.workers.jobs.kept_answers import drop_old
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.run import run_job
from takeaways.workers.models import ExtractionAnswer
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import Pipeline, pipeline

START = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)


def publish(system: Pipeline, count: int, *, room: str = "room-1", text: str = "Fact") -> None:
    for number in range(count):
        system.producer.run_completed(
            agent_id="scout",
            room=room,
            run_id=f"{room}-{number}",
            status="succeeded",
            ended_at=START + timedelta(minutes=number),
            messages=[{"role": "user", "content": f"{text} {number}.\x00 of {room}."}],
        )
    system.take_in()


def die_before_the_commit(system: Pipeline, kind: Kind, model: ScriptedModel) -> None:
    """The model has answered; the worker is gone before anything is written. Its lease runs out."""

    def phase(name: str) -> None:
        if name == "writing":
            raise KeyboardInterrupt

    dying = system.another_worker("dying", model=model)
    with pytest.raises(KeyboardInterrupt):
        run_job(kind, "scout", dying, phase=phase)
    expire_lease(system)


def expire_lease(system: Pipeline) -> None:
    with system.database.write() as connection:
        connection.execute(update(agents).values(lease_until_ms=0))


def calls_and_tokens(system: Pipeline) -> tuple[int, int]:
    rows: list[Any] = system.rows(jobs)
    return sum(row["calls"] for row in rows), sum(row["input_tokens"] for row in rows)


def test_a_crash_before_the_commit_costs_no_second_call(database: Database, redis_url: str) -> None:
    """The next worker finds what the model said, in an extraction and in a consolidation, and finishes."""
    model = ScriptedModel()
    with pipeline(database, redis_url, model) as system:
        publish(system, 5)

        die_before_the_commit(system, Kind.EXTRACTION, model)
        [extracted] = system.work()
        with database.write() as connection:
            connection.execute(update(agents).values(consolidations_asked=1))
        die_before_the_commit(system, Kind.CONSOLIDATION, model)
        [merged] = system.work()

        assert (extracted.outcome, merged.outcome) == (Outcome.REMEMBERED, Outcome.REMEMBERED)
        assert len(model.extraction_requests) == len(model.consolidation_requests) == 1
        assert len(system.lessons("scout")) == 5
        assert sum(len(section.lines) for section in system.memory("scout").sections) == 5
        assert system.rows(kept_answers) == []


def test_what_a_lost_answer_cost_is_on_record_once(sqlite_database: Database, redis_url: str) -> None:
    """The bill counts the call that was made, with the job that made it, and no call that was not."""
    model = ScriptedModel()
    with pipeline(sqlite_database, redis_url, model) as system:
        publish(system, 5)
        die_before_the_commit(system, Kind.EXTRACTION, model)
        paid = calls_and_tokens(system)

        system.work()

        assert paid[0] == 1
        assert paid[1] > 0
        assert calls_and_tokens(system) == paid
        assert {row["model"] for row in system.rows(jobs)} == {"scripted"}


def test_another_question_is_asked_anew(sqlite_database: Database, redis_url: str) -> None:
    """More to read, or another model, is another question: an old answer must not stand for it."""
    model = ScriptedModel()
    with pipeline(sqlite_database, redis_url, model) as system:
        publish(system, 5)
        die_before_the_commit(system, Kind.EXTRACTION, model)
        system.producer.message_edited(
            agent_id="scout",
            room="room-1",
            message_id="room-1-0#0",
            revision=1,
            message={"role": "user", "content": "Changed."},
        )
        system.take_in()

        system.flush()

        asked = [repr(request) for request in model.extraction_requests]
        assert len(asked) == len(set(asked)) == 3
        lessons = {text for text, _, _ in system.lessons("scout")}
        assert len(lessons) == 5
        assert "Changed." in lessons


def test_a_bad_answer_is_never_kept(sqlite_database: Database, redis_url: str) -> None:
    """An answer that nobody can use must be asked for again, or the agent would never get on."""
    model = ScriptedModel(extractions=[ExtractionAnswer(rooms=())])
    with pipeline(sqlite_database, redis_url, model) as system:
        publish(system, 5)

        first = run_job(Kind.EXTRACTION, "scout", system.services)
        kept = system.rows(kept_answers)
        system.advance(hours=1)
        system.work()

        assert first.outcome is Outcome.UNREADABLE_ANSWER
        assert kept == []
        assert len(model.extraction_requests) == 2
        assert len(system.lessons("scout")) == 5


def test_a_worker_that_lost_its_lease_keeps_nothing(database: Database, redis_url: str) -> None:
    """The answer of a worker that was frozen for too long must not stand in the way of its successor's."""

    class Outlived(ScriptedModel):
        def extract(self, request: Any, call: Any) -> Any:
            answered = super().extract(request, call)
            expire_lease(system)
            system.work()
            return answered

    with pipeline(database, redis_url, ScriptedModel()) as system:
        publish(system, 5)

        result = run_job(Kind.EXTRACTION, "scout", system.another_worker("slow", model=Outlived()))

        assert result.outcome is Outcome.FENCED_OFF
        assert system.rows(kept_answers) == []
        assert len(system.lessons("scout")) == 5


@pytest.mark.parametrize("scope", ["agent", "room", "person"])
def test_an_erasure_takes_the_kept_answer_with_it(
    sqlite_database: Database, redis_url: str, scope: str
) -> None:
    """It quotes what was erased."""
    model = ScriptedModel()
    with pipeline(sqlite_database, redis_url, model) as system:
        publish(system, 5)
        die_before_the_commit(system, Kind.EXTRACTION, model)
        before = system.rows(kept_answers)

        match scope:
            case "agent":
                system.producer.agent_deleted(agent_id="scout")
            case "room":
                system.producer.room_deleted(agent_id="scout", room="room-1")
            case _:
                system.producer.person_deleted(agent_id="scout", person_id="nobody")
        system.take_in()

        assert len(before) == 1
        assert system.rows(kept_answers) == []


def test_an_answer_that_nobody_comes_back_for_is_gone_after_a_day(database: Database, redis_url: str) -> None:
    """What was said is not to lie about for ever in a table that nobody looks at."""
    model = ScriptedModel()
    with pipeline(database, redis_url, model) as system:
        publish(system, 5)
        die_before_the_commit(system, Kind.EXTRACTION, model)

        system.advance(hours=23)
        young = drop_old(database)
        system.advance(hours=2)
        old = drop_old(database)

        assert (young, old) == (0, 1)
        assert system.rows(kept_answers) == []
