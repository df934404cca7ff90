"""Worker processes as they are run for real: started, given work, killed, drained. SQLite and PostgreSQL."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import select

from takeaways.producers import Producer
from takeaways.schemas.database import Database
from takeaways.schemas.tables import agents, jobs
from tests.processes import environment_of, kill_all
from tests.waiting import wait_until

TIMEOUT_SECONDS = 120.0

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(redis_url: str, tmp_path: Path) -> Iterator[Start]:
    """Start commands of ours against the test's servers; what still runs at the end is killed."""
    running: list[subprocess.Popen[bytes]] = []

    def start(database: Database, *argv: str, **settings: object) -> subprocess.Popen[bytes]:
        environment = environment_of(database, redis_url, tmp_path, **settings)
        running.append(
            subprocess.Popen([sys.executable, "-m", *argv], env=environment, stderr=subprocess.PIPE)
        )
        return running[-1]

    yield start
    kill_all(running)


def publish_runs(redis_url: str, agent_id: str, count: int = 5) -> None:
    with Producer(redis_url) as producer:
        for number in range(count):
            producer.run_completed(
                agent_id=agent_id,
                room="quotes",
                run_id=f"r{number}",
                status="succeeded",
                messages=[{"role": "user", "content": f"Quotes over ${number}0k always need sign-off."}],
            )


def messages_read(database: Database, agent_id: str) -> int:
    with database.read() as connection:
        found = connection.scalar(select(agents.c.messages_read).where(agents.c.agent_id == agent_id))
    return found or 0


def test_a_pool_takes_events_in_and_works_on_them(
    start: Start, sqlite_database: Database, redis_url: str
) -> None:
    """One command runs all that a pool needs, with threads by default, and stops with exit code 0."""
    publish_runs(redis_url, "scout")

    pool = start(sqlite_database, "takeaways.workers.cli", "worker", "extraction")
    wait_until(lambda: messages_read(sqlite_database, "scout") == 5, timeout_seconds=TIMEOUT_SECONDS)
    pool.terminate()

    assert pool.wait(TIMEOUT_SECONDS) == 0


def test_a_pool_of_spawned_processes_works_on_sqlite(
    start: Start, sqlite_database: Database, redis_url: str
) -> None:
    """SQLite does not survive a fork, but a pool of processes can do without one."""
    publish_runs(redis_url, "scout")

    pool = start(
        sqlite_database,
        "takeaways.workers.cli",
        "worker",
        "extraction",
        pool="prefork",
        pool_start_method="spawn",
        concurrency=1,
    )
    wait_until(lambda: messages_read(sqlite_database, "scout") == 5, timeout_seconds=TIMEOUT_SECONDS)
    pool.terminate()

    assert pool.wait(TIMEOUT_SECONDS) == 0


def test_a_pool_of_forked_processes_works_on_postgresql(
    start: Start, postgresql_database: Database, redis_url: str
) -> None:
    """Engines and clients are made after the fork, so that no two processes share a socket."""
    publish_runs(redis_url, "scout")

    pool = start(postgresql_database, "takeaways.workers.cli", "worker", "extraction", pool="prefork")
    wait_until(lambda: messages_read(postgresql_database, "scout") == 5, timeout_seconds=TIMEOUT_SECONDS)
    pool.terminate()

    assert pool.wait(TIMEOUT_SECONDS) == 0


def test_a_killed_worker_and_a_killed_intake_come_back(
    start: Start, sqlite_database: Database, redis_url: str
) -> None:
    """What dies is started again, and work that comes afterwards is done."""
    pool = start(sqlite_database, "takeaways.workers.cli", "worker", "extraction")
    wait_until(lambda: len(children(pool)) == 2, timeout_seconds=TIMEOUT_SECONDS)

    first = children(pool)
    for child in first:
        child.kill()
    publish_runs(redis_url, "scout")

    wait_until(lambda: messages_read(sqlite_database, "scout") == 5, timeout_seconds=TIMEOUT_SECONDS)
    assert not {child.pid for child in first} & {child.pid for child in children(pool)}


def test_no_process_is_left_when_a_pool_is_killed(
    start: Start, sqlite_database: Database, redis_url: str
) -> None:
    """kill -9 on `takeaways worker` leaves nothing behind that would go on taking work."""
    pool = start(sqlite_database, "takeaways.workers.cli", "worker", "extraction")
    wait_until(lambda: len(children(pool)) == 2, timeout_seconds=TIMEOUT_SECONDS)
    left = children(pool)

    pool.kill()

    _, alive = psutil.wait_procs(left, timeout=TIMEOUT_SECONDS)
    assert alive == []


def test_celery_alone_refuses_to_fork_with_sqlite(start: Start, sqlite_database: Database) -> None:
    """Started by hand in a way that cannot work, it says why and what to do instead."""
    worker = start(
        sqlite_database,
        *("celery", "-A", "takeaways.workers.app", "worker", "-Q", "extraction", "-P", "prefork"),
        pool="prefork",
    )

    _, complaint = worker.communicate(timeout=TIMEOUT_SECONDS)

    assert worker.returncode == 4
    assert "SQLite does not survive a fork" in complaint.decode()


def test_celery_and_intake_work_apart(start: Start, sqlite_database: Database, redis_url: str) -> None:
    """Where something else keeps processes alive, the two need no supervisor of ours."""
    publish_runs(redis_url, "scout")

    worker = start(
        sqlite_database,
        *("celery", "-A", "takeaways.workers.app", "worker", "-Q", "extraction"),
        *("--without-gossip", "--without-mingle"),
    )
    intake = start(sqlite_database, "takeaways.workers.cli", "intake", "extraction")
    wait_until(lambda: messages_read(sqlite_database, "scout") == 5, timeout_seconds=TIMEOUT_SECONDS)
    worker.send_signal(signal.SIGTERM)
    intake.send_signal(signal.SIGTERM)

    assert (worker.wait(TIMEOUT_SECONDS), intake.wait(TIMEOUT_SECONDS)) == (0, 0)
    with sqlite_database.read() as connection:
        assert set(connection.scalars(select(jobs.c.agent_id))) == {"scout"}


def test_loading_the_app_connects_to_nothing() -> None:
    """What forks has opened nothing that a child could inherit."""
    script = (
        "import socket, sys\n"
        "def connect(*_): raise AssertionError('a connection at import')\n"
        "socket.socket.connect = connect\n"
        "from takeaways.workers.app import app\n"
        "app.finalize()\n"
        "ours = sorted(name for name in app.tasks if name.startswith('takeaways.'))\n"
        "assert ours == ['takeaways.consolidate', 'takeaways.extract'], ours\n"
        "import celery\n"
        "assert celery.current_app is not app\n"
        "assert not any(name in sys.modules for name in ('sqlalchemy', 'anthropic'))\n"
    )

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert ran.stderr == ""
    assert ran.returncode == 0


def children(pool: subprocess.Popen[bytes]) -> list[psutil.Process]:
    return psutil.Process(pool.pid).children()
