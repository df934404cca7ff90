"""The control arm: the same kind of load as plain Celery tasks with late acknowledgement, and nothing else.

It must run something twice at once under a fault that does so surely, or a storm that passes proves nothing.
Its losses under SIGKILL are counted too, and printed; they do not come every time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from celery import Celery

from tests.faults.servers import RedisServer, redis_binary
from tests.faults.stage import ROOT

URL: Final = "CONTROL_URL"
FILE: Final = "CONTROL_FILE"
KILLS: Final = 6


@dataclass(frozen=True, slots=True)
class Arm:
    """What became of the tasks: `doubled` ran a second time while or after the first did, `lost` never ended."""

    name: str
    tasks: int
    doubled: int
    lost: int


def make_app(broker: str) -> Celery:
    """The usual settings for tasks that must not be lost."""
    made = Celery("control", broker=broker, set_as_current=False)
    made.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        task_ignore_result=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_transport_options={
            "visibility_timeout": 8,
            "unacked_restore_interval": 1,
            "unacked_restore_throttle": 1,
        },
    )

    @made.task(name="control.work", shared=False, lazy=False)
    def work(number: int, seconds: float) -> None:
        _note("began", number)
        time.sleep(seconds)
        _note("ended", number)

    return made


def run_arms(folder: Path) -> list[Arm]:
    """Both arms, one after the other, on a server of their own."""
    binary = redis_binary("valkey")
    assert binary is not None
    server = RedisServer(binary, folder / "control")
    server.start()
    try:
        return [
            _arm(
                "plain Celery, CLIENT KILL during a task",
                server,
                folder / "client-kill",
                4,
                6.0,
                _kill_clients,
            ),
            _arm(f"plain Celery, {KILLS} x SIGKILL", server, folder / "sigkill", 400, 0.02, _kill_workers),
        ]
    finally:
        server.kill()


def _arm(
    name: str,
    server: RedisServer,
    file: Path,
    tasks: int,
    seconds: float,
    strike: Callable[[_Workers], None],
) -> Arm:
    with server.client() as client:
        client.flushall()
    workers = _Workers(server, file)
    try:
        workers.send(tasks, seconds)
        strike(workers)
        workers.wait_for_quiet(tasks)
    finally:
        workers.stop()
    notes = [line.split() for line in file.read_text().splitlines()]
    began = [number for what, number in notes if what == "began"]
    ended = {number for what, number in notes if what == "ended"}
    return Arm(name, tasks, len(began) - len(set(began)), tasks - len(ended))


class _Workers:
    """Two plain workers, whose tasks note in a file when they begin and end."""

    def __init__(self, server: RedisServer, file: Path) -> None:
        self.server = server
        self.file = file
        self._environment = {
            **os.environ,
            URL: server.url,
            FILE: str(file),
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        }
        file.touch()
        self.processes = [self.start(), self.start()]

    def start(self) -> subprocess.Popen[bytes]:
        with self.file.with_suffix(".log").open("ab") as log:
            return subprocess.Popen(
                [
                    *(
                        sys.executable,
                        "-m",
                        "celery",
                        "--quiet",
                        "-A",
                        "tests.faults.control",
                        "worker",
                    ),
                    *("--pool", "threads", "--concurrency", "8", "--without-gossip", "--without-mingle"),
                    *("--hostname", f"control-{time.monotonic_ns()}@%h"),
                ],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def send(self, tasks: int, seconds: float) -> None:
        publisher = make_app(self.server.url)
        send: Any = publisher.send_task
        with publisher.connection_for_write() as connection:
            for number in range(tasks):
                send("control.work", args=(number, seconds), ignore_result=True, connection=connection)

    def noted(self, what: str) -> int:
        return sum(line.startswith(what) for line in self.file.read_text().splitlines())

    def wait_for_quiet(self, tasks: int) -> None:
        """Until every task ended, or nothing has for longer than a task may stay hidden."""
        last, since = -1, time.monotonic()
        while time.monotonic() - since < 15:
            if all(process.poll() for process in self.processes):
                raise RuntimeError(
                    f"the plain workers do not run: {self.file.with_suffix('.log').read_text()[-500:]}"
                )
            count = self.noted("")
            if count != last:
                last, since = count, time.monotonic()
            if (
                len({line for line in self.file.read_text().splitlines() if line.startswith("ended")})
                == tasks
            ):
                time.sleep(1)
                return
            time.sleep(0.1)

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


def _kill_clients(workers: _Workers) -> None:
    _until(lambda: workers.noted("began") >= 4)
    time.sleep(0.5)
    with workers.server.client() as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def _kill_workers(workers: _Workers) -> None:
    for kill in range(KILLS):
        done = workers.noted("ended")
        _until(partial(_has_ended, workers, done + 20))
        place = kill % 2
        os.kill(workers.processes[place].pid, signal.SIGKILL)
        workers.processes[place].wait()
        workers.processes[place] = workers.start()


def _has_ended(workers: _Workers, more_than: int) -> bool:
    return workers.noted("ended") > more_than


def _until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    give_up = time.monotonic() + seconds
    while not condition() and time.monotonic() < give_up:
        time.sleep(0.02)


def _note(what: str, number: int) -> None:
    with Path(os.environ[FILE]).open("a") as file:
        print(what, number, file=file)


if (_url := os.environ.get(URL)) is not None:
    app = make_app(_url)  # what `celery -A tests.faults.control` loads
