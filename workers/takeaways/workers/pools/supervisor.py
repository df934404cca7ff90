"""Keeping a pool's processes alive: one Celery worker and, beside it, one intake process.

They are two, because a worker exits at once when Redis is full, and the stream could then never drain. One
that dies is started again after a back-off. SIGTERM is handed on and the drain waited for. Children end
with the supervisor, even when it is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from takeaways.schemas.queues import Kind
from takeaways.workers.exits import Exit
from takeaways.workers.pools import children
from takeaways.workers.settings import Settings

log = structlog.get_logger(__name__)

FIRST_WAIT_SECONDS: Final = 0.5
LONGEST_WAIT_SECONDS: Final = 30.0
STEADY_SECONDS: Final = 10.0
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
# Ended by itself, or by our SIGTERM before it could listen for it.
_CLEAN: Final = (0, -signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Child:
    """A process to keep alive. `name` is for logs."""

    name: str
    argv: tuple[str, ...]


@dataclass(slots=True)
class _Kept:
    child: Child
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    deaths: int = 0
    start_at: float = 0.0


def wait_seconds(deaths: int) -> float:
    """How long to wait before a child is started again after so many deaths in a row."""
    return min(FIRST_WAIT_SECONDS * 2.0 ** min(deaths - 1, 16), LONGEST_WAIT_SECONDS)


def children_of(kind: Kind, settings: Settings) -> tuple[Child, Child]:
    """The two processes of a pool."""
    celery = (
        *(sys.executable, "-m", "celery", "--quiet", "-A", "takeaways.workers.app", "worker"),
        *("--queues", kind.value, "--hostname", f"{kind}-{os.getpid()}@%h"),
        *("--pool", settings.pool, "--concurrency", str(settings.concurrency)),
        # What they tell other workers nobody needs here: the database knows, and start-up waits for it.
        *("--without-gossip", "--without-mingle", "--loglevel", "WARNING"),
    )
    intake = (sys.executable, "-m", "takeaways.workers.cli", "intake", kind.value)
    return Child("worker", celery), Child("intake", intake)


def supervise(
    kept: Sequence[Child], *, environment: Mapping[str, str] | None = None, grace_seconds: float
) -> int:
    """Keep the children running until SIGTERM or SIGINT, then drain them. Returns an exit code.

    0 after a clean stop; 1 when a child had to be killed or ended badly while stopping; a child that says
    that it is misconfigured ends everything with its code. Call it in a process without other threads.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        return _Supervisor(kept, environment, grace_seconds).run()
    finally:
        # One more impatient signal must not turn a stop that is over into a death by signal.
        while signal.sigtimedwait(_SIGNALS, 0) is not None:
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Supervisor:
    def __init__(
        self, kept: Sequence[Child], environment: Mapping[str, str] | None, grace_seconds: float
    ) -> None:
        self._kept = [_Kept(child) for child in kept]
        self._environment = environment
        self._grace_seconds = grace_seconds
        self._stopping = False
        self._code = 0

    def run(self) -> int:
        kill_at = float("inf")
        while True:
            if not self._stopping:
                self._start_due()
            received = signal.sigtimedwait(_SIGNALS, self._patience())
            if received is not None and received.si_signo in (signal.SIGTERM, signal.SIGINT):
                if self._stopping:
                    kill_at = 0.0
                else:
                    log.info("draining", grace_seconds=self._grace_seconds)
                    self._stop()
            self._collect()
            if self._stopping:
                if kill_at == float("inf"):
                    kill_at = time.monotonic() + self._grace_seconds
                if not any(kept.process for kept in self._kept):
                    return self._code
                if time.monotonic() >= kill_at:
                    self._kill()

    def _patience(self) -> float:
        if self._stopping:
            return 0.5
        waits = [kept.start_at - time.monotonic() for kept in self._kept if kept.process is None]
        return max(min([*waits, 5.0]), 0.01)

    def _start_due(self) -> None:
        for kept in self._kept:
            if kept.process is None and kept.start_at <= time.monotonic():
                kept.started = time.monotonic()
                kept.process = children.start(kept.child.argv, environment=self._environment)

    def _collect(self) -> None:
        for kept in self._kept:
            if kept.process is None or (code := kept.process.poll()) is None:
                continue
            kept.process = None
            if self._stopping:
                if code not in _CLEAN:
                    log.warning("a process did not end well", child=kept.child.name, code=code)
                self._code = self._code or int(code not in _CLEAN)
            elif code == Exit.MISCONFIGURED:
                self._code = code
                self._stop()
            else:
                self._bury(kept, code)

    def _bury(self, kept: _Kept, code: int) -> None:
        lived_seconds = time.monotonic() - kept.started
        kept.deaths = 1 if lived_seconds >= STEADY_SECONDS else kept.deaths + 1
        again_seconds = wait_seconds(kept.deaths)
        kept.start_at = time.monotonic() + again_seconds
        log.warning(
            "a process died and is started again",
            child=kept.child.name,
            code=code,
            lived_seconds=round(lived_seconds, 1),
            again_seconds=again_seconds,
        )

    def _stop(self) -> None:
        self._stopping = True
        for kept in self._kept:
            if kept.process is not None:
                kept.process.terminate()

    def _kill(self) -> None:
        for kept in self._kept:
            if kept.process is not None:
                log.error("a process did not drain in time and is killed", child=kept.child.name)
                kept.process.kill()
                kept.process.wait()
                kept.process = None
        self._code = self._code or 1
