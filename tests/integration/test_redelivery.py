"""A hint that a killed worker had taken: the broker gives it back, and it does no harm (QL-01)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import select

from takeaways.schemas.database import Database
from takeaways.schemas.queues import BROKER_PREFIX, Kind
from takeaways.schemas.tables import agents, candidates, jobs
from takeaways.workers.pools.broker import make_app
from takeaways.workers.pools.hints import celery_publisher
from takeaways.workers.pools.tasks import worker_app
from takeaways.workers.settings import Settings
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import pipeline
from tests.published import run
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def settings(sqlite_database: Database, redis_url: str, tmp_path: Path) -> Settings:
    """Calls so short that the broker gives a hint back after five seconds."""
    return Settings(
        home=tmp_path,
        redis_url=redis_url,
        database_url=str(sqlite_database.engine.url),
        model="tests.faults.models:slow",
        concurrency=1,
        slice_seconds=0.5,
        call_seconds=1.0,
        lease_seconds=1.0,
        metrics=False,
    )


@contextmanager
def celery_worker(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """A worker without an intake, so that nothing hints again but the broker. It dies with the block."""
    argv = [sys.executable, "-m", "celery", "--quiet", "-A", "takeaways.workers.app", "worker"]
    options = ["--queues", "extraction", "--pool", "threads", "--without-gossip", "--without-mingle"]
    environment = {**os.environ, **settings.environment(), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*argv, *options], env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_hint_of_a_killed_worker_comes_back_and_the_job_is_done_once(
    settings: Settings, sqlite_database: Database, redis_url: str
) -> None:
    """Nothing but the broker knows of it here: no event comes in, and nobody sweeps."""
    with pipeline(sqlite_database, redis_url, ScriptedModel()) as system:
        for number in range(5):
            system.producer.publish(run(f"r{number}", f"Fact {number}."))
        system.take_in()
    broker = make_app(settings)
    unhurried = {"model": "takeaways.workers.testing:ScriptedModel", "slice_seconds": 60.0}
    worker = worker_app(settings.model_copy(update=unhurried))
    celery_publisher(broker)(Kind.EXTRACTION, "ada", "runs")

    with celery_worker(settings):
        wait_until(lambda: owner(sqlite_database))
    with Redis.from_url(redis_url) as client:
        taken = client.hlen(f"{BROKER_PREFIX}unacked")
        endings = [given_back(broker, worker), str(again(worker))]
        wait_until(lambda: client.hlen(f"{BROKER_PREFIX}unacked") == 0)

    with sqlite_database.read() as connection:
        found = connection.execute(select(candidates.c.candidate_id)).all()
        outcomes = set(connection.execute(select(jobs.c.outcome)).scalars())
    assert taken == 1
    assert [ending.partition(":")[0] for ending in endings] == ["remembered", "nothing_due"]
    assert len(found) == 5
    assert outcomes == {None, "remembered"}


def owner(database: Database) -> Any:
    with database.read() as connection:
        return connection.execute(select(agents.c.owner)).scalar_one()


def given_back(broker: Any, worker: Any) -> str:
    """Wait until the broker gives a hint back, as each worker asks it to every few seconds, and do its task."""
    with broker.connection_for_read() as connection, connection.SimpleQueue(Kind.EXTRACTION.value) as queue:
        found: list[Any] = []

        def is_back() -> bool:
            queue.channel.qos.restore_visible(interval=1)
            with suppress(queue.Empty):
                found.append(queue.get(timeout=0.5))
            return bool(found)

        wait_until(is_back)
        [message] = found
        _, arguments, _ = message.payload
        result = worker.tasks[message.headers["task"]].apply(kwargs=arguments).result
        message.ack()
        return str(result)


def again(worker: Any) -> Any:
    """The same hint once more: doubled, it finds nothing due."""
    return worker.tasks["takeaways.extract"].apply(kwargs={"agent_id": "ada"}).result
