"""The intake process: it takes in the streams of its pools, sweeps, and publishes hints.

It is a process of its own, beside the Celery worker: inside that it would die with it, and with Redis full a
Celery worker exits at once, so that the stream could never drain.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from takeaways.schemas.database import Database
from takeaways.schemas.queues import STREAM_OF_POOL, Kind
from takeaways.workers.erasure import erasing
from takeaways.workers.intake.patience import Patience
from takeaways.workers.intake.reader import StreamReader, connect_reader
from takeaways.workers.intake.retention import drop_what_is_over
from takeaways.workers.intake.streaming import Streaming, StreamOptions
from takeaways.workers.intake.taken import TakenIn
from takeaways.workers.jobs import kept_answers
from takeaways.workers.pools.hints import Hints
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.sweep import LIMIT, QUEUE_CAP, redecide, sweep_once

log = structlog.get_logger(__name__)

STALLED: Final = 1


@dataclass(frozen=True, slots=True)
class IntakeOptions:
    """Times of the process. `stall_seconds` is longer than the longest single wait on the database."""

    stream: StreamOptions = field(default_factory=StreamOptions)
    sweep_seconds: float = 1.0
    sweep_limit: int = LIMIT
    queue_cap: int = QUEUE_CAP
    repair_seconds: float = 30.0
    stall_seconds: float = 300.0
    drain_seconds: float = 40.0


class IntakeProcess:
    """Runs until SIGTERM, SIGINT or `stop`. `kinds` are the pools that it takes in and sweeps for."""

    def __init__(
        self,
        *,
        database: Database,
        redis_url: str,
        hints: Hints,
        policy: Policy,
        kinds: Collection[Kind],
        queue_length: Callable[[Kind], int] = lambda kind: 0,
        options: IntakeOptions | None = None,
        observe: Callable[[str, TakenIn], None] = lambda stream, taken: None,
    ) -> None:
        self._database = database
        self._redis_url = redis_url
        self._hints = hints
        self._policy = policy
        self._kinds = tuple(kinds)
        self._queue_length = queue_length
        self._options = options or IntakeOptions()
        self._observe = observe
        self._stop = threading.Event()
        self._clients: list[Redis] = []

    def stop(self) -> None:
        """End after the running batch. Safe from any thread and from a signal handler."""
        self._stop.set()

    def run(self) -> int:
        """Work until told to stop; returns the exit code: 0, or 1 when a part of it died or stalled."""
        self._listen()
        limbs = [_Limb(f"intake {STREAM_OF_POOL[kind]}", self._streaming(kind)) for kind in self._kinds]
        limbs.append(_Limb("sweep", self._sweep))
        for limb in limbs:
            limb.start()
        healthy = self._watch(limbs)
        self._stop.set()
        deadline = time.monotonic() + (self._options.drain_seconds if healthy else 1.0)
        for limb in limbs:
            limb.join(max(deadline - time.monotonic(), 0.1))
        ended = all(not limb.is_alive for limb in limbs)
        self._hints.close(timeout_seconds=2.0)
        for client in self._clients:
            client.close()
        log.info("intake ended", drained=ended)
        return 0 if healthy and ended else STALLED

    def _listen(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda _number, _frame: self._stop.set())

    def _watch(self, limbs: list[_Limb]) -> bool:
        """Wait for the end. False when a limb died or stalled: without it the process only looks healthy."""
        while not self._stop.wait(0.2):
            for limb in limbs:
                if not limb.is_alive and not self._stop.is_set():
                    log.error("a part of intake died", part=limb.name, error=limb.error)
                    return False
                if limb.silent_seconds > self._options.stall_seconds:
                    log.error(
                        "a part of the intake stalled; the process ends",
                        part=limb.name,
                        silent_seconds=round(limb.silent_seconds),
                    )
                    return False
        return True

    def _streaming(self, kind: Kind) -> Callable[[Callable[[], None]], None]:
        client = connect_reader(self._redis_url)
        self._clients.append(client)
        stream = STREAM_OF_POOL[kind]
        return Streaming(
            self._database,
            StreamReader(client, stream),
            stream,
            hints=self._hints,
            policy=self._policy,
            stop=self._stop,
            options=self._options.stream,
            observe=self._observe,
        ).run

    def _sweep(self, beat: Callable[[], None]) -> None:
        patience = Patience()
        housekeeper = connect_reader(self._redis_url)
        self._clients.append(housekeeper)
        redecided: str | None = ""
        repair_at = retain_at = 0.0
        wait_seconds = 0.0
        while not self._stop.wait(wait_seconds):
            beat()
            try:
                if redecided is not None:
                    # Once in the life of a process: two with different settings would never agree.
                    redecided = redecide(self._database, policy=self._policy, after=redecided)
                if time.monotonic() >= repair_at:
                    repair_at = time.monotonic() + self._options.repair_seconds
                    erasing.go_on(self._database, housekeeper)
                    kept_answers.drop_old(self._database)
                if time.monotonic() >= retain_at:
                    more = drop_what_is_over(
                        self._database,
                        text_days=self._policy.raw_text_days,
                        quotes=self._policy.raw_text_quotes,
                    )
                    # What is over is dropped batch by batch, so that it keeps up with what comes in.
                    retain_at = time.monotonic() + (0.0 if more else self._options.repair_seconds)
                swept = sweep_once(
                    self._database,
                    self._hints,
                    policy=self._policy,
                    kinds=self._kinds,
                    limit=self._options.sweep_limit,
                    queue_length=self._hints_ahead,
                    queue_cap=self._options.queue_cap,
                )
            except (SQLAlchemyError, RedisError, OSError) as error:
                wait_seconds = max(patience.failed(), self._options.sweep_seconds)
                log.warning("the sweep is held up", error=type(error).__name__)
            else:
                if patience.succeeded():
                    log.info("the sweep goes on")
                wait_seconds = 0.0 if swept.more or redecided is not None else self._options.sweep_seconds

    def _hints_ahead(self, kind: Kind) -> int:
        """Hints that no worker has taken: those in the pool's queue, and those on their way there.

        Many agents are swept in the time that one hint takes to travel. Were only the queue looked at, the
        way there would overflow, and drop hints that then come half a minute late.
        """
        return self._queue_length(kind) + self._hints.counts.waiting


class _Limb:
    """A thread that shows signs of life. Its end, for whatever reason, is seen by who watches."""

    def __init__(self, name: str, run: Callable[[Callable[[], None]], Any]) -> None:
        self.name = name
        self.error: str | None = None
        self._run = run
        self._beat_at = time.monotonic()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def silent_seconds(self) -> float:
        return time.monotonic() - self._beat_at

    def start(self) -> None:
        self._thread.start()

    def join(self, timeout_seconds: float) -> None:
        self._thread.join(timeout_seconds)

    def _main(self) -> None:
        try:
            self._run(self._beat)
        except Exception as error:
            self.error = type(error).__name__
            log.exception("a part of the intake failed", part=self.name)

    def _beat(self) -> None:
        self._beat_at = time.monotonic()
