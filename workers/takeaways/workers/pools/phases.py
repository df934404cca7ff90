"""Telling Flower what a job is doing, without ever making the job wait for the broker.

A phase is news, not work: it goes through a short queue that drops its oldest, on a thread of its own. With
the broker gone a single event takes ten seconds, or raises whatever its client raises.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import structlog

if TYPE_CHECKING:
    from celery import Celery

log = structlog.get_logger(__name__)

CAPACITY: Final = 500


class Phases:
    """A queue of events of tasks. Flower shows a phase's name as the task's state."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._waiting: deque[tuple[str, str | None, str | None]] = deque(maxlen=CAPACITY)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def tell(self, name: str, *, task_id: str | None, hostname: str | None) -> None:
        """Queue the phase of a task and return at once."""
        with self._changed:
            self._waiting.append((name, task_id, hostname))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="phases", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        # Celery is typed by stubs that do not know the dispatcher.
        events: Any = self._app.events
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                name, task_id, hostname = self._waiting.popleft()
            try:
                with events.default_dispatcher(hostname=hostname) as dispatcher:
                    dispatcher.send(f"task-{name}", uuid=task_id, retry=False)
            except Exception as error:  # whatever the broker's client raises: the next phase may get through
                log.debug("a phase could not be sent", phase=name, error=type(error).__name__)
