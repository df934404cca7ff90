"""The Celery app: what carries hints to the pools. Each setting that is not Celery's default has its reason.

Hints hold an agent's id and no data, and may be lost, doubled, late or out of order: the database is the
truth and the sweep hints again. Nothing here connects; the app is nobody's global.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import structlog
from celery import Celery
from celery.app.amqp import AMQP
from kombu import Connection, Queue
from kombu.transport.redis import Channel, Transport
from redis.connection import parse_url

from takeaways.schemas.errors import Misconfigured
from takeaways.schemas.queues import BROKER_PREFIX, Kind
from takeaways.workers.settings import Settings

log = structlog.get_logger(__name__)

App = TypeVar("App", bound=Celery)

# Broker and streams answer within milliseconds, and what waits for news waits a second at most.
SOCKET_TIMEOUT_SECONDS: Final = 5.0


def make_app(settings: Settings) -> Celery:
    """Make the app for these settings, without tasks. Connects when it is first used."""
    return make_app_of(Celery, settings)


def make_app_of(kind: type[App], settings: Settings) -> App:
    """`make_app` for a class of one's own."""
    # Another service that shares this process keeps its own current app.
    app = kind("takeaways", set_as_current=False, broker=settings.broker, amqp=_Amqp)
    app.conf.update(configuration(settings))
    return app


class _Channel(Channel):
    """Gives up the hints that were taken over a connection that is lost: the sweep hints again.

    kombu would put them back when the channel closes, and acknowledge each when its job ends, over a transport that is
    gone by then. Celery does not count that among the errors of a connection: the worker would end, with every job.
    """

    do_restore = False

    def _brpop_read(self, **options: Any) -> Any:
        """Take one hint. What is none is dropped: kombu would raise, and the worker end with every job in hand."""
        try:
            return super()._brpop_read(**options)  # type: ignore[misc] # the stubs leave it out
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            log.warning("something in a queue is no hint and was dropped", error=type(error).__name__)
            return True

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        if not self._is_lost:
            super().basic_ack(delivery_tag, multiple)

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        if not self._is_lost:
            super().basic_reject(delivery_tag, requeue)

    @property
    def _is_lost(self) -> bool:
        return self.closed or self.connection is None or self.connection.client is None


class _Transport(Transport):
    Channel = _Channel


class _Eager(Connection):
    """Tries again every few seconds however long the broker was away: by default the pauses grow to half a minute."""

    def ensure_connection(self, *args: Any, **options: Any) -> Any:
        return super().ensure_connection(
            *args, **{"interval_start": 1, "interval_step": 1, "interval_max": 4, **options}
        )

    def get_transport_cls(self) -> Any:
        found = super().get_transport_cls()
        return _Transport if found is Transport else found


class _Amqp(AMQP):
    Connection = _Eager


def configuration(settings: Settings) -> dict[str, Any]:
    """Celery's settings as a plain value."""
    return {
        "broker_use_ssl": tls(settings.broker),
        # A hint is spent when its job has ended, so a killed worker's hints come back.
        "task_acks_late": True,
        # Attempts are counted in the database, so a job that kills its worker cannot go round for ever.
        "task_reject_on_worker_lost": True,
        # A hint that waits in one worker's memory cannot be taken by a free one.
        "worker_prefetch_multiplier": 1,
        # A job goes on when the connection blinks: it works with the database, and ending it would lose its work.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        # The jobs table is the result. A result backend costs two more round trips a task.
        "result_backend": None,
        "task_ignore_result": True,
        # A hint is an id. Nothing that can run code is accepted.
        "task_serializer": "json",
        "accept_content": ["json"],
        # A misspelt queue is an error here, not a list on Redis that nobody reads.
        "task_create_missing_queues": False,
        "task_queues": [Queue(kind.value) for kind in Kind],
        "task_default_queue": Kind.EXTRACTION.value,
        "broker_transport_options": {
            "global_keyprefix": BROKER_PREFIX,
            "visibility_timeout": visibility_seconds(settings),
            # What is due to come back does so within seconds; by default it takes a hundred more.
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            # A half-open connection hangs a worker for good without these four.
            "socket_timeout": SOCKET_TIMEOUT_SECONDS,
            "socket_connect_timeout": 3,
            "socket_keepalive": True,
            "health_check_interval": 5,
            # A write that is repeated below us would be a second hint.
            "retry_on_timeout": False,
        },
        # A worker outlives its broker, at start as well: the sweep repairs what was missed.
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        # For Flower.
        "worker_send_task_events": True,
        "task_send_sent_event": True,
        # Jobs wait for the model: 200 slots in threads cost 130 MB, a prefork slot costs 60 MB.
        "worker_pool": settings.pool,
        "worker_pool_start_method": settings.pool_start_method,
        "worker_concurrency": settings.concurrency,
        # Ours is set up by `telemetry`; Celery's would add a second handler and print our lines twice.
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
    }


def tls(url: str) -> dict[str, Any] | None:
    """What Celery and Flower are told of TLS, from the `ssl_…` of the URL's query; None for a `redis://` URL.

    The server's certificate is checked unless the URL says otherwise: kombu would check none.
    """
    if not url.startswith("rediss://"):
        return None
    try:
        read = parse_url(url)  # type: ignore[no-untyped-call] # redis-py has no types for it
    except ValueError as error:
        raise Misconfigured(
            "the broker's URL cannot be read; use rediss://user:password@host:6379/0"
        ) from error
    return {
        "ssl_cert_reqs": "required",
        **{name: value for name, value in read.items() if name.startswith("ssl_")},
    }


def visibility_seconds(settings: Settings) -> int:
    """After how long a hint that nobody acknowledged goes back to its queue: twice the longest that a job may take.

    Sooner, it would come back while its job runs, and start a copy that ends `busy`. Later, hints of killed workers
    would only be counted as taken for longer: the sweep has long repeated them.
    """
    longest_seconds = settings.slice_seconds + 2 * settings.call_seconds
    return round(2 * longest_seconds)
