"""One thread a process that renews all its leases with one statement."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog
from sqlalchemy import select, tuple_, update
from sqlalchemy.exc import DBAPIError

from takeaways.schemas.database import Database, is_lock_timeout, lease_clock, now_ms
from takeaways.schemas.tables import agents
from takeaways.workers.leases.lease import Lease

log = structlog.get_logger(__name__)

LEAST_SILENCE_SECONDS: Final = 20.0
LOCK_TIMEOUT_MS = 5_000
_Key = tuple[str, int, str]


def silence_seconds(lease_seconds: float) -> float:
    """How long a heartbeat may make no progress: two lease times, but longer than a busy disk takes to write.

    A worker that ends because its machine is slow costs it the start of another, which makes it slower.
    """
    return max(2 * lease_seconds, LEAST_SILENCE_SECONDS)


@dataclass(slots=True)
class _Watched:
    lease: Lease
    deadline: float
    abort: threading.Event = field(default_factory=threading.Event)


class Heartbeat:
    """Renews the leases of the jobs that run in this process, every third of `lease_seconds`.

    A lease that is no longer ours sets its job's abort flag. A job past its deadline is no longer renewed, so
    that one stuck call cannot hold an agent for good. `stalled` tells a supervisor that the thread makes no
    progress: the process should then end rather than look healthy.
    """

    def __init__(self, database: Database, *, lease_seconds: float) -> None:
        self._database = database
        self._lease_ms = round(lease_seconds * 1000)
        self._every_seconds = lease_seconds / 3
        self._watched: dict[str, _Watched] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._last_beat = time.monotonic()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watch(self, lease: Lease, *, deadline_seconds: float) -> Iterator[threading.Event]:
        """Renew `lease` until the block ends. Yields the flag that is set when the lease is lost."""
        watched = _Watched(lease, time.monotonic() + deadline_seconds)
        with self._lock:
            self._watched[lease.job_id] = watched
            if self._thread is None:
                self._last_beat = time.monotonic()
                self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
                self._thread.start()
        try:
            yield watched.abort
        finally:
            with self._lock:
                self._watched.pop(lease.job_id, None)

    @property
    def stalled(self) -> bool:
        """Whether leases are held and nothing was renewed for far too long."""
        most_seconds = silence_seconds(self._lease_ms / 1000)
        with self._lock:
            return bool(self._watched) and time.monotonic() - self._last_beat > most_seconds

    def abort_all(self) -> None:
        """Set the abort flag of every running job: the grace period is over."""
        with self._lock:
            for watched in self._watched.values():
                watched.abort.set()

    def stop(self) -> None:
        """End the thread. Call it after the last job has ended."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _run(self) -> None:
        while not self._stop.wait(self._every_seconds):
            try:
                self.beat()
            except DBAPIError as error:
                # The database will be asked again; a lease that runs out meanwhile is fenced off at its commit.
                log.warning("heartbeat failed", error=type(error.orig).__name__)

    def beat(self) -> None:
        """Renew once, now."""
        moment = time.monotonic()
        with self._lock:
            for job_id in [job_id for job_id, watched in self._watched.items() if watched.deadline < moment]:
                log.error("job is past its deadline, its lease is no longer renewed", job_id=job_id)
                self._watched.pop(job_id).abort.set()
            held = {(w.lease.agent_id, w.lease.epoch, w.lease.owner): w for w in self._watched.values()}
        if held:
            kept = self._renew(sorted(held))
            for key, watched in held.items():
                if key not in kept:
                    watched.abort.set()
        self._last_beat = time.monotonic()

    def _renew(self, keys: list[_Key]) -> set[_Key]:
        """Renew these leases; returns those that are still ours."""
        try:
            return self._renewed(keys, skip_locked=False)
        except DBAPIError as error:
            if not is_lock_timeout(error):
                raise
        # One agent whose row somebody keeps locked must not let the leases of all others run out.
        log.warning("an agent is locked by another process; the other leases are renewed")
        return self._renewed(keys, skip_locked=True)

    def _renewed(self, keys: list[_Key], *, skip_locked: bool) -> set[_Key]:
        lease = (agents.c.agent_id, agents.c.epoch, agents.c.owner)
        ours = tuple_(*lease).in_(keys)
        with self._database.write(lock_timeout_ms=LOCK_TIMEOUT_MS) as connection:
            # Lock first, then read the clock: an instant read before a wait may have passed.
            locked = connection.execute(
                select(agents.c.agent_id)
                .where(ours)
                .order_by(agents.c.agent_id)
                .with_for_update(skip_locked=skip_locked)
            ).scalars()
            clock_ms, clock_boot = lease_clock(connection)
            renewed = connection.execute(
                update(agents)
                .where(ours, agents.c.agent_id.in_(locked.all()))
                .values(
                    lease_until_ms=clock_ms + self._lease_ms,
                    lease_boot=clock_boot,
                    wake_at_ms=now_ms(connection) + self._lease_ms,
                )
                .returning(*lease)
            )
            kept = {(row.agent_id, row.epoch, row.owner) for row in renewed}
            if skip_locked:
                unchanged = connection.execute(select(*lease).where(ours))
                kept |= {(row.agent_id, row.epoch, row.owner) for row in unchanged}
            return kept
