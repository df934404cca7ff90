"""Everything that a storm plays on: servers, links in front of them, pools of real workers, and producers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
from sqlalchemy import select

from takeaways.producers import Producer
from takeaways.schemas.database import Database
from takeaways.schemas.errors import PublishFailed
from takeaways.schemas.events import Event
from takeaways.schemas.migrations import migrate
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import inbox
from takeaways.workers.schedule.policy import Policy
from tests.faults.link import Link
from tests.faults.servers import PostgresServer, RedisServer, redis_binary
from tests.faults.story import SOURCE, Planned

ROOT: Final = Path(__file__).parents[2]
PRODUCERS: Final = 3
POLICY: Final = Policy(
    lease_seconds=2.0,
    slice_seconds=10.0,
    call_seconds=10.0,
    idle_seconds=6.0,
    hint_again_seconds=2.0,
    hint_again_max_seconds=4.0,
    # A storm kills one batch more often than bad luck does in life. What is quarantined has a test of its own.
    max_attempts=40,
)


_SKEW: Final = """
import time
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + {seconds}
time.time_ns = lambda: _time_ns() + int({seconds} * 1e9)
"""


@dataclass(slots=True)
class Acknowledged:
    """What producers were told is safe: every event they published, and when Redis took it."""

    events: dict[str, Event] = field(default_factory=dict)
    at: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, events: Iterable[Event]) -> None:
        with self.lock:
            for event in events:
                self.events[event.id] = event
                self.at.setdefault(event.id, time.monotonic())


class Stage:
    """Start it with `with`. `database` looks at what became of everything, past every link."""

    def __init__(
        self,
        folder: Path,
        *,
        postgresql: bool,
        redis: str = "valkey",
        policy: Policy = POLICY,
        model: str = "tests.faults.models:patient",
        pool: str = "threads",
        concurrency: int = 8,
    ) -> None:
        self.folder = folder
        self.policy = policy
        self.uses_postgresql = postgresql
        self.acknowledged = Acknowledged()
        self.pools: dict[Kind, subprocess.Popen[bytes]] = {}
        self._redis_name = redis
        self._settings = {"MODEL": model, "POOL": pool, "CONCURRENCY": str(concurrency)}
        self._stack = ExitStack()
        # What faults have done, for the checker.
        self.exit_codes: list[int] = []
        self.lost_in_wipes = 0
        self.poison = 0

    def __enter__(self) -> Stage:
        with ExitStack() as stack:
            binary = redis_binary(self._redis_name)
            if binary is None:
                raise FileNotFoundError(f"no server called {self._redis_name} is installed")
            self.redis = RedisServer(binary, self.folder / "redis")
            self.redis.start()
            stack.callback(self.redis.kill)
            self.link = stack.enter_context(Link(("127.0.0.1", self.redis.port)))
            self.redis_url = f"redis://127.0.0.1:{self.link.port}/0"
            if self.uses_postgresql:
                self.postgres = PostgresServer()
                stack.callback(self.postgres.stop)
                self.database_link = stack.enter_context(Link(self.postgres.socket_path))
                direct = self.postgres.url
                reached = direct.set(host="127.0.0.1", port=self.database_link.port, query={})
                self.database_url = reached.render_as_string(hide_password=False)
            else:
                self.database_file = self.folder / "takeaways.db"
                self.database_url = f"sqlite:///{self.database_file}"
            self.database = Database.open(direct if self.uses_postgresql else self.database_url)
            stack.callback(self.database.dispose)
            migrate(self.database)
            stack.callback(self._end_pools)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    # --- processes ------------------------------------------------------------------------------

    def environment(self, **more: str) -> dict[str, str]:
        """The settings of every process of ours here, and nothing of the machine's."""
        names = ("lease", "slice", "call", "idle", "hint_again", "hint_again_max")
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("TAKEAWAYS_")},
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            "TAKEAWAYS_HOME": str(self.folder),
            "TAKEAWAYS_REDIS_URL": self.redis_url,
            "TAKEAWAYS_DATABASE_URL": self.database_url,
            "TAKEAWAYS_BOOT_ID": "storm",
            "TAKEAWAYS_LOG_FORMAT": "json",
            **{f"TAKEAWAYS_{n.upper()}_SECONDS": str(getattr(self.policy, f"{n}_seconds")) for n in names},
            "TAKEAWAYS_MAX_ATTEMPTS": str(self.policy.max_attempts),
            "TAKEAWAYS_CANDIDATES_PER_CONSOLIDATION": str(self.policy.candidates_per_consolidation),
            **{f"TAKEAWAYS_{name}": value for name, value in self._settings.items()},
            **more,
        }

    def start(self, *argv: str, name: str, **more: str) -> subprocess.Popen[bytes]:
        """Start a Python module as a process of its own; its log is a file of that name."""
        file = self.folder / f"{name}.log"
        with file.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", *argv],
                env=self.environment(**more),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start_skewed(self, *argv: str, hours: float) -> subprocess.Popen[bytes]:
        """Start a module in a process whose clock, as Python tells it, is wrong."""
        folder = self.folder / "skewed"
        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text(_SKEW.format(seconds=hours * 3600), "utf-8")
        path = os.pathsep.join((str(folder), self.environment()["PYTHONPATH"]))
        return self.start(*argv, name="skewed", PYTHONPATH=path)

    def start_pool(self, kind: Kind, **more: str) -> None:
        """`takeaways worker KIND`, and wait for nothing."""
        argv = ("takeaways.workers.cli", "worker", kind.value)
        self.pools[kind] = self.start(*argv, name=f"pool-{kind}", **more)

    def start_pools(self, **more: str) -> None:
        for kind in Kind:
            self.start_pool(kind, **more)

    def stop_pool(self, kind: Kind) -> int:
        """SIGTERM, and the exit code once it has drained."""
        pool = self.pools.pop(kind)
        pool.terminate()
        try:
            return pool.wait(self.policy.call_seconds + 30)
        except subprocess.TimeoutExpired:
            self._end(pool)
            return -signal.SIGKILL

    def member(self, kind: Kind, name: str) -> psutil.Process | None:
        """A pool's Celery worker ("worker") or its intake ("intake"), where it runs at the moment."""
        for child in self._children(self.pools[kind]):
            if (name == "intake") == ("intake" in _argv(child)):
                return child
        return None

    def running(self) -> list[psutil.Process]:
        """Every process of the pools."""
        found = []
        for pool in self.pools.values():
            try:
                process = psutil.Process(pool.pid)
                found += [process, *process.children(recursive=True)]
            except psutil.NoSuchProcess:
                continue
        return found

    def command(self, *argv: str, timeout_seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run one of our commands to its end."""
        return subprocess.run(
            [sys.executable, "-m", "takeaways.workers.cli", *argv],
            env=self.environment(TAKEAWAYS_MODEL="takeaways.workers.testing:ScriptedModel"),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
        )

    def _children(self, pool: subprocess.Popen[bytes]) -> list[psutil.Process]:
        try:
            return psutil.Process(pool.pid).children()
        except psutil.NoSuchProcess:
            return []

    def _end_pools(self) -> None:
        for pool in self.pools.values():
            self._end(pool)

    def _end(self, pool: subprocess.Popen[bytes]) -> None:
        children: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(pool.pid).children(recursive=True)
        pool.kill()
        pool.wait()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        psutil.wait_procs(children, timeout=10)

    # --- producers ------------------------------------------------------------------------------

    def publish(self, events: Iterable[Event]) -> None:
        """Publish and note what Redis acknowledged; repeats until it has, as a service that may not lose does."""
        with Producer(self.redis_url, source=SOURCE, patience_seconds=5.0, timeout_seconds=2.0) as producer:
            _publish(producer, self.acknowledged, list(events))

    @contextmanager
    def publishing(self, planned: Iterable[Planned]) -> Iterator[list[threading.Thread]]:
        """Publish a story at its times from several producers. Waits at the end until all of it is in."""
        began = time.monotonic()
        plans = list(planned)
        threads = [
            threading.Thread(
                target=self._produce, args=(began, plans[place::PRODUCERS]), name=f"producer-{place}"
            )
            for place in range(PRODUCERS)
        ]
        for thread in threads:
            thread.start()
        yield threads
        for thread in threads:
            thread.join()

    def _produce(self, began: float, planned: list[Planned]) -> None:
        with Producer(self.redis_url, source=SOURCE, patience_seconds=5.0, timeout_seconds=2.0) as producer:
            rest = planned
            while rest:
                wait_seconds = rest[0].at_seconds - (time.monotonic() - began)
                if wait_seconds > 0:
                    time.sleep(wait_seconds)
                due = time.monotonic() - began + 0.05
                count = next((n for n, one in enumerate(rest) if one.at_seconds > due), len(rest))
                batch, rest = rest[:count], rest[count:]
                _publish(producer, self.acknowledged, [one.event for one in batch for _ in range(one.copies)])

    # --- looking --------------------------------------------------------------------------------

    def taken_in(self) -> set[str]:
        """The ids of the events that are in the inbox."""
        with self.database.read() as connection:
            return set(connection.execute(select(inbox.c.event_id)).scalars())

    def at_stake(self) -> list[Event]:
        """What was acknowledged and is not in the database yet."""
        known = self.taken_in()
        with self.acknowledged.lock:
            return [event for key, event in self.acknowledged.events.items() if key not in known]


def _publish(producer: Producer, acknowledged: Acknowledged, events: list[Event]) -> None:
    while events:
        try:
            producer.publish_many(events)
        except PublishFailed:
            continue
        acknowledged.add(events)
        return


def _argv(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
