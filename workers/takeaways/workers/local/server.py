"""A whole server on one machine: an embedded Valkey, the database, and both pools as processes of their own.

`takeaways up` keeps one, `demo` and `import` have one for as long as they need it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from takeaways.schemas.errors import Misconfigured
from takeaways.schemas.queues import Kind
from takeaways.workers.bootstrap import migrated_database
from takeaways.workers.local.embedded import EmbeddedServer
from takeaways.workers.pools import children
from takeaways.workers.schedule.boot import current_boot
from takeaways.workers.settings import Settings


class LocalServer:
    """Start it with `with`, or `start` and `stop`. `settings` are then those that reach it.

    Its data lies in `settings.home`. The pools write to `logs`, a file each, or to this process's stderr.
    With `only_intake` it takes events in, and leaves the jobs to whoever started it.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        port: int | None = None,
        logs: Path | None = None,
        only_intake: bool = False,
    ) -> None:
        self.settings = settings
        self._command = ("intake",) if only_intake else ("worker", "--migrated")
        self._logs = logs
        self._redis = EmbeddedServer(settings.home / "valkey", port=port)
        self._pools: dict[Kind, subprocess.Popen[bytes]] = {}

    def start(self) -> Self:
        """Start everything, with a new boot. Returns before the workers are ready: events wait for them."""
        self.settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._redis.start()
        try:
            self.settings = self.settings.model_copy(
                update={"redis_url": self._redis.url, "broker_url": self._redis.url}
            )
            database = migrated_database(self.settings)
            try:
                current_boot(database, pinned=self.settings.boot_id, fresh=True)
            finally:
                database.dispose()
            for kind in Kind:
                self._pools[kind] = self._start_pool(kind)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> bool:
        """Drain the pools, then stop Valkey. False when a pool did not end well."""
        for process in self._pools.values():
            process.terminate()
        deadline = time.monotonic() + self.settings.drain_seconds + 5
        clean = True
        for process in self._pools.values():
            try:
                clean &= process.wait(max(deadline - time.monotonic(), 0.1)) == 0
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                clean = False
        self._pools.clear()
        self._redis.stop()
        return clean

    def hurry(self) -> None:
        """Tell the pools a second time to stop: they kill what still runs."""
        for process in self._pools.values():
            process.terminate()

    def died(self) -> str | None:
        """What has ended that should run, or None."""
        for kind, process in self._pools.items():
            if (code := process.poll()) is not None:
                return f"the {kind} pool ended with code {code}"
        return None if self._redis.is_running else "Valkey ended"

    def _start_pool(self, kind: Kind) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "takeaways.workers.cli", *self._command, kind.value]
        with ExitStack() as opened:
            output = None
            if self._logs is not None:
                self._logs.mkdir(parents=True, exist_ok=True)
                output = opened.enter_context((self._logs / f"{kind}.log").open("ab"))
            return children.start(argv, environment=self.settings.environment(), output=output)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@contextlib.contextmanager
def only_one(home: Path) -> Iterator[Path]:
    """Hold the lock of the one server of this home. Yields the file that tells others how to reach it.

    Raises `Misconfigured` where another one runs.
    """
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = home / "up.json"
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Misconfigured(f"another server runs with {home}; stop it, or set TAKEAWAYS_HOME") from None
        os.ftruncate(descriptor, 0)
        yield file
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def announce(file: Path, settings: Settings) -> None:
    """Let the commands of another terminal find this server: see `Settings.from_env`."""
    shared = settings.model_dump(mode="json", include=settings.model_fields_set - {"home", "log_format"})
    found = {
        **shared,
        "redis_url": settings.redis_url,
        "broker_url": settings.broker,
        "database_url": settings.database,
    }
    file.write_text(json.dumps(found), encoding="utf-8")
