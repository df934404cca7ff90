"""The two tasks and the life of a worker process.

A task carries an agent's id; `run_job` finds out whether there is work. Services are built at a process's
first job, after any fork. On SIGTERM the drain flag is set; leases are renewed until the pool has drained.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import structlog
from celery import Celery, Task, bootsteps, signals
from celery.exceptions import Retry, SecurityWarning

from takeaways.schemas.queues import TASK_OF_KIND, Kind
from takeaways.workers import telemetry
from takeaways.workers.exits import Exit
from takeaways.workers.pools.broker import make_app_of
from takeaways.workers.pools.drain import Drain
from takeaways.workers.pools.phases import Phases
from takeaways.workers.pools.supported import why_not
from takeaways.workers.settings import Settings

if TYPE_CHECKING:
    from takeaways.workers.bootstrap import Services

log = structlog.get_logger(__name__)


class WorkerApp(Celery):
    """The app of a worker. A spawned child gets it pickled, and makes it anew, tasks included."""

    settings: Settings

    def __reduce__(self) -> tuple[Callable[[Settings], Celery], tuple[Settings]]:
        return worker_app, (self.settings,)


class JobFailed(RuntimeError):
    """What nobody expected went wrong in a job; the log has the lines that it passed."""


class Waits(RuntimeError):
    """A job did not get to its work; the sweep hints again when it is time. Flower shows it as a retry."""


class SetAside(RuntimeError):
    """A job put something into quarantine, and the rest goes on. Flower shows it as a failure."""


def worker_app(settings: Settings | None = None) -> Celery:
    """The app with its tasks and the steps of a worker's life. Connects to nothing yet."""
    settings = settings or Settings.from_env()
    # It warns of root because of pickle, which could run code. Only JSON is accepted here.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    app = make_app_of(WorkerApp, settings)
    app.settings = settings
    runtime = Runtime(settings, app)
    register(app, runtime)
    app.steps["worker"].add(_life(settings, runtime))
    signals.worker_process_shutdown.connect(runtime.close, weak=False)
    return app


class Runtime:
    """The services of this process, built at its first job. Two jobs that come first at once share them."""

    def __init__(self, settings: Settings, app: Celery) -> None:
        self._settings = settings
        self._app = app
        self._lock = threading.Lock()
        self._services: Services | None = None
        self._closed = threading.Event()

    def services(self) -> Services:
        with self._lock:
            if self._services is None:
                from takeaways.workers.bootstrap import build

                if not structlog.is_configured():  # in a spawned child
                    telemetry.configure(self._settings.log_format, self._settings.log_level, process="worker")
                self._services = build(self._settings, self._app)
                threading.Thread(
                    target=self._look_after, args=(self._services,), name="watchdog", daemon=True
                ).start()
            return self._services

    def close(self, **_signal: Any) -> None:
        """Stop the heartbeat and give everything back. Nothing happens where no job ever ran."""
        self._closed.set()
        with self._lock:
            services, self._services = self._services, None
        if services is not None:
            services.close()

    def _look_after(self, services: Services) -> None:
        """End a process that renews no leases any more; call off what runs when the grace is over."""
        looked_stalled = False
        while not services.drain.wait(services.policy.lease_seconds / 3):
            if self._closed.is_set():
                return
            # Twice in a row: a process that was frozen, and goes on, has had no chance yet to renew anything.
            looked_stalled, before = services.heartbeat.stalled, looked_stalled
            if looked_stalled and before:
                log.critical("the heartbeat makes no progress, so this process ends and another takes over")
                os._exit(Exit.STALLED)
        if not self._closed.wait(self._settings.abort_seconds):
            services.heartbeat.abort_all()


def register(app: Celery, runtime: Runtime) -> None:
    """Register the task of each kind. `shared=False`: no other app in this process gets them."""
    phases = Phases(app)
    for kind in Kind:
        _register(app, runtime, kind, phases)


def _register(app: Celery, runtime: Runtime, kind: Kind, phases: Phases) -> None:
    # Not lazy: in a spawned child Celery would hand a lazy task to whatever app is current.
    # `throws`: no traceback in the log for what is no fault of the code.
    @app.task(name=TASK_OF_KIND[kind], bind=True, shared=False, lazy=False, throws=(SetAside,))
    def run(self: Task[Any, Any], agent_id: str) -> str:
        from takeaways.workers.jobs.run import run_job
        from takeaways.workers.metrics import jobs as measured

        def phase(name: str) -> None:
            phases.tell(name, task_id=self.request.id, hostname=self.request.hostname)

        began = time.monotonic()
        try:
            result = run_job(kind, agent_id, runtime.services(), phase=phase)
        except Exception as error:
            # Celery prints an error with its text, and sends it to Flower: only what may be shown gets there.
            log.exception("a job failed", agent_id=agent_id, kind=kind)
            measured.failed(kind, time.monotonic() - began)
            raise JobFailed(telemetry.describe(error)) from None
        measured.ended(kind, result, time.monotonic() - began)
        if result.set_aside:
            raise SetAside(result.words)
        if result.outcome.is_tried_again:
            # Raised by hand, and not by `self.retry`, it sends nothing again.
            when: Any = result.wait_seconds
            raise Retry(result.words, Waits(result.words), when)
        return result.words


def _life(settings: Settings, runtime: Runtime) -> type[bootsteps.Step]:
    class Life(bootsteps.StartStopStep):
        """Runs in the main process before the pool starts. It opens no database: a fork would inherit it."""

        requires = ("celery.worker.components:Pool",)

        def __init__(self, worker: Any, **options: Any) -> None:
            super().__init__(worker, **options)
            pool = getattr(worker.pool_cls, "__module__", str(worker.pool_cls))
            if why := why_not(settings, pool=pool.rpartition(".")[2], start_method=worker.pool_start_method):
                print(f"takeaways: {why}", file=sys.stderr)
                raise SystemExit(int(Exit.MISCONFIGURED))
            queues = ",".join(sorted(worker.app.amqp.queues.consume_from))
            telemetry.configure(settings.log_format, settings.log_level, pool=queues, process="worker")
            _load()
            drain = Drain()

            def shutting_down(**_signal: Any) -> None:
                drain.begin()

            signals.worker_shutting_down.connect(shutting_down, sender=worker.hostname, weak=False)
            signals.worker_shutdown.connect(runtime.close, sender=worker, weak=False)

    return Life


def _load() -> None:
    """Import what jobs need: the first one does not wait for it, and forked children share the memory."""
    for module in ("bootstrap", "jobs.run", "extraction.handler", "consolidation.handler"):
        importlib.import_module(f"takeaways.workers.{module}")
