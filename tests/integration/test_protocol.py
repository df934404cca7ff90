"""Rules of the protocol (docs/internals.md) that no other test happens to hold, one by one."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import RedisError
from sqlalchemy import Connection, insert, select, text, update
from sqlalchemy.exc import DBAPIError

from takeaways.schemas.database import Database, lease_clock, now_ms
from takeaways.schemas.errors import Misconfigured
from takeaways.schemas.events import encode
from takeaways.schemas.queues import FIELD, RUNS_STREAM, Kind
from takeaways.schemas.tables import agents, jobs, rooms
from takeaways.workers.exits import Exit
from takeaways.workers.intake.reader import (
    SOCKET_TIMEOUT_SECONDS,
    StreamReader,
    connect_reader,
    consumer_name,
)
from takeaways.workers.intake.streaming import Streaming, StreamOptions
from takeaways.workers.intake.transaction import LOCK_TIMEOUT_MS, take_in
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.run import run_job
from takeaways.workers.leases import Claimed, Heartbeat, claim
from takeaways.workers.pools import tasks
from takeaways.workers.pools.hints import Hints
from takeaways.workers.pools.tasks import worker_app
from takeaways.workers.schedule.asked import ask
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.settings import Settings
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import pipeline
from tests.published import POLICY, agent_row, entries, letters, outcomes, run
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]


@contextmanager
def held(database: Database, agent_id: str, *, seconds: float) -> Iterator[list[int]]:
    """Another session holds an agent's row, lets go after so long, and notes when by the clock of leases."""
    locked = threading.Event()
    let_go_ms: list[int] = []

    def hold() -> None:
        with database.write() as connection:
            connection.execute(select(agents).where(agents.c.agent_id == agent_id).with_for_update()).all()
            locked.set()
            time.sleep(seconds)
            let_go_ms.append(lease_clock(connection)[0])

    holder = threading.Thread(target=hold)
    holder.start()
    assert locked.wait(60)
    yield let_go_ms
    holder.join()


def due_agent(database: Database, agent_id: str = "scout") -> None:
    with database.write() as connection:
        connection.execute(insert(agents).values(agent_id=agent_id, extractions_asked=1))


def owned(database: Database, agent_id: str = "scout", **policy: Any) -> Claimed:
    taken = claim(
        database, agent_id, Kind.EXTRACTION, owner="me", job_id=f"job-{agent_id}", policy=Policy(**policy)
    )
    assert isinstance(taken, Claimed)
    return taken


# Processes


def test_a_forked_child_gets_connections_of_its_own(postgresql_database: Database) -> None:
    """Two processes on one socket read each other's answers (rule 2)."""
    script = textwrap.dedent(
        """
        import os, sys
        from sqlalchemy import text
        from takeaways.schemas.database import Database

        def backend(database):
            with database.read() as connection:
                return connection.execute(text("SELECT pg_backend_pid()")).scalar_one()

        database = Database.open(sys.argv[1])
        mine = backend(database)
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.write(writing, str(backend(database)).encode())
            os._exit(0)
        os.wait()
        theirs = int(os.read(reading, 100))
        print(mine != theirs and backend(database) == mine)
        """
    )
    url = postgresql_database.engine.url.render_as_string(hide_password=False)

    ran = subprocess.run([sys.executable, "-c", script, url], capture_output=True, text=True, timeout=60)

    assert ran.stdout.split() == ["True"], ran.stderr


def test_a_worker_that_drains_claims_nothing(sqlite_database: Database, redis_url: str) -> None:
    """What it took now, it could not finish (rule 3)."""
    with pipeline(sqlite_database, redis_url, ScriptedModel()) as system:
        due_agent(sqlite_database)
        system.services.drain.set()

        result = run_job(Kind.EXTRACTION, "scout", system.services)

        assert result.outcome is Outcome.INTERRUPTED
        assert system.rows(jobs) == []


def test_a_stop_that_comes_during_a_job_ends_it_after_the_running_step(
    sqlite_database: Database, redis_url: str
) -> None:
    """An hour of backlog must not hold up a deployment; what was read is kept (rule 3)."""

    class Stopped(ScriptedModel):
        def extract(self, request: Any, call: Any) -> Any:
            system.services.drain.set()
            return super().extract(request, call)

    with pipeline(sqlite_database, redis_url, Stopped(window=2_000)) as system:
        for number in range(6):
            system.producer.run_completed(
                agent_id="scout",
                room=f"room-{number}",
                run_id=f"r{number}",
                messages=[{"role": "user", "content": f"Fact {number}. " + "word " * 300}],
            )
        system.take_in()

        result = run_job(Kind.EXTRACTION, "scout", system.services)

        assert result.outcome is Outcome.INTERRUPTED
        assert 0 < result.messages_read < 6
        assert system.agent("scout")["owner"] is None
        assert system.decision("scout").next is Kind.EXTRACTION


def test_a_process_that_renews_no_leases_any_more_ends(tmp_path: Path) -> None:
    """A dead thread must not leave a worker that looks healthy and holds its agents (rule 4)."""
    script = textwrap.dedent(
        """
        import sys, threading, time
        from takeaways.schemas.migrations import migrate
        from takeaways.schemas.queues import Kind
        from takeaways.schemas.tables import agents
        from takeaways.workers.bootstrap import open_database
        from takeaways.workers.leases import claim
        from takeaways.workers.settings import Settings
        from takeaways.workers.pools.tasks import Runtime, worker_app

        settings = Settings(database_url=f"sqlite:///{sys.argv[1]}/t.db", lease_seconds=0.6)
        database = open_database(settings)
        migrate(database)
        with database.write() as connection:
            connection.execute(agents.insert().values(agent_id="scout", extractions_asked=1))
        services = Runtime(settings, worker_app(settings)).services()
        services.heartbeat.beat = lambda: time.sleep(60)  # a thread that hangs
        held = claim(database, "scout", Kind.EXTRACTION, owner="me", job_id="job", policy=settings.policy)
        with services.heartbeat.watch(held.lease, deadline_seconds=60):
            time.sleep(30)
        """
    )

    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, timeout=60)

    assert ran.returncode == Exit.STALLED, ran.stderr.decode()


def test_a_broker_that_blinks_restarts_nothing_of_ours(tmp_path: Path) -> None:
    """Steps of the consumer start anew with each connection, and would take the drain flag with them (rule 5)."""
    app = worker_app(Settings(database_url=f"sqlite:///{tmp_path}/t.db"))

    ours = {
        place: [step for step in steps if step.__module__ == tasks.__name__]
        for place, steps in app.steps.items()
    }

    assert {place: len(steps) for place, steps in ours.items() if steps} == {"worker": 1}


# Streams


def test_no_two_readers_ever_have_the_same_name() -> None:
    """Process ids come again; a reader with the name of a dead one would take its entries for its own (rule 6)."""
    assert len({consumer_name() for _ in range(100)}) == 100


def test_the_readers_client_never_repeats_a_command() -> None:
    """A repeated read orphans the entries of the first answer (rule 7)."""
    commands: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    while (got := connection.recv(4096)) and b"XREADGROUP" not in got:
                        connection.sendall((b"+PONG" if b"PING" in got else b"+OK") + b"\r\n")
                    commands.append(got)

        threading.Thread(target=answer, daemon=True).start()
        with (
            connect_reader(f"redis://127.0.0.1:{server.getsockname()[1]}/0?protocol=2") as client,
            pytest.raises((RedisError, OSError)),
        ):
            client.execute_command("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")

    assert sum(b"XREADGROUP" in got for got in commands) == 1


def test_the_readers_times_fit_each_other() -> None:
    """A read that blocks for longer than the socket may be silent is a repeated read; an entry that is reclaimed
    while its batch still waits for locks is worked on twice (rule 7)."""
    options = StreamOptions()
    statement_seconds = signature(Database.open).parameters["statement_timeout_seconds"].default

    assert options.block_seconds < SOCKET_TIMEOUT_SECONDS
    assert options.reclaim_idle_seconds > statement_seconds + 2 * LOCK_TIMEOUT_MS / 1000


def test_nothing_is_reclaimed_while_the_database_is_away(sqlite_database: Database, redis_url: str) -> None:
    """Entries would wander from one reader to the next, and none could take them in (rule 7)."""
    options = StreamOptions(block_seconds=0.01, reclaim_seconds=0.0, reclaim_idle_seconds=0.0)
    with connect_reader(redis_url) as redis:
        redis.xadd(RUNS_STREAM, {FIELD: encode(run("r1"))})
        StreamReader(redis, RUNS_STREAM, consumer="other-host:1:x").read(block_seconds=0)
        away = Database.open(f"sqlite:///{sqlite_database.engine.url.database}.away")
        Path(str(away.engine.url.database)).mkdir()  # a file that cannot be opened
        heir = Streaming(
            away,
            StreamReader(redis, RUNS_STREAM, consumer="heir"),
            RUNS_STREAM,
            hints=Hints(lambda *_: None),
            policy=POLICY,
            stop=threading.Event(),
            options=options,
        )

        with pytest.raises(DBAPIError):
            heir.step()

        holders: Any = redis.xpending_range(RUNS_STREAM, "takeaways", "-", "+", 10)
        assert [one["consumer"] for one in holders] == [b"other-host:1:x"]


def test_an_entry_is_acknowledged_only_after_its_commit(sqlite_database: Database, redis_url: str) -> None:
    """Acknowledged first, an event is lost with the transaction that fails (rule 9)."""
    with connect_reader(redis_url) as redis:
        redis.xadd(RUNS_STREAM, {FIELD: encode(run("r1"))})
        reader = StreamReader(redis, RUNS_STREAM)
        intake = Streaming(
            sqlite_database,
            reader,
            RUNS_STREAM,
            hints=Hints(lambda *_: None),
            policy=POLICY,
            stop=threading.Event(),
            options=StreamOptions(block_seconds=0.01),
        )
        with sqlite_database.write() as connection:
            connection.execute(text("ALTER TABLE rooms RENAME TO away"))

        with pytest.raises(DBAPIError):
            intake.step()
        still = reader.pending()
        with sqlite_database.write() as connection:
            connection.execute(text("ALTER TABLE away RENAME TO rooms"))
        reader.look_back()

        assert still == 1
        assert intake.step() == 1
        assert reader.pending() == 0


# The intake's transaction


def test_a_batch_that_loses_a_deadlock_is_repeated(postgresql_database: Database) -> None:
    """Whoever else locks in another order (an administrator's script) costs a repeat and no event (rule 11)."""
    database = postgresql_database
    take_in(database, entries(run("r0", agent="a"), run("r0b", agent="b")), policy=POLICY)
    with database.write() as connection:
        # A server looks for a deadlock once, this long after a wait began: the stranger is to be there by then.
        name = database.engine.url.database
        connection.execute(text(f'ALTER DATABASE "{name}" SET deadlock_timeout = 5000'))
    database.engine.dispose()

    def lock(connection: Connection, agent_id: str) -> None:
        connection.execute(select(agents).where(agents.c.agent_id == agent_id).with_for_update()).all()

    def deadlocks() -> int:
        with database.read() as connection:
            counted = text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
            return int(connection.execute(counted).scalar_one())

    taken: list[Any] = []
    batch = entries(run("r1", "one", agent="a"), run("r2", "two", agent="b"))
    intake = threading.Thread(
        target=lambda: taken.append(take_in(database, batch, policy=POLICY, lock_timeout_ms=8_000))
    )
    with database.write() as stranger:
        stranger.execute(text("SET LOCAL deadlock_timeout = 60000"))
        lock(stranger, "b")
        intake.start()
        wait_until(lambda: _waiting(database) == 1)
        lock(stranger, "a")  # both wait for each other; the one that began to wait first is ended
    intake.join()

    wait_until(lambda: deadlocks() == 1)
    assert taken[0].left == ()
    assert {"run:r1", "run:r2"} <= set(outcomes(database))
    assert letters(database) == []
    assert (agent_row(database, "a")["runs_total"], agent_row(database, "b")["runs_total"]) == (2, 2)


def _waiting(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar_one())


# The lease


def test_every_transaction_sees_the_row_as_it_is_after_the_wait(postgresql_database: Database) -> None:
    """A server that is set to a stricter level would fail a claim that waited (rule 16)."""
    database = postgresql_database
    name = database.engine.url.database
    with database.write() as connection:
        connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_isolation TO 'serializable'"))
    fresh = Database.open(database.engine.url)

    with fresh.write() as connection:
        level = connection.execute(text("SHOW transaction_isolation")).scalar_one()
    fresh.dispose()

    assert level == "read committed"


def test_the_clock_of_leases_follows_no_wall_clock_on_sqlite(sqlite_database: Database) -> None:
    """A worker whose clock is set forward must not steal leases, and a reboot ends them all (rule 16)."""
    with sqlite_database.write() as connection:
        clock_ms, boot = lease_clock(connection)
        wall_ms = now_ms(connection)
    due_agent(sqlite_database)
    owned(sqlite_database)

    with sqlite_database.write() as connection:
        connection.execute(update(agents).values(lease_boot="before the reboot"))
    again = claim(sqlite_database, "scout", Kind.EXTRACTION, owner="other", job_id="other", policy=Policy())

    assert abs(clock_ms - time.clock_gettime(time.CLOCK_BOOTTIME) * 1000) < 5_000
    assert boot == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert abs(wall_ms - time.time() * 1000) < 5_000
    assert isinstance(again, Claimed)


def test_a_heartbeat_that_waited_for_the_row_gives_a_whole_lease(postgresql_database: Database) -> None:
    """An instant read before the wait has passed by the time it is written (rule 16)."""
    due_agent(postgresql_database)
    taken = owned(postgresql_database, lease_seconds=0.5)
    heartbeat = Heartbeat(postgresql_database, lease_seconds=0.5)

    with (
        heartbeat.watch(taken.lease, deadline_seconds=60),
        held(postgresql_database, "scout", seconds=1.0) as let_go_ms,
    ):
        heartbeat.beat()
        until_ms = agent_row(postgresql_database, "scout")["lease_until_ms"]
    heartbeat.stop()

    assert until_ms >= let_go_ms[0] + 500


def test_the_fence_never_goes_back(database: Database, redis_url: str) -> None:
    """An agent that is erased and made again must not let a worker of its first life through (rule 17)."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        epochs = []
        for number in range(3):
            system.producer.run_completed(agent_id="scout", room="r", run_id=f"r{number}")
            system.take_in()
            ask(database, ["scout"], [Kind.EXTRACTION])
            system.work()
            epochs.append(system.agent("scout")["epoch"])
            system.producer.agent_deleted(agent_id="scout")
            system.take_in()
            epochs.append(system.agent("scout")["epoch"])

        assert epochs == sorted(set(epochs))
        assert system.agent("scout")["generation"] == 4


# SQLite


def test_sqlite_forgets_no_commit_and_keeps_no_erased_byte(sqlite_database: Database) -> None:
    """The settings of each connection, however it was opened (rule 24)."""
    with sqlite_database.read() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "secure_delete", "busy_timeout")
        }

    assert found == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "busy_timeout": 30_000}


def test_a_writer_on_sqlite_takes_its_lock_at_once(sqlite_database: Database) -> None:
    """A reader that turns into a writer fails at once, whatever the time-out (rule 24)."""
    begun: list[str] = []

    def second() -> None:
        with sqlite_database.write() as connection:
            begun.append("second")
            connection.execute(update(rooms).values(title="x"))

    with sqlite_database.write() as connection:
        connection.execute(select(rooms)).all()
        other = threading.Thread(target=second)
        other.start()
        time.sleep(0.3)
        assert begun == [], "two transactions that mean to write were open at once"
        connection.execute(update(rooms).values(title="y"))
    other.join()

    assert begun == ["second"]


def test_a_network_file_system_is_refused_for_sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its locks are not safe there: two writers at once would ruin the file (rule 24)."""
    monkeypatch.setattr(Path, "read_text", lambda *_: f"server:/share {tmp_path} nfs4 rw 0 0\n")

    with pytest.raises(Misconfigured, match="network file system; use PostgreSQL"):
        Database.open(f"sqlite:///{tmp_path}/t.db")


def test_the_log_of_sqlite_is_emptied_when_nothing_happens(sqlite_database: Database, redis_url: str) -> None:
    """It grew to a gigabyte within seconds where nobody truncated it (rule 24)."""
    log = Path(f"{sqlite_database.engine.url.database}-wal")
    with connect_reader(redis_url) as redis:
        redis.xadd(RUNS_STREAM, {FIELD: encode(run("r1", "x" * 50_000))})
        intake = Streaming(
            sqlite_database,
            StreamReader(redis, RUNS_STREAM),
            RUNS_STREAM,
            hints=Hints(lambda *_: None),
            policy=POLICY,
            stop=threading.Event(),
            options=StreamOptions(block_seconds=0.01),
        )

        intake.step()
        full = log.stat().st_size
        intake.step()

        assert full > 50_000
        assert log.stat().st_size == 0


# Behind a pooler


def test_nothing_is_prepared_on_the_server_and_no_lock_outlives_its_transaction(
    postgresql_database: Database,
) -> None:
    """Behind PgBouncer the next transaction runs on another server connection (rule 28)."""
    with postgresql_database.read() as connection:
        for _ in range(20):
            connection.execute(select(agents).where(agents.c.agent_id == "a")).all()
        prepared = connection.execute(text("SELECT count(*) FROM pg_prepared_statements")).scalar_one()
    sources = [
        path.read_text("utf-8")
        for part in ("schemas", "producers", "recall", "workers")
        for path in (ROOT / part).rglob("*.py")
    ]

    assert prepared == 0
    assert not [found for source in sources for found in re.findall(r"pg_(?:try_)?advisory_lock\w*", source)]
    assert not [
        found for source in sources for found in re.findall(r'"SET (?!LOCAL)[A-Za-z_]+ *(?:=|TO)', source)
    ]
