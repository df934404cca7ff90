"""Since when an agent waits for a worker: kept with every decision, so that a backlog shows its age."""

from __future__ import annotations

from takeaways.producers import Producer
from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.workers.leases import Claimed, NotClaimed, claim
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.sweep import sweep_once
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import NoHints, Pipeline, pipeline

POLICY = Policy()


def publish(producer: Producer, agent_id: str, *run_ids: str) -> None:
    for run_id in run_ids:
        producer.run_completed(
            agent_id=agent_id,
            room="quotes",
            run_id=run_id,
            status="succeeded",
            messages=[{"role": "user", "content": f"Quotes of {run_id} need sign-off."}],
        )


def due(made: Pipeline, agent_id: str = "scout") -> tuple[str | None, str | None]:
    row = made.agent(agent_id)
    return row["due_kind"], row["due_reason"]


def test_an_agent_is_due_from_its_fifth_run_until_it_is_claimed(database: Database, redis_url: str) -> None:
    """The age of the oldest due agent says how far behind the workers are."""
    with pipeline(database, redis_url, ScriptedModel(), POLICY) as made:
        publish(made.producer, "scout", "r1", "r2", "r3", "r4")
        made.take_in()
        before = due(made)
        publish(made.producer, "scout", "r5")
        made.take_in()
        since_ms = made.agent("scout")["due_since_ms"]
        made.advance(hours=1)
        publish(made.producer, "scout", "r6")
        made.take_in()

        claimed = claim(database, "scout", Kind.EXTRACTION, owner="me", job_id="j1", policy=POLICY)

        assert before == (None, None)
        assert since_ms is not None
        assert isinstance(claimed, Claimed)
        assert 3_600_000 <= claimed.waited_ms < 3_700_000, "a run that comes later makes it no younger"
        assert due(made) == (None, None)


def test_an_agent_that_becomes_due_by_the_clock_is_due_since_then(database: Database, redis_url: str) -> None:
    """Six idle hours, and then an hour without any sweep: it waits for one hour, not for seven or none."""
    with pipeline(database, redis_url, ScriptedModel(), POLICY) as made:
        publish(made.producer, "scout", "r1")
        made.take_in()
        made.advance(hours=7)

        sweep_once(database, NoHints(), policy=POLICY, kinds=[Kind.CONSOLIDATION])
        claimed = claim(database, "scout", Kind.CONSOLIDATION, owner="me", job_id="j1", policy=POLICY)

        assert isinstance(claimed, Claimed)
        assert abs(claimed.waited_ms - 3_600_000) < 60_000


def test_what_is_due_again_after_a_job_waits_from_its_end(database: Database, redis_url: str) -> None:
    """A released lease begins a new wait, and an agent with nothing to do has none."""
    with pipeline(database, redis_url, ScriptedModel(), POLICY) as made:
        publish(made.producer, "scout", *(f"r{number}" for number in range(5)))
        made.take_in()
        made.work()

        assert due(made) == (None, None)

        made.advance(hours=7)
        sweep_once(database, NoHints(), policy=POLICY, kinds=[Kind.EXTRACTION])

        assert due(made) == ("consolidation", "idle"), "the pool that leaves it to the other one notes it too"
        assert isinstance(
            claim(database, "scout", Kind.EXTRACTION, owner="me", job_id="j", policy=POLICY), NotClaimed
        )
