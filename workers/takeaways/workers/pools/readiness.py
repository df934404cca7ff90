"""Whether a pool works on this host: its Celery worker answers through the broker, and its intake reads the stream."""

from __future__ import annotations

from typing import Any, Final

from redis import Redis

from takeaways.schemas.queues import GROUP, STREAM_OF_POOL, Kind
from takeaways.workers.intake.reader import is_of_host
from takeaways.workers.metrics.standing import CONSUMER_ALIVE_SECONDS
from takeaways.workers.pools.broker import make_app
from takeaways.workers.settings import Settings

ANSWER_SECONDS: Final = 5.0
"""How long a worker has to answer. It does so within milliseconds, unless its machine is very busy."""


def missing(settings: Settings, redis: Redis, pool: Kind, *, host: str) -> list[str]:
    """What of the pool does not work on this host, in words; nothing when it is ready.

    Raises redis-py's errors while the events' Redis is away, and kombu's `OperationalError` for the broker.
    """
    found = []
    if not _intake_reads(redis, pool, host):
        found.append(f"no intake of {STREAM_OF_POOL[pool]} reads on {host}")
    if not _worker_answers(settings, pool, host):
        found.append(f"no Celery worker of the {pool} pool answers on {host}")
    return found


def _worker_answers(settings: Settings, pool: Kind, host: str) -> bool:
    app = make_app(settings)
    try:
        # `limit`: the first answer is enough, so that only one who is not ready waits for the time-out.
        asked = app.control.inspect(
            timeout=ANSWER_SECONDS,
            limit=1,
            pattern=f"{pool}-*@{host}",
            matcher="glob",  # type: ignore[arg-type] # it is a name, whatever its stubs say
        )
        return bool(asked.ping())
    finally:
        app.close()


def _intake_reads(redis: Redis, pool: Kind, host: str) -> bool:
    stream = STREAM_OF_POOL[pool]
    groups: Any = redis.xinfo_groups(stream) if redis.exists(stream) else []
    if not any(group["name"] == GROUP.encode() for group in groups):
        return False
    consumers: Any = redis.xinfo_consumers(stream, GROUP)
    return any(
        is_of_host(consumer["name"].decode("utf-8", "replace"), host)
        and consumer["idle"] < CONSUMER_ALIVE_SECONDS * 1000
        for consumer in consumers
    )
