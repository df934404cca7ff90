"""The loop of one stream: read, take in, acknowledge, hint; and between batches, the stream's housekeeping.

*How it goes wrong*: with any trouble of Redis or the database nothing is acknowledged; the loop waits, sees
that the database answers, and reads its own pending entries again. Taking in twice changes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog
from redis.exceptions import RedisError
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from takeaways.schemas.database import Database
from takeaways.workers.faults import fault_point
from takeaways.workers.intake.active import active, lock_file
from takeaways.workers.intake.entries import Entry
from takeaways.workers.intake.patience import Patience
from takeaways.workers.intake.reader import StreamReader
from takeaways.workers.intake.taken import TakenIn
from takeaways.workers.intake.transaction import take_in
from takeaways.workers.pools.hints import Hints
from takeaways.workers.schedule.policy import Policy

log = structlog.get_logger(__name__)

# Entries of agents that somebody holds stay in memory until they can be taken in; beyond this nothing is read.
_LEFT_MOST: Final = 5_000
_LEFT_MOST_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Times of the loop. `reclaim_idle_seconds` is longer than a statement with all its waits for locks."""

    block_seconds: float = 1.0
    retry_left_seconds: float = 2.0
    trim_seconds: float = 5.0
    keep_seconds: float = 0.0
    reclaim_seconds: float = 30.0
    reclaim_idle_seconds: float = 120.0
    consumer_gone_seconds: float = 3600.0
    # On SQLite, so that jobs get their turn as writers between two batches.
    pause_seconds: float = 0.003


class Streaming:
    """Takes in one stream until `stop` is set. `observe` is told of each batch, for metrics."""

    def __init__(
        self,
        database: Database,
        reader: StreamReader,
        stream: str,
        *,
        hints: Hints,
        policy: Policy,
        stop: threading.Event,
        options: StreamOptions | None = None,
        observe: Callable[[str, TakenIn], None] = lambda stream, taken: None,
    ) -> None:
        self._database = database
        self._reader = reader
        self._stream = stream
        self._hints = hints
        self._policy = policy
        self._stop = stop
        self._options = options or StreamOptions()
        self._observe = observe
        self._left: list[Entry] = []
        self._retry_left_at = 0.0
        self._trim_at = 0.0
        self._reclaim_at = 0.0
        self._checkpoint_due = False

    def run(self, beat: Callable[[], None]) -> None:
        """Work until told to stop. `beat` is called at least each few seconds, as a sign of life."""
        with active(lock_file(self._database, self._stream), self._stop, beat) as is_active:
            if is_active:
                log.info("intake begins", stream=self._stream, consumer=self._reader.consumer)
                self._work(beat)
                self._goodbye()

    def step(self) -> int:
        """One round: at most one batch. Returns how many were acknowledged. Raises what went wrong."""
        self._keep_house()
        entries = self._next()
        if not entries:
            self._rest()
            return 0
        fault_point("after_read")
        taken = take_in(self._database, entries, policy=self._policy)
        fault_point("after_commit")
        self._reader.acknowledge(taken.done)
        fault_point("after_acknowledge")
        for hint in taken.hints:
            self._hints.hint(hint.kind, hint.agent_id, hint.reason)
        fault_point("after_hint")
        if taken.left:
            self._left.extend(taken.left)
            self._retry_left_at = time.monotonic() + self._options.retry_left_seconds
        self._checkpoint_due = True
        self._observe(self._stream, taken)
        if self._database.is_sqlite:
            self._stop.wait(self._options.pause_seconds)
        return len(taken.done)

    def _work(self, beat: Callable[[], None]) -> None:
        patience = Patience()
        while not self._stop.is_set():
            beat()
            try:
                if patience.failures:
                    self._ping()
                    self._look_back()
                self.step()
            except (SQLAlchemyError, RedisError, OSError) as error:
                wait_seconds = patience.failed()
                log.warning(
                    "taking in is held up; nothing was acknowledged",
                    stream=self._stream,
                    error=type(error).__name__,
                    again_in_seconds=round(wait_seconds, 1),
                )
                self._stop.wait(wait_seconds)
            else:
                if patience.succeeded():
                    log.info("taking in goes on", stream=self._stream)

    def _next(self) -> list[Entry]:
        """Entries to take in now: those left before when it is their time, else what the stream has."""
        now = time.monotonic()
        if self._left and now >= self._retry_left_at:
            entries, self._left = self._left, []
            return entries
        if len(self._left) >= _LEFT_MOST or sum(len(one.raw) for one in self._left) >= _LEFT_MOST_BYTES:
            self._stop.wait(max(self._retry_left_at - now, 0))
            return []
        wait_seconds = self._options.block_seconds
        if self._left:
            wait_seconds = min(wait_seconds, self._retry_left_at - now)
        found = self._reader.read(block_seconds=wait_seconds)
        if not self._left:
            return found
        # What follows for an agent of which something was left waits behind it.
        busy = {entry.agent_id for entry in self._left}
        self._left.extend(entry for entry in found if entry.agent_id in busy)
        return [entry for entry in found if entry.agent_id not in busy]

    def _keep_house(self) -> None:
        now = time.monotonic()
        if now >= self._trim_at:
            self._trim_at = now + self._options.trim_seconds
            self._reader.trim(keep_seconds=self._options.keep_seconds)
        if now >= self._reclaim_at:
            self._reclaim_at = now + self._options.reclaim_seconds
            self._ping()
            if self._reader.reclaim(idle_seconds=self._options.reclaim_idle_seconds):
                self._look_back()
            self._reader.drop_idle_consumers(idle_seconds=self._options.consumer_gone_seconds)

    def _rest(self) -> None:
        """Nothing to do: on SQLite move the log into the database, before it grows large."""
        if self._checkpoint_due:
            self._database.checkpoint()
            self._checkpoint_due = False

    def _look_back(self) -> None:
        self._left.clear()  # they are pending and come again
        self._reader.look_back()

    def _ping(self) -> None:
        with self._database.read() as connection:
            connection.execute(text("SELECT 1"))

    def _goodbye(self) -> None:
        try:
            self._reader.leave()
        except (RedisError, OSError) as error:
            log.info("the consumer stays in the group; another drops it", error=type(error).__name__)
