"""Everything a process works with, built in one place and handed on. Call `build` after any fork.

The model is made when it is first asked for: intake and most commands never need one.
"""

from __future__ import annotations

import importlib
import os
import socket
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redis import Redis

from takeaways.schemas.database import Database
from takeaways.schemas.errors import Misconfigured
from takeaways.schemas.queues import BROKER_PREFIX, Kind
from takeaways.schemas.versions import require
from takeaways.workers.leases import Heartbeat
from takeaways.workers.models.limiter import Limits, SharedLimiter
from takeaways.workers.models.prices import PRICES
from takeaways.workers.models.resolve import WorkingModels
from takeaways.workers.models.shelf import ModelShelf, Served
from takeaways.workers.models.windows import WindowSettings
from takeaways.workers.pools.drain import watch
from takeaways.workers.pools.hints import Hints, Publish, celery_publisher
from takeaways.workers.schedule.boot import current_boot
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.settings import Settings
from takeaways.workers.settings.variables import MODEL_NAMES

if TYPE_CHECKING:
    from celery import Celery

    from takeaways.workers.models import MemoryModel

_HINTS_WAITING = 10_000


@dataclass(frozen=True)
class Services:
    """What a job, the intake and the commands work with. `drain` is set when no new work may be claimed."""

    settings: Settings
    policy: Policy
    database: Database
    boot_id: str
    owner: str
    hints: Hints
    heartbeat: Heartbeat
    drain: threading.Event
    models: ModelShelf
    limiter: SharedLimiter

    def redis(self, **options: Any) -> Redis:
        """A client for the server of the events. `options` are redis-py's."""
        return connect(self.settings.redis_url, **options)

    def close(self) -> None:
        """Give back what was opened, after the last job has ended: its lease is renewed until here."""
        self.heartbeat.stop()
        self.hints.close(timeout_seconds=2.0)
        self.limiter.close()
        self.database.dispose()


def build(settings: Settings, app: Celery | None = None) -> Services:
    """Open the database and make the rest. A worker hands in the `app` that it has.

    Raises `Misconfigured` where the database has no tables, or ones that this program cannot work with.
    """
    database = open_database(settings)
    with database.read() as connection:
        require(connection)
    policy = settings.policy
    return Services(
        settings=settings,
        policy=policy,
        database=database,
        boot_id=current_boot(database, pinned=settings.boot_id, fresh=False),
        owner=f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}",
        hints=Hints(_publisher(settings) if app is None else celery_publisher(app), _HINTS_WAITING),
        heartbeat=Heartbeat(database, lease_seconds=policy.lease_seconds),
        drain=watch(),
        models=model_shelf(settings),
        # Quicker to give up than others: a call that is admitted in doubt costs less than one that waits.
        limiter=SharedLimiter(connect(settings.redis_url, socket_timeout=2), limits(settings)),
    )


def model_shelf(settings: Settings) -> ModelShelf:
    """The models that the settings choose. Each is made when the first job needs it."""
    windows = WindowSettings(settings.window, settings.windows)
    chosen = {Kind.EXTRACTION: settings.extraction_model, Kind.CONSOLIDATION: settings.consolidation_model}

    def make(name: str) -> MemoryModel:
        plain = _on_messages_api(name) or name
        return model_named(name, window=windows.of(plain), most_output=settings.output_tokens.get(plain))

    return ModelShelf(
        choice=WorkingModels(settings.model, {kind: name for kind, name in chosen.items() if name}),
        make=make,
        make_served=_maker_of_served(settings, windows),
        windows=windows,
        prices={**PRICES, **settings.prices},
    )


def _maker_of_served(settings: Settings, windows: WindowSettings) -> Callable[[str], Served] | None:
    """What makes a model of the default's provider: agents may have their own there."""
    if _on_messages_api(settings.model) is None:
        return None

    def make(name: str) -> Served:
        from takeaways.workers.models.anthropic import AnthropicModel

        return AnthropicModel(name, window=windows.of(name), most_output=settings.output_tokens.get(name))

    return make


def _on_messages_api(name: str) -> str | None:
    """The model's name where it is asked over the Messages API: `claude-…` as it is, others as `anthropic/NAME`."""
    if name.startswith("claude-"):
        return name
    return name.removeprefix("anthropic/") if name.startswith("anthropic/") else None


def limits(settings: Settings) -> Limits:
    """What a model is allowed, over all workers."""
    return Limits(
        calls_at_once=settings.model_calls_at_once,
        tokens_a_minute=settings.model_tokens_a_minute,
        first_wait_seconds=settings.model_wait_seconds,
        most_wait_seconds=settings.model_wait_max_seconds,
    )


def _publisher(settings: Settings) -> Publish:
    """Celery is loaded with the first hint, on the thread that publishes: many a process never sends one."""
    made: list[Publish] = []

    def publish(kind: Kind, agent_id: str, reason: str) -> None:
        if not made:
            from takeaways.workers.pools.broker import make_app

            made.append(celery_publisher(make_app(settings)))
        made[0](kind, agent_id, reason)

    return publish


def open_database(settings: Settings) -> Database:
    """Open the database as it is. `migrated_database` makes a new one ready."""
    return Database.open(settings.database)


def migrated_database(settings: Settings) -> Database:
    """Open the database. A SQLite file is made and brought to the newest version; PostgreSQL is left alone.

    Its server has roles, and a time for migrations, of its own: they are left to `takeaways migrate`. Who
    starts others calls this once, so that they need not load what migrates.
    """
    if settings.uses_sqlite:
        from takeaways.schemas.migrations import migrate

        if not settings.database_url:
            settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        database = Database.open(settings.database)
        migrate(database)
        return database
    return Database.open(settings.database)


def connect(url: str, **options: Any) -> Redis:
    """A client for Redis that fails within seconds. Raises `Misconfigured` for a URL that cannot be read."""
    try:
        return Redis.from_url(url, **{"socket_timeout": 5, "socket_connect_timeout": 3, **options})
    except ValueError as error:
        raise Misconfigured("the Redis URL cannot be read; use redis://host:6379/0 or rediss://…") from error


def queue_length(settings: Settings) -> Callable[[Kind], int]:
    """How many hints wait in a pool's queue. Asking raises redis-py's errors while the broker is away."""
    client = connect(settings.broker)

    def length(kind: Kind) -> int:
        waiting: Any = client.llen(f"{BROKER_PREFIX}{kind.value}")
        return int(waiting)

    return length


def model_named(name: str, *, window: int | None = None, most_output: int | None = None) -> MemoryModel:
    """The model that a setting names: `offline`, `offline+local`, `claude-…`, `anthropic/NAME` (whatever speaks
    the Messages API at `ANTHROPIC_BASE_URL`), or a `package.module:factory`. Raises `Misconfigured`.
    """
    arguments: dict[str, Any] = {} if window is None else {"window": window}
    if name in ("offline", "offline+local"):
        from takeaways.workers.models.offline import OfflineModel

        return OfflineModel(embeddings=name == "offline+local", **arguments)
    if served := _on_messages_api(name):
        from takeaways.workers.models.anthropic import AnthropicModel

        return AnthropicModel(served, most_output=most_output, **arguments)
    module, colon, factory = name.partition(":")
    if not colon:
        raise Misconfigured(f"TAKEAWAYS_MODEL: {name!r} is not known; {MODEL_NAMES}")
    try:
        made: MemoryModel = getattr(importlib.import_module(module), factory)(**arguments)
    except (ImportError, AttributeError) as error:
        raise Misconfigured(f"TAKEAWAYS_MODEL: {name!r} cannot be imported ({error})") from error
    return made
