"""Keeping processes alive: restarts with a back-off, a drain, no orphans. The children are real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from takeaways.schemas.queues import Kind
from takeaways.workers.pools.supervisor import LONGEST_WAIT_SECONDS, children_of, wait_seconds
from takeaways.workers.pools.supported import why_not
from takeaways.workers.settings import Settings
from tests.waiting import wait_until

SUPERVISE = """
import sys
from takeaways.workers.pools.supervisor import Child, supervise
sys.exit(supervise([Child("one", tuple(sys.argv[1:]))], grace_seconds=%s))
"""
# Notes each start in a file, then waits; a SIGTERM ends it with code 0.
PATIENT = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with open(sys.argv[1], "a") as file:
    print(os.getpid(), file=file)
time.sleep(600)
"""
STUBBORN = PATIENT.replace("lambda *_: sys.exit(0)", "signal.SIG_IGN")


def start(script: str, notes: Path, *, grace_seconds: float = 30) -> subprocess.Popen[bytes]:
    child = [sys.executable, "-c", script, str(notes)]
    return subprocess.Popen([sys.executable, "-c", SUPERVISE % grace_seconds, *child])


def starts(notes: Path) -> list[int]:
    return [int(line) for line in notes.read_text().split()] if notes.exists() else []


def test_a_child_that_dies_is_started_again(tmp_path: Path) -> None:
    """A worker that was killed comes back without anybody's help."""
    notes = tmp_path / "starts"
    supervisor = start(PATIENT, notes)
    wait_until(lambda: len(starts(notes)) == 1)

    os.kill(starts(notes)[0], signal.SIGKILL)
    wait_until(lambda: len(starts(notes)) == 2)

    supervisor.terminate()
    assert supervisor.wait(60) == 0
    assert not psutil.pid_exists(starts(notes)[1])


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_handed_on_and_the_drain_waited_for(tmp_path: Path, name: signal.Signals) -> None:
    """A clean stop has exit code 0, so that a deployment sees nothing wrong with it."""
    notes = tmp_path / "starts"
    supervisor = start(PATIENT, notes)
    wait_until(lambda: len(starts(notes)) == 1)

    supervisor.send_signal(name)

    assert supervisor.wait(60) == 0


def test_a_child_that_does_not_drain_is_killed_when_the_grace_is_over(tmp_path: Path) -> None:
    """A stuck process does not hold up a shutdown for ever, and is not passed off as a clean one."""
    notes = tmp_path / "starts"
    supervisor = start(STUBBORN, notes, grace_seconds=0.2)
    wait_until(lambda: len(starts(notes)) == 1)

    supervisor.terminate()

    assert supervisor.wait(60) == 1
    assert not psutil.pid_exists(starts(notes)[0])


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    """Whoever presses Ctrl-C twice means it."""
    notes = tmp_path / "starts"
    supervisor = start(STUBBORN, notes, grace_seconds=600)
    wait_until(lambda: len(starts(notes)) == 1)

    supervisor.send_signal(signal.SIGTERM)
    supervisor.send_signal(signal.SIGINT)

    assert supervisor.wait(60) == 1


def test_no_orphan_is_left_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    """A killed supervisor leaves no worker behind that nobody would ever stop."""
    notes = tmp_path / "starts"
    supervisor = start(PATIENT, notes)
    wait_until(lambda: len(starts(notes)) == 1)
    child = psutil.Process(starts(notes)[0])

    supervisor.kill()
    supervisor.wait()

    child.wait(60)


def test_a_misconfigured_child_ends_everything_with_its_code(tmp_path: Path) -> None:
    """What no restart can cure is told at once instead of being tried for ever."""
    supervisor = start("import sys; sys.exit(4)", tmp_path / "starts")

    assert supervisor.wait(60) == 4


def test_the_wait_before_a_restart_doubles_up_to_a_limit() -> None:
    """A broken machine is not kept busy with restarts."""
    assert [wait_seconds(deaths) for deaths in (1, 2, 3)] == [0.5, 1.0, 2.0]
    assert wait_seconds(1_000) == LONGEST_WAIT_SECONDS


def test_a_pool_is_a_worker_and_an_intake() -> None:
    """The worker reads its own queue only, in its own pool; the intake is a process beside it."""
    settings = Settings(pool="threads", concurrency=7)

    worker, intake = children_of(Kind.CONSOLIDATION, settings)

    assert worker.argv[worker.argv.index("--queues") + 1] == "consolidation"
    assert worker.argv[worker.argv.index("--concurrency") + 1] == "7"
    assert intake.argv[-2:] == ("intake", "consolidation")


@pytest.mark.parametrize(
    ("database", "pool", "start_method", "refused"),
    [
        ("sqlite:///x.db", "prefork", "fork", True),
        ("sqlite:///x.db", "prefork", "spawn", False),
        ("sqlite:///x.db", "threads", "fork", False),
        ("postgresql://x/y", "prefork", "fork", False),
    ],
)
def test_sqlite_and_a_forking_pool_are_refused(
    database: str, pool: str, start_method: str, refused: bool
) -> None:
    """Forked children would get 'database is locked'; it is said at the start, with what to do instead."""
    settings = Settings(database_url=database)

    assert (why_not(settings, pool=pool, start_method=start_method) is not None) is refused
