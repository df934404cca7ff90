"""What the pipeline does when the model does not simply answer. A real limiter in Valkey, a real database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis import Redis

from takeaways.schemas.database import Database
from takeaways.schemas.errors import (
    AnswerCut,
    AnswerUnreadable,
    ModelFailed,
    ModelOverloaded,
    ModelParked,
    ModelRefused,
    ModelRejected,
    ParkedBecause,
    TooLong,
)
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import jobs, messages, quarantines
from takeaways.schemas.usage import Usage
from takeaways.workers.cli.words import waits_for
from takeaways.workers.extraction.render import render
from takeaways.workers.jobs.flush import flush
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.result import JobResult
from takeaways.workers.jobs.run import run_job
from takeaways.workers.models.limiter import Limits, SharedLimiter
from takeaways.workers.models.requests import ExtractionRequest
from takeaways.workers.schedule.decide import Hold
from takeaways.workers.schedule.moment import moment
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.state import AgentState
from takeaways.workers.testing import ScriptedModel
from takeaways.workers.testing.scripted import lessons_of
from tests.cases import case
from tests.pipeline import Pipeline, pipeline

STARTED = datetime.now(UTC) - timedelta(hours=1)


@contextmanager
def at_work(
    database: Database,
    redis_url: str,
    model: ScriptedModel,
    *,
    policy: Policy | None = None,
    limits: Limits | None = None,
) -> Iterator[Pipeline]:
    with Redis.from_url(redis_url) as client, pipeline(database, redis_url, model, policy) as system:
        system.services.limiter = SharedLimiter(client, limits)
        yield system


def five_runs(
    system: Pipeline,
    agent: str = "scout",
    *,
    room: str = "r",
    text: str = "Quotes need sign-off.",
    **about: Any,
) -> None:
    """Five runs of an agent in a room, so that an extraction is due."""
    for run in range(5):
        system.producer.run_completed(
            agent_id=agent,
            room=room,
            run_id=f"{room}-{run}",
            status="succeeded",
            ended_at=STARTED + timedelta(minutes=run),
            messages=[{"role": "user", "content": f"{run}: {text}"}],
            **about,
        )
    system.take_in()


def extract(system: Pipeline, agent: str = "scout") -> JobResult:
    return run_job(Kind.EXTRACTION, agent, system.services)


def forget_the_pause(redis_url: str) -> None:
    """The pause is over, as the limiter sees it: Redis has a clock of its own."""
    with Redis.from_url(redis_url) as client:
        for key in client.scan_iter("takeaways:model:*"):
            client.delete(key)


def said_of(system: Pipeline, agent: str = "scout") -> str:
    decision = system.decision(agent)
    with system.database.read() as connection:
        at = moment(connection)
        state = AgentState.of(dict(system.agent(agent)), at)
        return waits_for(state, decision, system.policy, at.now_ms)


def test_a_rate_limit_of_one_agent_saves_the_calls_of_all_others(
    sqlite_database: Database, redis_url: str
) -> None:
    """Ten agents that are due while the provider is busy cost one refused call, and keep no lease."""
    model = ScriptedModel(extractions=[ModelOverloaded("busy", 600)])
    with at_work(sqlite_database, redis_url, model) as system:
        for number in range(10):
            five_runs(system, f"agent-{number}")

        results = [extract(system, f"agent-{number}") for number in range(10)]

        assert {result.outcome for result in results} == {Outcome.OVERLOADED}
        assert len(model.extraction_requests) == 1
        assert all(system.agent(f"agent-{number}")["owner"] is None for number in range(10))
        assert all(system.decision(f"agent-{number}").hold is Hold.NOT_YET for number in range(10))
        assert len(system.rows(jobs)) == 1


def test_an_hour_of_rate_limit_holds_neither_worker_nor_agent(
    sqlite_database: Database, redis_url: str
) -> None:
    """The worker that got the answer 429 is free at once, and an agent with another model is served."""
    found = case("QL-18")["model"][0]
    asked_seconds = float(found["headers"]["retry-after"])
    busy = ScriptedModel(extractions=[ModelOverloaded("rate limit", asked_seconds, model="busy")])
    with at_work(sqlite_database, redis_url, busy) as system:
        five_runs(system, "agent-a")
        five_runs(system, "agent-b")
        other = ScriptedModel()
        other.name = "free"

        began = time.monotonic()
        held = extract(system, "agent-a")
        served = run_job(Kind.EXTRACTION, "agent-b", system.another_worker("w2", model=other))

        assert time.monotonic() - began < 60, "of the hour that the provider asked for"
        assert (held.outcome, served.outcome) == (Outcome.OVERLOADED, Outcome.REMEMBERED)
        row = system.agent("agent-a")
        assert row["owner"] is None
        assert row["attempts"] == 0
        wait_seconds = (row["not_before_ms"] - datetime.now(UTC).timestamp() * 1000) / 1000
        assert 0.9 * asked_seconds < wait_seconds < 1.2 * asked_seconds


@pytest.mark.parametrize("asked_seconds", [0.0, -5.0, 1e12])
def test_an_absurd_retry_after_is_waited_for_within_bounds(
    sqlite_database: Database, redis_url: str, asked_seconds: float
) -> None:
    """A header that says 0 hammers the provider, and one that says a century forgets the agent."""
    with at_work(
        sqlite_database, redis_url, ScriptedModel(extractions=[ModelOverloaded("busy", asked_seconds)])
    ) as system:
        five_runs(system)

        assert extract(system).outcome is Outcome.OVERLOADED

        wait_seconds = system.agent("scout")["not_before_ms"] / 1000 - datetime.now(UTC).timestamp()
        assert 10 < wait_seconds < 2 * 3600


@pytest.mark.parametrize("reason", list(ParkedBecause))
def test_what_a_person_must_put_right_parks_with_one_sentence_and_goes_on_by_itself(
    sqlite_database: Database, redis_url: str, reason: ParkedBecause
) -> None:
    """A refused key is told once, where everybody looks, and no agent has to be started again afterwards."""
    told = "claude-x: the key is refused; set ANTHROPIC_API_KEY"
    model = ScriptedModel(extractions=[ModelParked(reason, told)])
    with at_work(sqlite_database, redis_url, model) as system:
        five_runs(system, "scout")
        five_runs(system, "other")

        results = [extract(system), extract(system, "other")]

        assert [result.outcome for result in results] == [Outcome.PARKED] * 2
        assert len(model.extraction_requests) == 1
        assert all(system.agent(agent)["parked_because"] == told for agent in ("scout", "other"))
        assert system.agent("scout")["attempts"] == 0
        assert told in said_of(system)

        forget_the_pause(redis_url)
        system.advance(hours=0.1)
        system.work()
        assert not system.unread("scout") | system.unread("other")
        assert system.agent("scout")["parked_because"] is None


def test_a_server_that_is_down_uses_up_nobodys_attempts(sqlite_database: Database, redis_url: str) -> None:
    """A night without the provider must not leave every agent quarantined in the morning."""
    model = ScriptedModel(extractions=[ModelFailed("no connection")] * 9)
    with at_work(
        sqlite_database, redis_url, model, limits=Limits(first_wait_seconds=0.01, most_wait_seconds=0.01)
    ) as system:
        five_runs(system)

        for _ in range(9):
            assert extract(system).outcome is Outcome.UNAVAILABLE
            time.sleep(0.02)
            system.advance(hours=1)

        assert extract(system).outcome is Outcome.REMEMBERED
        assert system.rows(quarantines) == []


def test_a_batch_that_fails_while_others_are_served_is_set_aside(
    sqlite_database: Database, redis_url: str
) -> None:
    """One request that breaks the server every time must not go on for ever."""
    fails = ScriptedModel(extractions=[ModelFailed("500")] * 9)
    with at_work(
        sqlite_database, redis_url, fails, limits=Limits(first_wait_seconds=0.01, most_wait_seconds=0.01)
    ) as system:
        five_runs(system, "poison")
        well = system.another_worker("well", model=ScriptedModel())
        endings = []

        for number in range(6):
            endings.append(extract(system, "poison").outcome)
            time.sleep(0.02)
            five_runs(system, "fine", room=f"r{number}")
            assert run_job(Kind.EXTRACTION, "fine", well).outcome is Outcome.REMEMBERED
            system.advance(hours=1)

        assert endings == [Outcome.UNAVAILABLE] * 5 + [Outcome.QUARANTINED]


def test_garbage_for_three_agents_pauses_the_model(sqlite_database: Database, redis_url: str) -> None:
    """A gateway that answers HTML for a minute costs three calls and not one an agent."""
    model = ScriptedModel(extractions=[AnswerUnreadable("no JSON in it")] * 9)
    with at_work(sqlite_database, redis_url, model) as system:
        for number in range(9):
            five_runs(system, f"agent-{number}")

        results = [extract(system, f"agent-{number}") for number in range(9)]

        assert [result.outcome for result in results] == (
            [Outcome.UNREADABLE_ANSWER] * 3 + [Outcome.OVERLOADED] * 6
        )
        assert len(model.extraction_requests) == 3


@pytest.mark.parametrize("error", [ModelRejected("400: odd"), AnswerUnreadable("no JSON in it")])
def test_a_gateway_that_refuses_every_agent_sets_nothing_aside(
    sqlite_database: Database, redis_url: str, error: Exception
) -> None:
    """It was changed for the worse, and is mended in the morning: by then every agent had been set aside for a day."""
    model = ScriptedModel(extractions=[error] * 200)
    limits = Limits(first_wait_seconds=0.01, most_wait_seconds=0.01)
    with at_work(sqlite_database, redis_url, model, limits=limits) as system:
        for number in range(5):
            five_runs(system, f"agent-{number}")
        for _ in range(8):
            system.work()
            system.advance(hours=1)
            time.sleep(0.02)
        well = system.another_worker("well", model=ScriptedModel())

        endings = {run_job(Kind.EXTRACTION, f"agent-{number}", well).outcome for number in range(5)}

        assert endings == {Outcome.REMEMBERED}
        assert system.rows(quarantines) == []


def test_a_batch_that_is_rejected_alone_is_set_aside(sqlite_database: Database, redis_url: str) -> None:
    """The same request is rejected every time: it must not go on for ever while others are served."""
    model = ScriptedModel(extractions=[ModelRejected("400: odd")] * 9)
    with at_work(sqlite_database, redis_url, model) as system:
        five_runs(system)
        endings = []
        for _ in range(6):
            endings.append(extract(system).outcome)
            system.advance(hours=1)

        assert endings == [Outcome.FAILED] * 5 + [Outcome.QUARANTINED]


def sizes(model: ScriptedModel) -> list[int]:
    return [model.count_tokens(render(request)) for request in model.extraction_requests]


def too_long(message: str, limit: int | None) -> Callable[[ExtractionRequest], Any]:
    def refuse(request: ExtractionRequest) -> Any:
        raise TooLong(message, limit)

    return refuse


def test_each_retry_of_a_step_that_is_too_long_is_smaller_and_then_it_is_set_aside(
    sqlite_database: Database, redis_url: str
) -> None:
    """The same input would be refused again, and a room that no window holds must not stop the others."""
    told = case("MA-08")["model"][0]["body"]["error"]["message"]
    model = ScriptedModel(window=400_000, extractions=[too_long(told, 200_000)] * 4)
    with at_work(sqlite_database, redis_url, model) as system:
        five_runs(system, room="long", text="Quotes over a limit need sign-off by Dana. " * 500)

        result = extract(system)

        assert result.outcome is Outcome.TOO_LONG
        refused = sizes(model)
        assert len(refused) == 4
        assert refused == sorted(set(refused), reverse=True)
        [aside] = system.rows(quarantines)
        assert aside["items"] == 5
        assert "too_long" in aside["reason"]
        five_runs(system, room="short")
        assert extract(system).outcome is Outcome.REMEMBERED


def test_a_short_message_that_no_model_takes_is_set_aside_and_not_cut_to_nothing(
    sqlite_database: Database, redis_url: str
) -> None:
    """A message of which nothing is left would count as read, and what it said would be lost without a word."""
    model = ScriptedModel(extractions=[too_long("too long", None)] * 9)
    with at_work(sqlite_database, redis_url, model) as system:
        five_runs(system, text="Quotes over a limit need sign-off by Dana.")

        assert extract(system).outcome is Outcome.TOO_LONG

        assert [aside["items"] for aside in system.rows(quarantines)] == [5]
        assert not any(row["read_by"] for row in system.rows(messages))


def test_a_window_that_is_smaller_than_believed_is_learned_from_the_refusal(
    sqlite_database: Database, redis_url: str
) -> None:
    """The number in the message saves the steps of feeling one's way down to it."""
    model = ScriptedModel(window=400_000, extractions=[too_long("too long: 60000 > 20000 maximum", 20_000)])
    with at_work(sqlite_database, redis_url, model) as system:
        five_runs(system, text="Quotes over a limit need sign-off by Dana. " * 500)

        assert extract(system).outcome is Outcome.REMEMBERED

        assert sizes(model)[0] > 10_000
        assert max(sizes(model)[1:]) <= 10_000
        assert len(system.lessons("scout")) == 5


def test_an_answer_that_is_cut_splits_the_step_and_nothing_of_it_is_stored(
    sqlite_database: Database, redis_url: str
) -> None:
    """Half an answer, stored as a whole one, would make the other half disappear."""
    model = ScriptedModel(extractions=[AnswerCut("cut at 8,000 tokens")])
    with at_work(sqlite_database, redis_url, model) as system:
        five_runs(system)

        assert extract(system).outcome is Outcome.REMEMBERED

        first, *others = model.extraction_requests
        shown = [sum(len(room.excerpts) for room in request.rooms) for request in (first, *others)]
        assert shown[0] == 5
        assert len(others) > 1
        assert sum(shown[1:]) == 5
        assert len(system.lessons("scout")) == 5


def test_a_refusal_sets_its_segment_aside_and_the_rest_goes_on(
    sqlite_database: Database, redis_url: str
) -> None:
    """One room that a model will not read must not keep the others from being remembered."""

    def squeamish(request: ExtractionRequest) -> Any:
        if "unspeakable" in render(request):
            raise ModelRefused("bio")
        return lessons_of(request)

    model = ScriptedModel(window=3_000, extractions=[squeamish] * 20)
    with at_work(sqlite_database, redis_url, model) as system:
        five_runs(system, room="a", text="unspeakable " * 100)
        five_runs(system, room="b")

        while system.decision("scout").next is Kind.EXTRACTION:
            extract(system)

        rooms = {key[0] for key in system.lessons("scout")}
        assert rooms == {f"{run}: Quotes need sign-off." for run in range(5)}
        assert all("refused (bio)" in row["reason"] for row in system.rows(quarantines))
        assert len(system.unread("scout")) == 5


def test_a_window_that_the_fixed_part_fills_parks_without_a_call(
    sqlite_database: Database, redis_url: str
) -> None:
    """A loop that shrinks the room to nothing goes on for ever; a sentence with the numbers can be acted on."""
    found = case("MA-11")
    model = ScriptedModel(window=found["window_tokens"], overhead=found["system_prompt_tokens"])
    with at_work(sqlite_database, redis_url, model) as system:
        five_runs(system, text=found["room"][0]["content"])

        result = extract(system)

        assert result.outcome is Outcome.PARKED
        assert model.extraction_requests == []
        assert system.decision("scout").hold is Hold.PARKED
        assert "window of 3,000 tokens" in said_of(system)
        assert "1,800" in said_of(system)


def test_the_agents_own_window_governs_where_it_is_smaller(sqlite_database: Database, redis_url: str) -> None:
    """A memory made for a model of 200,000 tokens would not fit the agent that has 8,000."""
    model = ScriptedModel(window=200_000)
    with at_work(sqlite_database, redis_url, model) as system:
        five_runs(
            system, text="Quotes over a limit need sign-off by Dana. " * 200, model="house", window=8_000
        )

        assert extract(system).outcome is Outcome.REMEMBERED

        assert max(sizes(model)) <= 4_000
        assert len(model.extraction_requests) > 1
        assert {job["window"] for job in system.rows(jobs)} == {8_000}


def test_used_up_tokens_stop_an_agent_until_the_next_day_and_status_says_so(
    sqlite_database: Database, redis_url: str
) -> None:
    """A runaway agent costs so much and no more, nobody else stands still, and it goes on by itself."""
    model = ScriptedModel()
    with at_work(sqlite_database, redis_url, model, policy=Policy(daily_tokens=1_500)) as system:
        for room in ("a", "b", "c", "d"):
            five_runs(system, room=room, text="Quotes over a limit need sign-off by Dana. " * 5)
            extract(system)
        five_runs(system, "frugal")

        row = system.agent("scout")
        asked = len(model.extraction_requests)
        assert 0 < row["spent_tokens"] < 3_000
        assert system.decision("scout").next is None
        assert "TAKEAWAYS_DAILY_TOKENS" in said_of(system)
        assert extract(system, "scout").outcome is Outcome.NOTHING_DUE
        assert extract(system, "frugal").outcome is Outcome.REMEMBERED
        assert len(model.extraction_requests) == asked + 1

        for _ in range(4):
            system.advance(hours=24)
            system.work()
        assert not system.unread("scout")


def test_a_days_tokens_that_suffice_for_no_step_say_so(sqlite_database: Database, redis_url: str) -> None:
    """An agent that can never start must not look as if it waited for its turn."""
    model = ScriptedModel(overhead=2_000)
    with at_work(sqlite_database, redis_url, model, policy=Policy(daily_tokens=1_000)) as system:
        five_runs(system)

        assert extract(system).outcome is Outcome.DAILY_TOKENS

        assert model.extraction_requests == []
        assert "more than TAKEAWAYS_DAILY_TOKENS (1,000) allows for a day" in said_of(system)


def test_the_tokens_of_a_failed_call_are_on_the_bill(sqlite_database: Database, redis_url: str) -> None:
    """An answer that cannot be read was paid for like any other."""
    unreadable = AnswerUnreadable("no JSON in it")
    unreadable.spent = Usage(1_000, 50, cached_tokens=600, written_tokens=200, calls=2)
    with at_work(sqlite_database, redis_url, ScriptedModel(extractions=[unreadable])) as system:
        five_runs(system)

        extract(system)

        [job] = system.rows(jobs)
        assert (job["input_tokens"], job["output_tokens"], job["calls"]) == (1_000, 50, 2)
        assert (job["cached_tokens"], job["written_tokens"]) == (600, 200)
        assert job["cost_microdollars"] is None
        assert system.agent("scout")["spent_tokens"] == 1_050


def test_a_refused_room_stops_none_that_shared_its_call(sqlite_database: Database, redis_url: str) -> None:
    """Short rooms share a call to save tokens, not to be set aside for one another."""

    def squeamish(request: ExtractionRequest) -> Any:
        if "unspeakable" in render(request):
            raise ModelRefused("bio")
        return lessons_of(request)

    model = ScriptedModel(extractions=[squeamish] * 20)
    with at_work(sqlite_database, redis_url, model) as system:
        five_runs(system, room="a")
        five_runs(system, room="b", text="unspeakable")
        five_runs(system, room="c")

        extract(system)

        assert len(model.extraction_requests[0].rooms) == 3
        assert len(system.unread("scout")) == 5
        [aside] = system.rows(quarantines)
        assert aside["items"] == 5


def test_a_flush_waits_for_a_busy_model_as_long_as_it_may(sqlite_database: Database, redis_url: str) -> None:
    """Whoever asks for everything now would rather wait a little than ask again; a script must not wait for ever."""
    model = ScriptedModel(extractions=[ModelOverloaded("busy", 0.2)])
    with at_work(sqlite_database, redis_url, model, limits=Limits(first_wait_seconds=0.1)) as system:
        five_runs(system)

        [waited] = flush(system.services, ["scout"], patience_seconds=30)

        assert waited.unread == 0
        assert waited.jobs[0].outcome is Outcome.OVERLOADED
        model.then_extract(ModelOverloaded("busy", 600))
        five_runs(system, room="s")
        [left] = flush(system.services, ["scout"], patience_seconds=30)
        assert left.unread == 5
