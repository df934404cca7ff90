"""Hints: telling a pool that an agent may have work, without ever making the caller wait for the broker.

A hint carries an agent's id and no data. It may be lost: the sweep repeats it. So the queue in between is
bounded and drops its oldest, and a broker that is down costs the caller nothing (publishing to it takes 0.6 s
a hint, even without retries).
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from takeaways.schemas.queues import TASK_OF_KIND, Kind
from takeaways.workers.faults import fault_point

if TYPE_CHECKING:
    from celery import Celery

log = structlog.get_logger(__name__)

Publish = Callable[[Kind, str, str], None]
CAPACITY: Final = 10_000


@dataclass(frozen=True, slots=True)
class HintCounts:
    """What became of the hints so far. `merged` were for an agent that had one in the queue already."""

    published: int = 0
    merged: int = 0
    dropped: int = 0
    failed: int = 0
    waiting: int = 0


class Hints:
    """A queue of hints with a thread of its own. `publish` is called there with kind, agent id and reason."""

    def __init__(self, publish: Publish, capacity: int = CAPACITY) -> None:
        self._publish = publish
        self._capacity = capacity
        self._waiting: OrderedDict[tuple[Kind, str], str] = OrderedDict()
        self._changed = threading.Condition()
        self._closing = False
        self._published = self._merged = self._dropped = self._failed = 0
        self._thread: threading.Thread | None = None

    def hint(self, kind: Kind, agent_id: str, reason: str) -> None:
        """Queue a hint and return at once. Beyond the capacity the oldest is dropped."""
        with self._changed:
            if self._closing:
                self._dropped += 1
                return
            if (kind, agent_id) in self._waiting:
                self._merged += 1
                return
            if len(self._waiting) >= self._capacity:
                self._waiting.popitem(last=False)
                self._dropped += 1
            self._waiting[kind, agent_id] = reason
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hints", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self, timeout_seconds: float) -> None:
        """Publish what is left for at most this long, and drop the rest. Later hints are dropped."""
        with self._changed:
            self._closing = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(timeout_seconds)
        with self._changed:
            self._dropped += len(self._waiting)
            self._waiting.clear()

    @property
    def counts(self) -> HintCounts:
        with self._changed:
            return HintCounts(self._published, self._merged, self._dropped, self._failed, len(self._waiting))

    def _run(self) -> None:
        failing = False
        while (taken := self._take()) is not None:
            kind, agent_id, reason = taken
            try:
                fault_point("before_hint_sent")
                self._publish(kind, agent_id, reason)
                fault_point("after_hint_sent")
            except Exception as error:  # whatever the broker's client raises: the sweep hints again
                if not failing:
                    log.warning(
                        "hints do not get through; the sweep repeats them", error=type(error).__name__
                    )
                failing = True
                with self._changed:
                    self._failed += 1
            else:
                if failing:
                    log.info("hints get through again")
                failing = False
                with self._changed:
                    self._published += 1

    def _take(self) -> tuple[Kind, str, str] | None:
        with self._changed:
            while not self._waiting:
                if self._closing:
                    return None
                self._changed.wait()
            (kind, agent_id), reason = self._waiting.popitem(last=False)
            return kind, agent_id, reason


def celery_publisher(app: Celery) -> Publish:
    """Publish hints as Celery tasks by name, without `expires`: a skewed clock would discard them all."""
    # Celery is typed by stubs that do not know all of send_task's options.
    send: Any = app.send_task

    def publish(kind: Kind, agent_id: str, reason: str) -> None:
        send(
            TASK_OF_KIND[kind],
            kwargs={"agent_id": agent_id},
            queue=kind.value,
            kwargsrepr=f"agent={agent_id} reason={reason}",
            ignore_result=True,
            retry=False,
        )

    return publish
