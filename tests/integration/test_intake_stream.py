"""From a real stream into the database: nothing is lost and nothing counts twice, whoever dies when."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError

from takeaways.schemas.database import Database
from takeaways.schemas.events import Event, encode
from takeaways.schemas.queues import COMPACTIONS_STREAM, FIELD, GROUP, RUNS_STREAM, Kind
from takeaways.workers.intake.active import active, lock_file
from takeaways.workers.intake.process import STALLED, IntakeOptions, IntakeProcess
from takeaways.workers.intake.reader import StreamReader, connect_reader, consumer_name, is_gone
from takeaways.workers.intake.streaming import Streaming, StreamOptions
from takeaways.workers.intake.transaction import take_in
from takeaways.workers.pools.hints import Hints
from tests.published import (
    POLICY,
    agent_row,
    compacted,
    everything,
    letters,
    outcomes,
    run,
    texts,
)
from tests.waiting import wait_until

QUICK = StreamOptions(block_seconds=0.05, retry_left_seconds=0.05, trim_seconds=0.0)


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    client = connect_reader(redis_url)
    yield client
    client.close()


def publish(redis: Redis, *published: Event) -> list[str]:
    """Put events on their streams. Returns the entries' ids."""
    return [_add(redis, one.data.STREAM, encode(one)) for one in published]


def _add(redis: Redis, stream: str, raw: bytes) -> str:
    entry_id: Any = redis.xadd(stream, {FIELD: raw})
    return str(entry_id.decode())


def reader(redis: Redis, **options: Any) -> StreamReader:
    return StreamReader(redis, RUNS_STREAM, **options)


def ids(entries: Any) -> list[str]:
    return [one.entry_id for one in entries]


# The reader


def test_events_published_before_the_first_reader_are_read(redis: Redis) -> None:
    """Services may publish before the first worker ever starts, or after Redis was wiped."""
    first = publish(redis, run("r1"), run("r2"))
    one = reader(redis)

    assert ids(one.read(block_seconds=0)) == first

    redis.flushall()
    second = publish(redis, run("r3"))
    assert ids(one.read(block_seconds=0)) == second


def test_what_a_killed_intake_had_read_is_taken_over_at_once(redis: Redis) -> None:
    """Its host can tell that the process is gone; two minutes of idleness need not pass first."""
    with subprocess.Popen([sys.executable, "-c", ""]) as killed:
        killed.wait()
    here = consumer_name().partition(":")[0]
    published = publish(redis, *(run(f"r{number}") for number in range(450)))
    reader(redis, consumer=f"{here}:{killed.pid}:dead").read(block_seconds=0)
    successor = reader(redis)

    claimed = successor.reclaim(idle_seconds=120)

    assert claimed == len(published)
    assert ids(successor.read(block_seconds=0)) == published


@pytest.mark.parametrize(
    ("consumer", "gone"),
    [
        (f"here:{os.getppid()}:n", False),
        ("here:4194999:n", True),
        ("here:7:another", True),
        ("here:7:n", False),
        ("elsewhere:4194999:n", False),
        ("named by hand", False),
        ("here:99999999999999999999:n", True),
    ],
)
def test_only_a_process_of_this_host_can_be_known_to_be_gone(consumer: str, gone: bool) -> None:
    """Entries of a living intake on another host are its own business, until they have been idle for long."""
    assert is_gone(consumer, than="here:7:n") is gone


def test_own_pending_entries_come_first_at_start_and_after_trouble(redis: Redis) -> None:
    """After a failed commit nothing else would ever give them back."""
    published = publish(redis, run("r1"), run("r2"))
    one = reader(redis, consumer="me")
    one.read(block_seconds=0)
    later = publish(redis, run("r3"))

    restarted = reader(redis, consumer="me")
    assert ids(restarted.read(block_seconds=0)) == published
    restarted.look_back()
    assert ids(restarted.read(block_seconds=0)) == published
    restarted.acknowledge(restarted.read(block_seconds=0))
    assert restarted.pending() == 2
    assert later


def test_batches_are_bounded_by_bytes_as_well_as_by_number(redis: Redis) -> None:
    """An entry may have 16 MiB, and five hundred of these do not fit in memory."""
    publish(redis, *(run(f"r{number}", "x" * 50_000) for number in range(20)))
    one = reader(redis, batch_bytes=200_000, batch_entries=6)

    sizes = []
    while entries := one.read(block_seconds=0):
        sizes.append(len(entries))
        assert sum(len(entry.raw) for entry in entries) <= 260_000
        one.acknowledge(entries)

    assert sum(sizes) == 20
    assert max(sizes) <= 6


def test_a_waiting_reader_gets_what_comes(redis: Redis, redis_url: str) -> None:
    """Reaction takes milliseconds because nobody polls."""
    one = reader(redis)
    one.read(block_seconds=0)
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.extend(ids(one.read(block_seconds=4))))
    thread.start()
    with Redis.from_url(redis_url) as other:
        wait_until(lambda: any(client["flags"] == "b" for client in other.client_list()))
        published = publish(other, run("r1"))
    thread.join(60)

    assert found == published


def test_what_a_dead_reader_left_is_taken_over(redis: Redis) -> None:
    """A killed process must not keep its entries for ever."""
    published = publish(redis, run("r1"), run("r2"), run("r3"))
    reader(redis, consumer="dead").read(block_seconds=0)
    heir = reader(redis, consumer="heir")
    assert heir.read(block_seconds=0) == []
    assert heir.reclaim(idle_seconds=3600) == 0

    assert heir.reclaim(idle_seconds=0) == 3

    assert ids(heir.read(block_seconds=0)) == published


def test_trimming_never_removes_what_some_group_still_needs(redis: Redis) -> None:
    """Another group, for instance an auditor's, may be far behind us."""
    published = publish(redis, *(run(f"r{number}") for number in range(6)))
    one, other = reader(redis), reader(redis, group="audit")
    mine, theirs = one.read(block_seconds=0), other.read(block_seconds=0)

    one.acknowledge(mine)
    other.acknowledge([theirs[0], theirs[1], theirs[4]])
    trimmed = one.trim()

    assert (trimmed.trimmed, trimmed.left) == (2, 4)
    other.look_back()
    assert ids(other.read(block_seconds=0)) == [published[place] for place in (2, 3, 5)]


def test_trimming_keeps_what_was_not_delivered_yet(redis: Redis) -> None:
    """Events may come quicker than they are taken in."""
    publish(redis, *(run(f"r{number}") for number in range(10)))
    one = reader(redis, batch_entries=4)
    one.acknowledge(one.read(block_seconds=0))

    one.trim()

    rest = []
    while entries := one.read(block_seconds=0):
        rest += entries
    assert len(rest) == 6


def test_entries_can_be_kept_for_a_while_after_they_were_taken_in(redis: Redis) -> None:
    """Against a failover of the database that forgets what it had acknowledged."""
    publish(redis, run("r1"), run("r2"))
    one = reader(redis)
    one.acknowledge(one.read(block_seconds=0))

    assert one.trim(keep_seconds=600).trimmed == 0
    assert one.trim().trimmed == 1


def test_a_consumer_with_pending_entries_is_never_deleted(redis: Redis) -> None:
    """Deleting it would lose them."""
    publish(redis, run("r1"), run("r2"))
    one = reader(redis, consumer="one", batch_entries=1)
    two = reader(redis, consumer="two")
    one.read(block_seconds=0)
    two.acknowledge(two.read(block_seconds=0))

    one.leave()
    dropped = two.drop_idle_consumers(idle_seconds=0)

    found: Any = redis.xinfo_consumers(RUNS_STREAM, GROUP)
    assert dropped == 1
    assert [consumer["name"] for consumer in found] == [b"one"]


def test_an_entry_deleted_while_pending_does_not_stop_the_reader(redis: Redis) -> None:
    """An operator's XDEL leaves a hole in the list of pending entries."""
    published = publish(redis, run("r1"), run("r2"))
    one = reader(redis)
    one.read(block_seconds=0)
    redis.xdel(RUNS_STREAM, published[0])
    one.look_back()

    assert ids(one.read(block_seconds=0)) == published[1:]
    assert one.pending() == 1


# Taking in


def streaming(
    database: Database, redis: Redis, hints: Hints, *, consumer: str | None = None, **options: Any
) -> Streaming:
    return Streaming(
        database,
        StreamReader(redis, RUNS_STREAM, consumer=consumer, **options),
        RUNS_STREAM,
        hints=hints,
        policy=POLICY,
        stop=threading.Event(),
        options=QUICK,
    )


@pytest.fixture
def hinted() -> list[tuple[Kind, str, str]]:
    return []


@pytest.fixture
def hints(hinted: list[tuple[Kind, str, str]]) -> Iterator[Hints]:
    made = Hints(lambda kind, agent_id, reason: hinted.append((kind, agent_id, reason)))
    yield made
    made.close(timeout_seconds=2)


def test_the_fifth_run_on_the_stream_hints_the_pool(
    database: Database, redis: Redis, hints: Hints, hinted: list[Any]
) -> None:
    """The whole way from a service's XADD to the queue of the pool."""
    publish(redis, *(run(f"r{number}", "hello") for number in range(5)))

    assert streaming(database, redis, hints).step() == 5

    wait_until(lambda: hinted == [(Kind.EXTRACTION, "ada", "runs")])
    assert reader(redis).pending() == 0


@pytest.mark.parametrize("dies", ["before the commit", "after the commit"])
def test_a_crash_at_any_step_ends_in_the_same_state(
    database: Database, redis: Redis, hints: Hints, dies: str
) -> None:
    """Between reading and committing, and between committing and acknowledging."""
    published = [run("r1", "one"), run("r2", "two", agent="bob"), run("r3", "three")]
    publish(redis, *published)
    dead = reader(redis, consumer="dead")
    entries = dead.read(block_seconds=0)
    if dies == "after the commit":
        take_in(database, entries, policy=POLICY)

    heir = streaming(database, redis, hints)
    reader(redis, consumer="heir")
    survivor = StreamReader(redis, RUNS_STREAM, consumer="dead")
    taken = take_in(database, survivor.read(block_seconds=0), policy=POLICY)
    survivor.acknowledge(taken.done)

    assert heir.step() == 0
    assert agent_row(database)["runs_total"] == 2
    assert texts(database) | texts(database, "bob") == {"r1#0": "one", "r2#0": "two", "r3#0": "three"}
    assert reader(redis).pending() == 0


def test_two_intakes_that_hold_the_same_entries_count_them_once(
    database: Database, redis: Redis, hints: Hints
) -> None:
    """One was thought dead and lives: each acknowledges only after its own commit."""
    publish(redis, run("r1", "one"), run("r2", "two"))
    slow = reader(redis, consumer="slow")
    entries = slow.read(block_seconds=0)
    quick = reader(redis, consumer="quick")
    quick.reclaim(idle_seconds=0)

    quick.acknowledge(take_in(database, quick.read(block_seconds=0), policy=POLICY).done)
    before = everything(database)
    slow.acknowledge(take_in(database, entries, policy=POLICY).done)

    assert everything(database) == before
    assert agent_row(database)["runs_total"] == 2
    assert quick.pending() == 0


def test_a_bad_entry_is_acknowledged_and_kept_whole(database: Database, redis: Redis, hints: Hints) -> None:
    """It must neither come back for ever nor vanish."""
    publish(redis, run("r1", "good"))
    _add(redis, RUNS_STREAM, b"\x00 not an event \xff")
    publish(redis, run("r2", "good"))

    streaming(database, redis, hints).step()

    assert sorted(outcomes(database)) == ["run:r1", "run:r2"]
    assert [bytes(letter["raw"]) for letter in letters(database)] == [b"\x00 not an event \xff"]
    assert reader(redis).pending() == 0


def test_a_full_redis_can_still_be_drained(sqlite_database: Database, redis: Redis, hints: Hints) -> None:
    """It accepts no event before somebody takes some in, so reading and trimming must go on."""
    intake = streaming(sqlite_database, redis, hints)
    assert intake.step() == 0
    publish(redis, *(run(f"r{number}", "x" * 20_000) for number in range(100)))
    redis.script_flush()
    used: Any = redis.info("memory")
    redis.config_set("maxmemory", used["used_memory"] - 300_000)
    try:
        with pytest.raises(OutOfMemoryError):
            publish(redis, run("late"))

        while intake.step():
            pass
        StreamReader(redis, RUNS_STREAM).trim()

        assert len(outcomes(sqlite_database)) == 100
        publish(redis, run("late"))
    finally:
        redis.config_set("maxmemory", 0)


def test_an_event_on_the_wrong_stream_is_a_dead_letter(
    database: Database, redis: Redis, hints: Hints
) -> None:
    """A compaction among the runs would wait for a pool that does not read it there."""
    _add(redis, RUNS_STREAM, encode(compacted(1)))

    streaming(database, redis, hints).step()

    assert [letter["reason"] for letter in letters(database)] == ["wrong_stream"]


# The process


def process(database: Database, redis_url: str, hints: Hints, *kinds: Kind, **options: Any) -> IntakeProcess:
    return IntakeProcess(
        database=database,
        redis_url=redis_url,
        hints=hints,
        policy=POLICY,
        kinds=kinds,
        options=IntakeOptions(stream=QUICK, sweep_seconds=0.05, **options),
    )


def test_the_process_takes_in_both_streams_and_drains_when_told_to_stop(
    database: Database, redis_url: str, redis: Redis, hints: Hints, hinted: list[Any]
) -> None:
    """SIGTERM ends it after the running batch, with nothing left pending and exit code 0."""
    running = process(database, redis_url, hints, *Kind)
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(running.run()))
    thread.start()
    publish(redis, *(run(f"r{number}", "hello") for number in range(5)), compacted(1, agent="bob"))

    wait_until(lambda: len(set(hinted)) >= 2)
    running.stop()
    thread.join(60)

    assert codes == [0]
    # A set: the sweep that applies a new policy may hint the same agents again.
    assert set(hinted) == {(Kind.CONSOLIDATION, "bob", "compacted"), (Kind.EXTRACTION, "ada", "runs")}
    for stream in (RUNS_STREAM, COMPACTIONS_STREAM):
        assert StreamReader(redis, stream).pending() == 0
        assert redis.xinfo_consumers(stream, GROUP) == []


def test_the_process_goes_on_when_redis_lost_everything(
    sqlite_database: Database, redis_url: str, redis: Redis, hints: Hints
) -> None:
    """Redis may be wiped at any moment; only what was not taken in is at stake."""
    running = process(sqlite_database, redis_url, hints, Kind.EXTRACTION)
    thread = threading.Thread(target=running.run)
    thread.start()
    publish(redis, run("r1"))
    wait_until(lambda: "run:r1" in outcomes(sqlite_database))

    redis.flushall()
    publish(redis, run("r2"))

    wait_until(lambda: "run:r2" in outcomes(sqlite_database))
    running.stop()
    thread.join(60)


def test_a_part_that_dies_ends_the_process(sqlite_database: Database, redis_url: str, hints: Hints) -> None:
    """A process without its sweep looks healthy and is not: it ends, and its supervisor starts it again."""

    def broken(kind: Kind) -> int:
        raise LookupError("a bug")

    running = IntakeProcess(
        database=sqlite_database,
        redis_url=redis_url,
        hints=hints,
        policy=POLICY,
        kinds=[Kind.EXTRACTION],
        queue_length=broken,
        options=IntakeOptions(stream=QUICK, sweep_seconds=0.01, drain_seconds=5),
    )

    assert running.run() == STALLED


def test_on_sqlite_one_intake_is_active_and_the_next_stands_by(sqlite_database: Database) -> None:
    """SQLite has one writer; a second intake would only make both wait."""
    file = lock_file(sqlite_database, RUNS_STREAM)
    stop, second_active = threading.Event(), threading.Event()
    waiting = threading.Event()

    def second() -> None:
        with active(file, stop, waiting.set) as is_active:
            if is_active:
                second_active.set()

    with active(file, stop) as is_active:
        assert is_active
        thread = threading.Thread(target=second)
        thread.start()
        wait_until(waiting.is_set)
        assert not second_active.is_set()

    wait_until(second_active.is_set)
    thread.join(60)
    assert lock_file(sqlite_database, COMPACTIONS_STREAM) != file
