"""Reports about models that answered badly, and what an agent remembers then: the whole way, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import candidates, jobs, quarantines, rooms
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.result import JobResult
from takeaways.workers.jobs.run import run_job
from takeaways.workers.testing import ScriptedModel
from takeaways.workers.testing.claude import ClaudeServer, Request, Scripted, Served, dense_count, script
from tests.cases import case
from tests.claude import MODEL, claude
from tests.pipeline import Pipeline, pipeline

STARTED = datetime.now(UTC) - timedelta(hours=1)


@contextmanager
def at_work(database: Database, redis_url: str, server: ClaudeServer, **options: Any) -> Iterator[Pipeline]:
    with claude(server, **options) as model, pipeline(database, redis_url, model) as system:
        yield system


def five_runs(system: Pipeline, *texts: str, room: str = "ops") -> None:
    said = texts if len(texts) > 1 else (texts or ("Staging uses port 9443.",)) * 5
    for run in range(5):
        system.producer.run_completed(
            agent_id="scout",
            room=room,
            run_id=f"{room}-{run}",
            status="succeeded",
            ended_at=STARTED + timedelta(minutes=run),
            messages=[{"role": "user", "content": f"{run}: {text}"} for text in said[run::5]],
        )
    system.take_in()


def extract(system: Pipeline) -> JobResult:
    return run_job(Kind.EXTRACTION, "scout", system.services)


def additive(**options: Any) -> ClaudeServer:
    """A server whose answers are a function of what it was sent: one lesson for each message."""
    answers: Any = ScriptedModel()
    return ClaudeServer(answers=answers, **options)


def stored(database: Database) -> str:
    """Every byte of the database, as one searches a disk."""
    file = database.engine.url.database
    assert file is not None
    return "".join(
        path.read_bytes().decode("latin-1") for path in Path(file).parent.glob(f"{Path(file).name}*")
    )


@pytest.mark.parametrize("number", range(4))
def test_a_cut_answer_is_never_stored_and_what_it_was_about_is_read_again(
    sqlite_database: Database, redis_url: str, number: int
) -> None:
    """ "Never deploy on" is the opposite of "Never deploy on Fridays without a second pair of eyes"."""
    cut = case("MA-03")["model"][number]
    answer = Scripted(text=cut["text"], stop_reason=cut["stop_reason"])
    # A call with more room for the answer is a try of its own; a full window has no such second try.
    tries = 2 if cut["stop_reason"] == "max_tokens" else 1
    with (
        additive(script=[answer] * tries) as server,
        at_work(sqlite_database, redis_url, server) as system,
    ):
        five_runs(system)
        results = [extract(system)]
        while results[-1].outcome is not Outcome.REMEMBERED and len(results) < 5:
            system.advance(hours=2)
            results.append(extract(system))
        first, second = server.messages[:2]

        assert results[-1].outcome is Outcome.REMEMBERED
        assert len(system.rows(candidates)) == 5
        assert (
            second.body["max_tokens"] > first.body["max_tokens"] or second.input_tokens < first.input_tokens
        )
    assert not cut["text"] or cut["text"] not in stored(sqlite_database)


@pytest.mark.parametrize("number", range(6))
def test_what_is_no_answer_never_becomes_a_summary_and_never_blocks_the_agent(
    sqlite_database: Database, redis_url: str, number: int
) -> None:
    """A refusal, silence or half a turn is recorded as what it is, tried so often, and then the rest goes on."""
    bad = case("MA-04")["model"][number]
    said = bad.get("text", "")
    answer = Scripted(text=said, stop_reason=bad["stop_reason"])

    def rule(request: Request) -> Scripted | None:
        return answer if "bad room" in request.text else None

    with additive(rule=rule) as server, at_work(sqlite_database, redis_url, server) as system:
        five_runs(system, "the bad room", room="bad")
        for _ in range(8):
            system.work()
            system.advance(hours=2)
        asked = len(server.messages)
        five_runs(system, "a good room", room="good")
        system.work()

        summaries = {row["room_id"]: row["summary"] or "" for row in system.rows(rooms)}
        endings = {row["outcome"] for row in system.rows(jobs)}
        learned = {row["room_id"] for row in system.rows(candidates)}
    assert asked <= 2 * 5 + 2
    assert endings & {Outcome.REFUSED, Outcome.UNREADABLE_ANSWER, Outcome.QUARANTINED}
    assert learned == {"good"}
    assert summaries["bad"] == ""
    if len(said) > 10:
        assert said not in stored(sqlite_database)


def test_failures_of_every_kind_are_waited_for_and_the_answer_is_stored_once(
    sqlite_database: Database, redis_url: str
) -> None:
    """A 529, an error within a stream, a connection that closed: three tries, one lesson, no half text."""
    faults = [script.overloaded(), script.error_after_text(), script.closed_early()]
    with additive(script=faults) as server, at_work(sqlite_database, redis_url, server) as system:
        five_runs(system)
        results = []
        for _ in range(4):
            results.append(extract(system))
            system.advance(hours=1)

        assert [result.outcome for result in results[:3]] == [
            Outcome.OVERLOADED,
            Outcome.OVERLOADED,
            Outcome.UNAVAILABLE,
        ]
        assert results[3].outcome is Outcome.REMEMBERED
        assert len(server.messages) == 4
        assert len(system.rows(candidates)) == 5
        assert system.agent("scout")["attempts"] in (0, 1)


@pytest.mark.parametrize("nearly", range(6))
def test_nearly_json_is_repaired_or_asked_for_once_more_and_never_taken_for_nothing(
    sqlite_database: Database, redis_url: str, nearly: int
) -> None:
    """The cursor moves only after an answer that was read."""
    text = case("MA-02")["model_texts"][nearly]
    with (
        additive(script=[Scripted(text=text)]) as server,
        at_work(sqlite_database, redis_url, server) as system,
    ):
        five_runs(system)

        result = extract(system)

        assert result.outcome is Outcome.REMEMBERED
        assert len(server.messages) == 2, "none of these texts is an answer of our schema"
        assert len(system.rows(candidates)) == 5
        assert system.unread("scout") == set()


def case_counter(scale: float) -> Callable[[str], int]:
    """The reports' own counter: a token for each character beyond ASCII, one for two others."""
    return lambda text: round(dense_count(text) * scale)


@pytest.mark.parametrize("scale", [1.0, 1.3])
@pytest.mark.parametrize("number", range(4))
def test_no_request_is_over_half_the_window_whatever_is_written(
    sqlite_database: Database, redis_url: str, number: int, scale: float
) -> None:
    """Four characters a token is wrong by as many times for Japanese, emoji and code; the budget holds for all."""
    found = case("MA-09")
    text = found["rooms"][number]
    window = found["window_tokens"]
    served = [Served(MODEL, window=window, most_output=20_000)]
    pieces = [text[start : start + 2_000] for start in range(0, len(text), 2_000)]
    with (
        additive(models=served, count=case_counter(scale)) as server,
        at_work(sqlite_database, redis_url, server) as system,
    ):
        five_runs(system, *pieces)
        endings = set[Outcome]()
        while system.unread("scout") and len(endings) < 12:
            endings.add(extract(system).outcome)
            system.advance(hours=1)
        sizes = [request.input_tokens for request in server.messages]

        assert system.unread("scout") == set()
        assert endings <= {Outcome.REMEMBERED, Outcome.CONTINUES, Outcome.NOTHING_TO_REMEMBER}
    assert max(sizes) <= window // 2
    assert max(sizes) >= window // 4, "the budget is used where there is enough to read"


def test_a_local_server_with_a_small_window_reads_everything_all_the_same(
    sqlite_database: Database, redis_url: str
) -> None:
    """It lists nothing, so 32,000 tokens are believed: each step was refused, and set aside as too long (MA-08)."""
    served = [Served(MODEL, window=12_000)]
    with (
        additive(models=served, lists=False) as server,
        at_work(sqlite_database, redis_url, server) as system,
    ):
        five_runs(system, *["Staging uses port 9443, and quotes need sign-off. " * 40] * 20)
        system.work()
        five_runs(system, *["Staging uses port 9444, and quotes need sign-off. " * 40] * 5, room="later")
        system.work()

        refused = [request for request in server.messages if request.status != 200]
        assert system.unread("scout") == set()
        assert system.rows(quarantines) == []
        assert len(refused) == 1, "the next job knows"
    assert max(request.input_tokens for request in server.messages if request.status == 200) <= 6_000


def test_the_bill_of_a_job_is_what_the_server_counted(sqlite_database: Database, redis_url: str) -> None:
    """Tokens that were read from the cache and written to it are told apart, and failed calls are on it."""
    with (
        additive(script=[script.wrong_shape()]) as server,
        at_work(sqlite_database, redis_url, server) as system,
    ):
        five_runs(system)
        extract(system)

        (job,) = system.rows(jobs)
        assert job["input_tokens"] == sum(request.input_tokens for request in server.messages)
        assert job["output_tokens"] == sum(request.output_tokens for request in server.messages)
        assert job["calls"] == len(server.messages) == 2
        assert job["cached_tokens"] > 1_000
        assert job["model"] == MODEL
        assert job["prompt_version"].startswith("claude-")
    assert json.dumps(job["outcome"])
