"""Too much at once: what waits stays where it is safe, and nothing is pushed faster than it is taken."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import insert, select, text, update

from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.events import encode
from takeaways.schemas.queues import FIELD, RUNS_STREAM, Kind
from takeaways.schemas.tables import agents, system
from takeaways.workers.intake.process import IntakeOptions, IntakeProcess
from takeaways.workers.intake.reader import BATCH_ENTRIES, StreamReader, connect_reader
from takeaways.workers.intake.streaming import StreamOptions
from takeaways.workers.pools.hints import Hints
from takeaways.workers.schedule.boot import current_boot
from tests.published import POLICY, outcomes, run
from tests.waiting import wait_until

QUEUE = "hints-that-nobody-has-taken"


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    with connect_reader(redis_url) as client:
        yield client


@contextmanager
def intake(database: Database, redis_url: str, hints: Hints, **options: Any) -> Iterator[IntakeProcess]:
    stream = StreamOptions(block_seconds=0.05, trim_seconds=0.05, keep_seconds=0)
    queue_length = options.pop("queue_length", lambda kind: 0)
    running = IntakeProcess(
        database=database,
        redis_url=redis_url,
        hints=hints,
        policy=POLICY,
        kinds=[Kind.EXTRACTION],
        queue_length=queue_length,
        options=IntakeOptions(stream=stream, sweep_seconds=0.02, **options),
    )
    thread = threading.Thread(target=running.run)
    thread.start()
    try:
        yield running
    finally:
        running.stop()
        thread.join(30)
        hints.close(timeout_seconds=1)


def publish(redis: Redis, first: int, count: int) -> None:
    pipeline = redis.pipeline(transaction=False)
    for number in range(first, first + count):
        pipeline.xadd(RUNS_STREAM, {FIELD: encode(run(f"r{number}", agent=f"a{number % 50}"))})
    pipeline.execute()


def test_intake_reads_no_further_than_the_database_has_come(
    postgresql_database: Database, redis_url: str, redis: Redis
) -> None:
    """With the database held up, events wait on Redis, where they are safe, and not in a process's memory."""
    count = 4 * BATCH_ENTRIES
    with intake(postgresql_database, redis_url, Hints(lambda *_: None)):
        with postgresql_database.engine.connect() as holder, holder.begin():
            holder.execute(text("LOCK TABLE inbox IN ACCESS EXCLUSIVE MODE"))
            publish(redis, 0, count)
            reader = StreamReader(redis, RUNS_STREAM)
            wait_until(lambda: reader.pending() > 0)
            deepest, give_up = 0, time.monotonic() + 3.0
            while time.monotonic() < give_up:
                deepest = max(deepest, reader.pending())
                assert redis.xlen(RUNS_STREAM) == count, "what is not taken in was trimmed"
        wait_until(lambda: len(outcomes(postgresql_database)) == count)
        wait_until(lambda: redis.xlen(RUNS_STREAM) <= 1)

    assert 0 < deepest <= BATCH_ENTRIES


def test_all_agents_due_at_once_are_hinted_as_fast_as_hints_are_taken(
    database: Database, redis_url: str, redis: Redis
) -> None:
    """After an outage the queue must not fill with every agent there is, and each still gets its turn."""
    boot_id, count, cap, limit = current_boot(database, pinned=None, fresh=True), 1_500, 100, 50
    with database.write() as connection:
        rows = [
            {"agent_id": f"a{number}", "boot_id": boot_id, "runs_total": 5, "wake_at_ms": now_ms(connection)}
            for number in range(count)
        ]
        connection.execute(insert(agents), rows)
        connection.execute(update(system).values(policy_hash=POLICY.hash))
    own = connect_reader(redis_url)

    def send(kind: Kind, agent_id: str, reason: str) -> None:
        time.sleep(0.0005)  # as long as Celery takes
        own.rpush(QUEUE, agent_id)

    hints = Hints(send)
    longest, taken = 0, set[str]()
    with intake(
        database,
        redis_url,
        hints,
        sweep_limit=limit,
        queue_cap=cap,
        queue_length=lambda kind: int(redis.llen(QUEUE)),
    ):
        wait_until(lambda: redis.llen(QUEUE) >= cap)
        time.sleep(0.3)
        while len(taken) < count:
            longest = max(longest, int(redis.llen(QUEUE)) + hints.counts.waiting)
            popped: Any = redis.lpop(QUEUE, 20)
            taken.update(popped or ())
    own.close()

    assert longest <= cap + 2 * limit
    assert hints.counts.dropped == 0
    with database.read() as connection:
        assert set(connection.execute(select(agents.c.hints)).scalars()) == {1}
