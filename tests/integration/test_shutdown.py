"""Stopping workers in the middle of their work: they finish or give back what they hold, and exit with 0."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import select

from takeaways.producers import Producer
from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents, candidates, jobs, messages
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import pipeline
from tests.processes import CLI, environment_of, kill_all
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
TIMEOUT_SECONDS = 120.0
THREADS: dict[str, object] = {"pool": "threads"}
SPAWN: dict[str, object] = {"pool": "prefork", "pool_start_method": "spawn"}
FORK: dict[str, object] = {"pool": "prefork"}

Start = Callable[..., subprocess.Popen[bytes]]
pytestmark = pytest.mark.timeout(300)


def slow_model(**arguments: Any) -> ScriptedModel:
    """What the workers of these tests are given: a call takes as long as the test says."""
    return ScriptedModel(delay_seconds=float(os.environ["SLOW_SECONDS"]), **arguments)


@pytest.fixture
def start(redis_url: str, tmp_path: Path) -> Iterator[Start]:
    """Start a pool against the test's servers; what still runs at the end is killed."""
    running: list[subprocess.Popen[bytes]] = []

    def start(
        database: Database, kind: Kind, *, slow_seconds: float, **settings: object
    ) -> subprocess.Popen[bytes]:
        settings = {"model": f"{__name__}:slow_model", "call_seconds": 20, **settings}
        environment = {
            **environment_of(database, redis_url, tmp_path, **settings),
            "SLOW_SECONDS": str(slow_seconds),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        }
        running.append(subprocess.Popen([*CLI, "worker", kind.value], env=environment))
        return running[-1]

    yield start
    kill_all(running)


def publish(redis_url: str, agent_id: str, runs: range) -> None:
    with Producer(redis_url) as producer:
        for number in runs:
            producer.run_completed(
                agent_id=agent_id,
                room=f"room-{number % 3}",
                run_id=f"r{number}",
                messages=[{"role": "user", "content": f"Fact {number} of {agent_id}."}],
            )


def rows(database: Database, table: Any) -> list[Any]:
    with database.read() as connection:
        return list(connection.execute(select(table)).mappings())


def held(database: Database) -> int:
    return sum(row["owner"] is not None for row in rows(database, agents))


@pytest.mark.parametrize(
    ("which", "pool"),
    [("sqlite", THREADS), ("sqlite", SPAWN), ("postgresql", FORK)],
    ids=["threads", "spawned", "forked"],
)
def test_a_stop_lets_the_running_call_finish_and_claims_nothing_more(
    request: pytest.FixtureRequest, start: Start, redis_url: str, which: str, pool: dict[str, object]
) -> None:
    """A deployment throws away no answer that is paid for, and leaves no agent locked."""
    database: Database = request.getfixturevalue(f"{which}_database")
    for number in range(6):
        publish(redis_url, f"scout-{number}", range(5))
    worker = start(database, Kind.EXTRACTION, slow_seconds=3.0, **pool)
    wait_until(lambda: held(database) == 2, timeout_seconds=TIMEOUT_SECONDS)

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(TIMEOUT_SECONDS) == 0
    ended = rows(database, jobs)
    assert [(job["outcome"], job["messages_read"]) for job in ended] == [("interrupted", 5)] * 2
    assert held(database) == 0
    assert sum(row["attempts"] for row in rows(database, agents)) == 0
    assert len(rows(database, candidates)) == 10


@pytest.mark.parametrize(
    ("which", "pool"), [("sqlite", THREADS), ("postgresql", FORK)], ids=["threads", "forked"]
)
def test_a_call_that_outlasts_the_grace_is_called_off_and_its_lease_given_back(
    request: pytest.FixtureRequest, start: Start, redis_url: str, which: str, pool: dict[str, object]
) -> None:
    """One stuck call must not hold up a deployment, nor its agent until the lease runs out."""
    database: Database = request.getfixturevalue(f"{which}_database")
    publish(redis_url, "scout", range(5))
    worker = start(database, Kind.EXTRACTION, slow_seconds=500.0, call_seconds=400, grace_seconds=8, **pool)
    wait_until(lambda: held(database) == 1, timeout_seconds=TIMEOUT_SECONDS)

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(TIMEOUT_SECONDS) == 0
    assert [job["outcome"] for job in rows(database, jobs)] == ["interrupted"]
    [agent] = rows(database, agents)
    assert (agent["owner"], agent["attempts"]) == (None, 0)


@pytest.mark.parametrize(
    ("which", "pool"), [("sqlite", THREADS), ("postgresql", FORK)], ids=["threads", "forked"]
)
def test_restarting_every_worker_in_turn_loses_and_doubles_nothing(
    request: pytest.FixtureRequest, start: Start, redis_url: str, which: str, pool: dict[str, object]
) -> None:
    """A rolling restart under load ends with the memory that no restart would have given."""
    database: Database = request.getfixturevalue(f"{which}_database")
    names = [f"scout-{number}" for number in range(4)]
    stop = threading.Event()
    published = [0]

    def load() -> None:
        while not stop.wait(0.2):
            for name in names:
                publish(redis_url, name, range(published[0], published[0] + 1))
            published[0] += 1

    def started(kind: Kind) -> subprocess.Popen[bytes]:
        made = start(database, kind, slow_seconds=0.3, candidates_per_consolidation=3, **pool)
        wait_until(lambda: len(psutil.Process(made.pid).children()) == 2, timeout_seconds=TIMEOUT_SECONDS)
        return made

    workers = {kind: started(kind) for kind in Kind}
    loading = threading.Thread(target=load)
    loading.start()
    codes = []
    try:
        for kind in Kind:
            _wait_for_work(database)
            old, workers[kind] = workers[kind], started(kind)
            old.send_signal(signal.SIGTERM)
            codes.append(old.wait(TIMEOUT_SECONDS))
        _wait_for_work(database)
    finally:
        stop.set()
        loading.join()
    for worker in workers.values():
        worker.send_signal(signal.SIGTERM)
    codes += [worker.wait(TIMEOUT_SECONDS) for worker in workers.values()]

    with pipeline(database, redis_url, ScriptedModel()) as system:
        during = system.rows(jobs)
        system.take_in()
        system.flush()
        facts = {f"Fact {number} of {name}." for name in names for number in range(published[0])}
        remembered = [
            line.text for name in names for section in system.memory(name).sections for line in section.lines
        ]
        read = system.rows(messages)

    assert codes == [0, 0, 0, 0]
    assert {job["outcome"] for job in during} <= {
        "remembered",
        "nothing_to_remember",
        "continues",
        "interrupted",
    }
    assert sorted(remembered) == sorted(facts)
    assert len(read) == len(facts)
    assert all(row["read_by"] for row in read)
    assert held(database) == 0


def _wait_for_work(database: Database) -> None:
    """Until some job has begun that had not before, so that a stop comes in the middle of the work."""
    begun = len(rows(database, jobs))
    wait_until(lambda: len(rows(database, jobs)) > begun + 1, timeout_seconds=TIMEOUT_SECONDS)
