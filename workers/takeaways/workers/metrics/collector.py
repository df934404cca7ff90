"""The one collector of how everything stands, read anew at most every few seconds however often it is asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import structlog
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from takeaways.schemas.database import Database
from takeaways.schemas.queues import STREAMS, Kind
from takeaways.workers.bootstrap import connect, open_database
from takeaways.workers.metrics import standing
from takeaways.workers.metrics.labels import model_label
from takeaways.workers.schedule.decide import Reason
from takeaways.workers.settings import Settings

log = structlog.get_logger(__name__)

FRESH_SECONDS: Final = 5.0
R = TypeVar("R")


class Standing(Collector):
    """Reads the database, the events' Redis and the broker. One that does not answer is `takeaways_up` 0."""

    def __init__(self, settings: Settings, *, fresh_seconds: float = FRESH_SECONDS) -> None:
        self._database: Database = open_database(settings)
        self._events: Redis = connect(settings.redis_url, socket_timeout=5)
        self._broker: Redis = connect(settings.broker, socket_timeout=5)
        self._fresh_seconds = fresh_seconds
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._found: list[GaugeMetricFamily] = []

    def collect(self) -> Iterable[GaugeMetricFamily]:
        with self._lock:
            if time.monotonic() - self._read_at >= self._fresh_seconds:
                self._found = list(self._read())
                self._read_at = time.monotonic()
            return self._found

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing beforehand: registering must not read."""
        return ()

    def close(self) -> None:
        self._database.dispose()
        self._events.close()
        self._broker.close()

    def _read(self) -> Iterator[GaugeMetricFamily]:
        up = _gauge("takeaways_up", "Whether the part answered when it was last read.", "part")
        database = _asked(up, "database", lambda: standing.read_database(self._database))
        streams = _asked(
            up, "events", lambda: {name: standing.read_stream(self._events, name) for name in STREAMS}
        )
        pauses = _asked(up, "events", lambda: standing.read_pauses(self._events))
        memory = _asked(up, "events", lambda: standing.read_memory(self._events))
        queues = _asked(up, "broker", lambda: standing.read_queues(self._broker))
        if database is not None:
            yield from _of_database(database)
        if streams is not None:
            yield from _of_streams(streams)
        if pauses is not None:
            paused = _gauge("takeaways_model_paused_seconds", "For how long nobody asks the model.", "model")
            for name, seconds in pauses.items():
                paused.add_metric([model_label(name)], seconds)
            yield paused
        if memory is not None:
            used = _gauge(
                "takeaways_redis_memory_bytes", "Memory of the events' Redis; `most` 0: no limit.", "what"
            )
            used.add_metric(["used"], memory.used_bytes)
            used.add_metric(["most"], memory.most_bytes)
            yield used
        if queues is not None:
            length = _gauge(
                "takeaways_queue_length", "Hints by queue; `unacked`: taken, job not ended.", "queue"
            )
            for name, number in queues.items():
                length.add_metric([name], number)
            yield length
        yield up


def _gauge(name: str, help_text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help_text, labels=labels)


def _asked(up: GaugeMetricFamily, part: str, read: Callable[[], R]) -> R | None:
    """The reading, or None where the part does not answer; `up` notes the part at its first reading."""
    noted = [sample for sample in up.samples if sample.labels == {"part": part}]
    if any(sample.value == 0 for sample in noted):
        return None
    try:
        found = read()
    except (SQLAlchemyError, RedisError, OSError) as error:
        log.warning("metrics cannot be read", part=part, error=type(error).__name__)
        up.samples[:] = [sample for sample in up.samples if sample not in noted]
        up.add_metric([part], 0)
        return None
    if not noted:
        up.add_metric([part], 1)
    return found


def _of_database(found: standing.DatabaseStanding) -> Iterator[GaugeMetricFamily]:
    due = _gauge("takeaways_agents_due", "Agents that a worker may claim and none has.", "kind", "reason")
    none = {(kind.value, reason.value): 0 for kind in Kind for reason in Reason if _possible(kind, reason)}
    for labels, number in (none | dict(found.due)).items():
        due.add_metric(labels, number)
    yield due
    oldest = _gauge("takeaways_agents_due_oldest_seconds", "How long the oldest of them waits.", "kind")
    for kind, seconds in found.oldest_due_seconds.items():
        oldest.add_metric([kind], seconds)
    yield oldest
    held = _gauge(
        "takeaways_agents_held", "Agents of which nothing may start: `parked` until a person acts.", "why"
    )
    for why, number in found.held.items():
        held.add_metric([why], number)
    yield held
    leases = _gauge(
        "takeaways_leases", "Leases; expired ones are taken over by whoever comes.", "kind", "state"
    )
    for labels, number in found.leases.items():
        leases.add_metric(labels, number)
    yield leases
    late = _gauge("takeaways_sweep_late_seconds", "How overdue the oldest timer of an agent is.")
    late.add_metric([], found.sweep_late_seconds)
    yield late
    dead = _gauge("takeaways_dead_letters_open", "Dead letters that nobody has dealt with.", "reason")
    for reason, number in found.dead_letters.items():
        dead.add_metric([reason], number)
    yield dead
    aside = _gauge("takeaways_quarantines_open", "Batches that are set aside.", "kind")
    for kind, number in found.quarantines.items():
        aside.add_metric([kind], number)
    yield aside
    erasures = _gauge("takeaways_erasures_open", "Erasures that are not finished.")
    erasures.add_metric([], found.erasures_open)
    yield erasures


def _of_streams(found: dict[str, standing.StreamStanding]) -> Iterator[GaugeMetricFamily]:
    families = {
        "length": _gauge("takeaways_stream_length", "Entries in the stream.", "stream"),
        "lag": _gauge("takeaways_stream_lag", "Entries that no intake has read.", "stream"),
        "pending": _gauge("takeaways_stream_pending", "Entries read and not yet taken in.", "stream"),
        "oldest_seconds": _gauge(
            "takeaways_stream_oldest_seconds", "Age of the oldest event that is not taken in.", "stream"
        ),
        "consumers": _gauge("takeaways_stream_consumers", "Intakes that read the stream now.", "stream"),
    }
    for stream, stands in found.items():
        for name, family in families.items():
            family.add_metric([stream], getattr(stands, name))
    yield from families.values()


def _possible(kind: Kind, reason: Reason) -> bool:
    only = {
        Reason.RUNS: Kind.EXTRACTION,
        Reason.COMPACTED: Kind.CONSOLIDATION,
        Reason.MANY_CANDIDATES: Kind.CONSOLIDATION,
        Reason.IDLE: Kind.CONSOLIDATION,
    }
    return only.get(reason, kind) is kind
