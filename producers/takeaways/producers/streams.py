"""How events travel: as entries of Redis streams, many in one round trip."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from takeaways.producers.delivery import Delivery
from takeaways.producers.entries import Entry
from takeaways.schemas.errors import BadInput
from takeaways.schemas.queues import FIELD

BATCH_ENTRIES: Final = 200
BATCH_BYTES: Final = 4 * 1024 * 1024
_HEALTH_CHECK_SECONDS: Final = 5  # an idle connection that a proxy closed silently is found before it is used


class Streams:
    """Sends entries and waits for Redis's answers. Safe to share among threads, and across a fork."""

    def __init__(self, redis_url: str, *, patience_seconds: float, timeout_seconds: float) -> None:
        self.address = address_of(redis_url)
        self._patience_seconds = patience_seconds
        self._client = redis.Redis.from_url(
            redis_url, retry=Retry(NoBackoff(), 0), **_options(timeout_seconds)
        )

    def send(self, entries: Iterable[Entry]) -> None:
        """Return when Redis has taken every entry."""
        for batch in _batches(entries):
            delivery = Delivery(batch, address=self.address, patience_seconds=self._patience_seconds)
            while (pause_seconds := delivery.settle(self._attempt(delivery.waiting))) is not None:
                time.sleep(pause_seconds)

    def _attempt(self, entries: Sequence[Entry]) -> Sequence[object] | Exception:
        try:
            pipeline = self._client.pipeline(transaction=False)
            for entry in entries:
                pipeline.xadd(entry.stream, {FIELD: entry.payload})
            answers: list[object] = pipeline.execute(raise_on_error=False)
        except (redis.RedisError, OSError) as error:
            return error
        return answers

    def close(self) -> None:
        self._client.close()


class AsyncStreams:
    """The same in asyncio. Belongs to the event loop that it is first used in."""

    def __init__(self, redis_url: str, *, patience_seconds: float, timeout_seconds: float) -> None:
        self.address = address_of(redis_url)
        self._patience_seconds = patience_seconds
        self._client = redis.asyncio.Redis.from_url(
            redis_url, retry=AsyncRetry(NoBackoff(), 0), **_options(timeout_seconds)
        )

    async def send(self, entries: Iterable[Entry]) -> None:
        """Return when Redis has taken every entry."""
        for batch in _batches(entries):
            delivery = Delivery(batch, address=self.address, patience_seconds=self._patience_seconds)
            while (pause_seconds := delivery.settle(await self._attempt(delivery.waiting))) is not None:
                await asyncio.sleep(pause_seconds)

    async def _attempt(self, entries: Sequence[Entry]) -> Sequence[object] | Exception:
        try:
            pipeline = self._client.pipeline(transaction=False)
            for entry in entries:
                pipeline.xadd(entry.stream, {FIELD: entry.payload})
            answers: list[object] = await pipeline.execute(raise_on_error=False)
        except (redis.RedisError, OSError) as error:
            return error
        return answers

    async def close(self) -> None:
        await self._client.aclose()


def _options(timeout_seconds: float) -> dict[str, Any]:
    """redis-py's own retries are off: they would go on beyond the time that we promise."""
    return {
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        "socket_keepalive": True,
        "health_check_interval": _HEALTH_CHECK_SECONDS,
    }


def _batches(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Bounded round trips, so that neither side holds a whole import in its buffers."""
    batch: list[Entry] = []
    size_bytes = 0
    for entry in entries:
        if batch and (len(batch) == BATCH_ENTRIES or size_bytes + len(entry.payload) > BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(entry)
        size_bytes += len(entry.payload)
    if batch:
        yield batch


def address_of(redis_url: str) -> str:
    """The address as it may be shown: without user, password and options. Raises `BadInput`."""
    try:
        url = urlsplit(redis_url)
        port = f":{url.port}" if url.port else ""
    except (ValueError, TypeError, AttributeError):
        url = None
    if url is None or url.scheme not in ("redis", "rediss", "unix"):
        raise BadInput(
            "the Redis address cannot be read; it looks like redis://host:6379/0, rediss://… or unix:///path"
        )
    return f"{url.scheme}://{url.hostname or ''}{port}{url.path}"
