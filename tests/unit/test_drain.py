"""The drain flag: one pipe that every process of a pool reads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from takeaways.workers.pools.drain import Drain, watch
from tests.waiting import wait_until

CHILD = "from takeaways.workers.pools.drain import watch; raise SystemExit(0 if watch().wait(30) else 1)"
MAIN = """
import os, subprocess, sys, time
from takeaways.workers.pools.drain import Drain, watch
drain = Drain()
here = watch()
forked = os.fork()
if forked == 0:
    os._exit(0 if watch().wait(30) else 1)
spawned = subprocess.Popen([sys.executable, "-c", {child!r}])
assert not here.is_set()
{end}
assert here.wait(30)
assert os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]) == 0
assert spawned.wait(30) == 0
"""


def test_every_process_of_a_pool_sees_the_drain() -> None:
    """A forked or spawned child gets no signal of its own, and must not begin new work either."""
    script = MAIN.format(child=CHILD, end="drain.begin(); drain.begin()")

    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_a_child_drains_when_its_main_process_is_killed() -> None:
    """No child works on for a main process that is gone."""
    script = (
        "import os, subprocess, sys\n"
        "from takeaways.workers.pools.drain import Drain\n"
        "drain = Drain()\n"
        f"print(subprocess.Popen([sys.executable, '-c', {CHILD!r} + '; os']).pid, flush=True)\n"
        "sys.stdin.read()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    import psutil

    main = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert main.stdin is not None
    assert main.stdout is not None
    child = psutil.Process(int(main.stdout.readline()))

    main.stdin.close()
    main.wait()
    main.stdout.close()

    child.wait(60)


def test_without_a_main_process_nothing_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that runs a job itself is no worker."""
    monkeypatch.delenv("_TAKEAWAYS_DRAIN", raising=False)

    assert not watch().is_set()


def test_the_main_process_sees_its_own_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    """With threads as the pool, the jobs run in the main process."""
    monkeypatch.setenv("_TAKEAWAYS_DRAIN", "")
    drain = Drain()
    flag = watch()

    drain.begin()

    wait_until(flag.is_set)
