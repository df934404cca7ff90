"""What a pass has served and what it has not: what comes in while it works, and how often its work was tried."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.run import run_job
from takeaways.workers.leases import Claimed, claim, fenced, release
from takeaways.workers.schedule.asked import ask
from takeaways.workers.schedule.decide import Reason
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import Pipeline, pipeline

AGENT = "scout"
START = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)


def publish(system: Pipeline, *numbers: int, words: int = 0) -> None:
    """Runs that end one minute after the other, each in a room of its own, with one message of a person."""
    for number in numbers:
        system.producer.run_completed(
            agent_id=AGENT,
            room=f"room-{number}",
            run_id=f"run-{number}",
            ended_at=START + timedelta(minutes=number),
            messages=[{"role": "user", "content": f"Fact {number}. " + "word " * words}],
        )
    system.take_in()


def compact(system: Pipeline, number: int) -> None:
    system.producer.room_compacted(agent_id=AGENT, room="room-0", conversation="c", compaction=number)
    system.take_in()


def ask_for(kind: Kind) -> Callable[[Pipeline], object]:
    return lambda system: ask(system.database, [AGENT], [kind])


class Overtaken(ScriptedModel):
    """Something happens while it works for the first time."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__()
        self._happens: list[Callable[[], object]] = [happens]

    def extract(self, request: Any, call: Any) -> Any:
        self._once()
        return super().extract(request, call)

    def consolidate(self, request: Any, call: Any) -> Any:
        self._once()
        return super().consolidate(request, call)

    def _once(self) -> None:
        if self._happens:
            self._happens.pop()()


def overtaken(system: Pipeline, kind: Kind, happens: Callable[[Pipeline], object]) -> Outcome:
    """Run a job, during which something happens; returns how the job ended."""
    worker = system.another_worker("overtaken", model=Overtaken(lambda: happens(system)))
    return run_job(kind, AGENT, worker).outcome


@pytest.mark.parametrize(
    ("kind", "comes", "reason"),
    [
        (Kind.EXTRACTION, lambda system: publish(system, *range(5, 10)), Reason.RUNS),
        (Kind.EXTRACTION, ask_for(Kind.EXTRACTION), Reason.ASKED),
        (Kind.CONSOLIDATION, lambda system: compact(system, 2), Reason.COMPACTED),
        (Kind.CONSOLIDATION, ask_for(Kind.CONSOLIDATION), Reason.ASKED),
    ],
    ids=["runs", "asked", "compacted", "asked to consolidate"],
)
def test_what_comes_while_a_pass_works_is_due_once_after_it(
    database: Database, redis_url: str, kind: Kind, comes: Callable[[Pipeline], object], reason: Reason
) -> None:
    """A pass serves what was there when it began; clearing a flag would swallow the rest."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        publish(system, *range(5))
        if kind is Kind.CONSOLIDATION:
            system.work()
            compact(system, 1)

        ended = overtaken(system, kind, comes)
        due = system.decision(AGENT).outlook(kind).due
        run_job(kind, AGENT, system.services)

        assert ended is Outcome.REMEMBERED
        assert due is reason
        assert system.decision(AGENT).outlook(kind).due is None


def test_a_run_that_ends_during_a_consolidation_starts_the_idle_time_anew(
    database: Database, redis_url: str
) -> None:
    """What was said in it is consolidated six hours later, although nothing else happens."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        publish(system, *range(5))
        system.work()
        compact(system, 1)

        overtaken(system, Kind.CONSOLIDATION, lambda system: publish(system, 6))

        ended_ms = round((START + timedelta(minutes=6)).timestamp() * 1000)
        assert system.decision(AGENT).consolidation.at_ms == ended_ms + system.policy.idle_ms


@pytest.mark.parametrize("comes", [lambda system: compact(system, 1), ask_for(Kind.CONSOLIDATION)])
def test_a_consolidation_without_candidates_is_served_too(
    database: Database, redis_url: str, comes: Callable[[Pipeline], object]
) -> None:
    """Else it would be due for ever, and every sweep would start it."""
    model = ScriptedModel()
    with pipeline(database, redis_url, model) as system:
        publish(system, 0)
        comes(system)

        ended = run_job(Kind.CONSOLIDATION, AGENT, system.services).outcome

        assert ended is Outcome.NOTHING_TO_REMEMBER
        assert model.consolidation_requests == []
        assert system.decision(AGENT).consolidation.due is None


def test_a_consolidation_that_waited_through_an_extraction_goes_next(
    database: Database, redis_url: str
) -> None:
    """An agent that talks without a pause would otherwise never be consolidated."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        publish(system, *range(5))
        compact(system, 1)
        first = system.decision(AGENT).next

        overtaken(system, Kind.EXTRACTION, lambda system: publish(system, *range(5, 10)))
        second = system.decision(AGENT).next
        run_job(Kind.CONSOLIDATION, AGENT, system.services)

        assert (first, second) == (Kind.EXTRACTION, Kind.CONSOLIDATION)
        assert system.decision(AGENT).next is Kind.EXTRACTION


def test_a_consolidation_that_goes_on_merges_what_was_there_when_it_began(
    database: Database, redis_url: str
) -> None:
    """Its slices alternate with extractions; what these add would keep one pass going for ever."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        publish(system, *range(5))
        system.work()
        compact(system, 1)
        slice_ends(system, Kind.CONSOLIDATION)
        publish(system, *range(5, 10))
        run_job(Kind.EXTRACTION, AGENT, system.services)

        merged = run_job(Kind.CONSOLIDATION, AGENT, system.services)

        assert merged.candidates_settled == 5
        assert len(system.lessons(AGENT)) == 10


def slice_ends(system: Pipeline, kind: Kind) -> None:
    """A job claims, and gives the agent back before it has done anything."""
    lease = claimed(system, kind)
    with fenced(system.database, lease) as (connection, row):
        release(connection, row, lease, policy=system.policy, attempt_back=True, values={})


def claimed(system: Pipeline, kind: Kind, owner: str = "other") -> Any:
    job_id = f"{owner}-{system.agent(AGENT)['epoch']}"
    taken = claim(system.database, AGENT, kind, owner=owner, job_id=job_id, policy=system.policy)
    assert isinstance(taken, Claimed)
    return taken.lease


def killed(system: Pipeline, kind: Kind, times: int) -> None:
    """Claims that nothing follows, as killed workers leave them behind; their leases run out."""
    for _ in range(times):
        claimed(system, kind)
        with system.database.write() as connection:
            connection.execute(update(agents).values(lease_until_ms=0))


# Attempts


class DiesAtTheSecond(ScriptedModel):
    """Ends its worker in the second call, past every handler of errors."""

    def extract(self, request: Any, call: Any) -> Any:
        if self.extraction_requests:
            raise KeyboardInterrupt
        return super().extract(request, call)

    def consolidate(self, request: Any, call: Any) -> Any:
        if self.consolidation_requests:
            raise KeyboardInterrupt
        return super().consolidate(request, call)


@pytest.mark.parametrize("kind", list(Kind))
def test_each_committed_step_begins_the_count_of_attempts_anew(
    database: Database, redis_url: str, kind: Kind
) -> None:
    """A long backlog that gets on is never set aside for the crashes on its way."""
    policy = Policy(candidates_per_consolidation=30)
    with pipeline(database, redis_url, ScriptedModel(), policy) as system:
        publish(system, *range(30), words=200)
        if kind is Kind.CONSOLIDATION:
            run_job(Kind.EXTRACTION, AGENT, system.services)
        killed(system, kind, 3)
        before = system.agent(AGENT)["attempts"]

        dying = system.another_worker("dying", model=DiesAtTheSecond(window=4_000))
        with pytest.raises(KeyboardInterrupt):
            run_job(kind, AGENT, dying)

        assert before == 3
        assert system.agent(AGENT)["attempts"] == 1


def test_what_was_tried_for_one_thing_is_not_counted_for_another(database: Database, redis_url: str) -> None:
    """Extractions that die say nothing against the consolidation that comes after them."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        publish(system, *range(5))
        killed(system, Kind.EXTRACTION, 4)
        with database.write() as connection:
            connection.execute(update(agents).values(consolidation_waited=True, compactions_total=1))

        assert claimed(system, Kind.CONSOLIDATION).attempts == 1


def test_a_worker_that_was_fenced_off_costs_its_successor_no_attempt(
    database: Database, redis_url: str
) -> None:
    """It did not die over the batch: it was slow, and says so when it comes back."""

    def succeeded(system: Pipeline) -> None:
        with database.write() as connection:
            connection.execute(update(agents).values(lease_until_ms=0))
        claimed(system, Kind.EXTRACTION, "successor")

    with pipeline(database, redis_url, ScriptedModel()) as system:
        publish(system, *range(5))

        ended = overtaken(system, Kind.EXTRACTION, succeeded)

        assert ended is Outcome.FENCED_OFF
        assert (system.agent(AGENT)["owner"], system.agent(AGENT)["attempts"]) == ("successor", 1)
