"""Nothing lost, nothing twice, one at a time: with duplicates, races, late events and workers that die."""

from __future__ import annotations

import random
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import update

from takeaways.schemas.database import Database
from takeaways.schemas.memories import Candidate, Evidence, Lesson
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents, candidates, jobs, messages, quarantines, rooms
from takeaways.workers.extraction.backlog import add_candidates
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.run import run_job
from takeaways.workers.schedule.decide import Hold
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import Pipeline, pipeline
from tests.victims import victim
from tests.waiting import wait_until

START = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)


def publish(system: Pipeline, run: int, *, room: str = "room-1", agent_id: str = "scout") -> None:
    """One run with two messages of a person and one of the agent."""
    at = START + timedelta(minutes=run)
    system.producer.run_completed(
        agent_id=agent_id,
        room=room,
        run_id=f"run-{run}",
        status="succeeded",
        started_at=at,
        ended_at=at + timedelta(seconds=30),
        messages=[
            {"role": "user", "content": f"Fact {run} a of {room}.", "time": at.isoformat()},
            {"role": "assistant", "content": "Noted."},
            {
                "role": "user",
                "content": f"Fact {run} b of {room}.",
                "time": (at + timedelta(seconds=5)).isoformat(),
            },
        ],
    )


def read_by(system: Pipeline) -> dict[str, str]:
    return {f"{row['room_id']}/{row['message_id']}": row["read_by"] for row in system.rows(messages)}


def test_two_workers_that_race_for_an_agent_read_each_message_once(
    database: Database, redis_url: str
) -> None:
    """Hints come twice and late; the lease lets one of them work."""
    model = ScriptedModel(delay_seconds=0.05)
    with pipeline(database, redis_url, model) as system:
        for run in range(5):
            publish(system, run)
        system.take_in()

        workers = [system.another_worker(f"worker-{number}") for number in range(6)]
        with ThreadPoolExecutor(6) as pool:
            results = list(pool.map(lambda worker: run_job(Kind.EXTRACTION, "scout", worker), workers))

        outcomes = [result.outcome for result in results]
        assert outcomes.count(Outcome.REMEMBERED) == 1
        assert set(outcomes) <= {Outcome.REMEMBERED, Outcome.BUSY, Outcome.NOTHING_DUE}
        assert len(model.extraction_requests) == 1
        assert len(system.lessons("scout")) == 10
        assert not system.unread("scout")


@pytest.mark.parametrize("seed", range(4))
def test_events_in_any_order_teach_the_same(database: Database, redis_url: str, seed: int) -> None:
    """Two producers, a retry, a slow network: order on the wire is nobody's promise."""
    plan = [(run, f"room-{2 - run % 3}") for run in range(12)]
    with pipeline(database, redis_url, ScriptedModel()) as system:
        shuffled = plan + plan[::3]
        random.Random(seed).shuffle(shuffled)
        for number, (run, room) in enumerate(shuffled):
            publish(system, run, room=room)
            if number % 4 == seed:
                system.take_in()
                system.flush()
        system.take_in()
        system.flush()
        lessons, memory = system.lessons("scout"), system.memory("scout")

    expected = {f"Fact {run} {half} of {room}." for run, room in plan for half in "ab"}
    assert {text for text, _, _ in lessons} == expected
    assert len(lessons) == 24
    shown = [
        (section.title, [(line.said_at_ms, line.text) for line in section.lines])
        for section in memory.sections
    ]
    assert shown == [
        (
            f"Room {room}",
            sorted((said_at_ms, text) for text, _, said_at_ms in lessons if text.endswith(f"of {room}.")),
        )
        for room in ("room-0", "room-1", "room-2")
    ]


def test_the_memory_does_not_depend_on_how_the_work_was_cut(database: Database, redis_url: str) -> None:
    """The same conversations end as the same bytes, in one extraction or in many."""
    memories, summaries = [], []
    for cut in (1, 3, 12):
        agent_id = f"scout-{cut}"
        with pipeline(database, redis_url, ScriptedModel()) as system:
            for run in range(12):
                publish(system, run, room=f"room-{run % 3}", agent_id=agent_id)
                if run % cut == 0:
                    system.take_in()
                    system.flush([agent_id])
            system.take_in()
            system.flush([agent_id])
            memories.append(
                [
                    (section.title, [line.text for line in section.lines])
                    for section in system.memory(agent_id).sections
                ]
            )
            mine = [row for row in system.rows(rooms) if row["agent_id"] == agent_id]
            summaries.append({row["room_id"]: row["summary"] for row in mine})

    assert memories[0] == memories[1] == memories[2]
    assert summaries[0] == summaries[1] == summaries[2]
    assert all(summaries[0].values())


class Dying(ScriptedModel):
    """Ends its worker in the middle of the call, past every handler of errors."""

    def extract(self, request: Any, call: Any) -> Any:
        raise KeyboardInterrupt


def agent_row(system: Pipeline) -> Any:
    return system.agent("scout")


def test_a_worker_killed_in_the_middle_of_a_job_changes_nothing(database: Database, redis_url: str) -> None:
    """After a SIGKILL the memory ends the same, byte for byte, as if nothing had happened."""
    policy = Policy(lease_seconds=1.5)
    memories = []
    with pipeline(database, redis_url, ScriptedModel(), policy) as system:
        for agent_id in ("scout", "undisturbed"):
            for run in range(5):
                publish(system, run, agent_id=agent_id)
        system.take_in()
        with victim(database, "scout", delay_seconds=60, policy=policy) as worker:
            held = system.decision("scout").hold
            worker.send_signal(signal.SIGKILL)
        assert held is Hold.LEASED

        wait_until(lambda: system.decision("scout").next is Kind.EXTRACTION)
        system.work()
        system.flush(["scout", "undisturbed"])

        for agent_id in ("scout", "undisturbed"):
            memories.append(
                [[line.text for line in section.lines] for section in system.memory(agent_id).sections]
            )
            assert len(system.lessons(agent_id)) == 10
        assert agent_row(system)["attempts"] == 0

    assert memories[0] == memories[1]


def test_a_frozen_worker_that_comes_back_is_fenced_off(database: Database, redis_url: str) -> None:
    """SIGSTOP for longer than the lease: its successor's work stands, its own is thrown away."""
    policy = Policy(lease_seconds=1.5)
    with pipeline(database, redis_url, ScriptedModel(), policy) as system:
        for run in range(5):
            publish(system, run)
        system.take_in()
        with victim(database, "scout", delay_seconds=1.0, policy=policy, beats=False) as zombie:
            zombie.send_signal(signal.SIGSTOP)

            wait_until(lambda: system.decision("scout").next is Kind.EXTRACTION)
            [successor] = [result for result in system.work() if result.outcome is Outcome.REMEMBERED]
            zombie.send_signal(signal.SIGCONT)
            said, _ = zombie.communicate(timeout=60)

        assert said.splitlines()[-1] == Outcome.FENCED_OFF
        assert set(read_by(system).values()) == {successor.job_id}
        assert len(system.lessons("scout")) == 10
        assert sorted(row["outcome"] for row in system.rows(jobs)) == ["fenced_off", "remembered"]


def test_a_batch_that_kills_its_workers_is_set_aside_and_the_rest_goes_on(
    database: Database, redis_url: str
) -> None:
    """One poisonous message must not stop an agent for good; it stays visible and is tried again later."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        for run in range(5):
            publish(system, run)
        system.take_in()
        for number in range(5):
            # A claim that nothing follows is what a killed worker leaves behind.
            dying = system.another_worker(f"dying-{number}", model=Dying())
            with pytest.raises(KeyboardInterrupt):
                run_job(Kind.EXTRACTION, "scout", dying)
            with database.write() as connection:
                connection.execute(update(agents).values(lease_until_ms=0, not_before_ms=None))

        [result] = system.work()
        publish(system, 6, room="room-2")
        system.take_in()
        system.flush()

        assert result.outcome is Outcome.QUARANTINED
        [gap] = system.rows(quarantines)
        assert gap["items"] == 15
        assert gap["lifted_at_ms"] is None
        assert {text for text, _, _ in system.lessons("scout")} == {
            "Fact 6 a of room-2.",
            "Fact 6 b of room-2.",
        }

        publish(system, 7, room="room-3")
        system.take_in()
        system.advance(hours=25)
        system.work()
        assert len(system.lessons("scout")) == 12
        assert system.unread("scout") == {"run-7#0", "run-7#1", "run-7#2"}, "it is tried alone"
        [gap] = system.rows(quarantines)
        assert gap["lifted_at_ms"] is not None


def test_an_overloaded_model_costs_no_attempt(sqlite_database: Database, redis_url: str) -> None:
    """An outage of the provider says nothing against what it could not read."""
    from takeaways.schemas.errors import ModelUnavailable

    with pipeline(sqlite_database, redis_url, ScriptedModel()) as system:
        for run in range(5):
            publish(system, run)
        system.take_in()
        down = system.another_worker(
            "down", model=ScriptedModel(extractions=[ModelUnavailable("busy", 3600)] * 8)
        )

        for _ in range(8):
            assert run_job(Kind.EXTRACTION, "scout", down).outcome is Outcome.OVERLOADED
            assert system.decision("scout").hold is not None
            system.advance(hours=2)

        assert agent_row(system)["attempts"] == 0
        assert agent_row(system)["owner"] is None
        [result] = [one for one in system.work() if one.outcome is Outcome.REMEMBERED and one.messages_read]
        assert result.messages_read == 15


def test_what_comes_in_while_a_job_works_counts_toward_the_next(database: Database, redis_url: str) -> None:
    """Five runs that end during an extraction are due for another one, not swallowed by it."""

    class Overtaken(ScriptedModel):
        def extract(self, request: Any, call: Any) -> Any:
            if not self.extraction_requests:
                for run in range(5, 10):
                    publish(system, run)
                system.take_in()
            return super().extract(request, call)

    with pipeline(database, redis_url, Overtaken()) as system:
        for run in range(5):
            publish(system, run)
        system.take_in()

        first = run_job(Kind.EXTRACTION, "scout", system.services)

        assert first.messages_read == 15
        assert system.decision("scout").next is Kind.EXTRACTION
        system.work()
        assert len(system.lessons("scout")) == 20


def test_a_message_edited_after_it_was_read_is_learned_anew(database: Database, redis_url: str) -> None:
    """The old wording must not live on in memory."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        publish(system, 0)
        system.take_in()
        system.flush()
        assert "Fact 0 a" in system.memory("scout").model_dump_json()

        system.producer.message_edited(
            agent_id="scout",
            room="room-1",
            message_id="run-0#0",
            revision=1,
            message={"role": "user", "content": "Changed."},
        )
        system.take_in()
        system.flush()
        after = system.memory("scout").model_dump_json()

    assert "Fact 0 a" not in after
    assert "Changed." in after
    assert "Fact 0 b" in after


def test_an_agent_that_is_deleted_during_a_job_stays_deleted(database: Database, redis_url: str) -> None:
    """A late write must not bring back what was erased; one made again starts empty."""
    model = ScriptedModel(delay_seconds=0.5)
    with pipeline(database, redis_url, model) as system:
        for run in range(5):
            publish(system, run)
        system.take_in()
        results: list[Any] = []
        job = threading.Thread(
            target=lambda: results.append(run_job(Kind.EXTRACTION, "scout", system.services))
        )
        job.start()
        wait_until(lambda: agent_row(system)["owner"] is not None)
        system.producer.agent_deleted(agent_id="scout")
        system.take_in()
        holder = agent_row(system)["owner"]
        job.join()

        assert results[0].outcome is Outcome.FENCED_OFF
        assert holder is None, "its next life would wait for the lease of this one"
        assert not system.rows(messages)
        assert not system.rows(candidates)

        publish(system, 50)
        system.take_in()
        assert not system.rows(messages), "an event from before the deletion revives nothing"


def test_no_transaction_is_open_while_the_model_works(database: Database, redis_url: str) -> None:
    """A call takes minutes; a transaction that waits for it would hold locks and vacuum for as long."""
    open_then: list[int] = []

    class Looking(ScriptedModel):
        """Counts the connections that are in use while it works; its job's heartbeat does not beat meanwhile."""

        def extract(self, request: Any, call: Any) -> Any:
            open_then.append(in_use(database))
            return super().extract(request, call)

        def consolidate(self, request: Any, call: Any) -> Any:
            open_then.append(in_use(database))
            return super().consolidate(request, call)

    with pipeline(database, redis_url, Looking()) as system:
        publish(system, 0)
        system.take_in()
        [flushed] = system.flush()

    assert flushed.unread == 0
    assert open_then == [0, 0]


def in_use(database: Database) -> int:
    pool: Any = database.engine.pool
    return int(pool.checkedout())


def test_one_step_may_teach_more_than_a_statement_takes(database: Database) -> None:
    """A hot agent's backlog in a large window: thousands of lessons are stored in one commit."""
    found = [
        Candidate(
            id=f"c{number}",
            room_id="room-1",
            kind=Lesson.FACT,
            topic="Facts",
            text=f"Fact {number}.",
            said_at_ms=number,
            evidence=(Evidence(message_id=f"m{number}", quote="Fact"),),
        )
        for number in range(6_200)
    ]

    with database.write() as connection:
        made = add_candidates(connection, "scout", found, first_place=0, job_id="j1")
        again = add_candidates(connection, "scout", found[:10], first_place=0, job_id="j2")

    assert (made, again) == (6_200, 0)
