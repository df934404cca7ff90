"""`Producer` and its asyncio twin: everything but the socket is shared."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

from takeaways.producers.entries import DEFAULT_LIMITS, Entry, Limits, entries_of
from takeaways.producers.publisher import SOURCE, Publisher, utc_now
from takeaways.producers.streams import AsyncStreams, Streams
from takeaways.schemas.events import Event

PATIENCE_SECONDS: Final = 30.0
TIMEOUT_SECONDS: Final = 5.0


class Producer(Publisher[str]):
    """Publishes events to Redis; each call returns the event's id once Redis has taken it.

    While Redis is away a call waits and tries again for up to `patience_seconds` (and one `timeout_seconds`
    more for an answer that is outstanding), then raises `PublishFailed`. Callers that cannot bear to lose an
    event when their own process dies meanwhile write it to an outbox first, with `Composer`. One producer
    serves all threads of a process.
    """

    def __init__(
        self,
        redis_url: str,
        *,
        source: str = SOURCE,
        patience_seconds: float = PATIENCE_SECONDS,
        timeout_seconds: float = TIMEOUT_SECONDS,
        limits: Limits = DEFAULT_LIMITS,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(source=source, now=now)
        self._limits = limits
        self._streams = Streams(redis_url, patience_seconds=patience_seconds, timeout_seconds=timeout_seconds)

    def _send(self, event: Event) -> str:
        self._streams.send(entries_of(event, self._limits))
        return event.id

    def publish_many(self, events: Iterable[Event]) -> list[str]:
        """Publish events in few round trips; returns their ids. What is in when it fails stays in."""
        ids: list[str] = []
        self._streams.send(_travelling(events, self._limits, ids))
        return ids

    def close(self) -> None:
        """Close the connections. A later call would open new ones."""
        self._streams.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncProducer(Publisher[Coroutine[Any, Any, str]]):
    """`Producer` for asyncio: the same calls, each to be awaited. It belongs to one event loop.

    Bad arguments raise at the call, not at the `await`.
    """

    def __init__(
        self,
        redis_url: str,
        *,
        source: str = SOURCE,
        patience_seconds: float = PATIENCE_SECONDS,
        timeout_seconds: float = TIMEOUT_SECONDS,
        limits: Limits = DEFAULT_LIMITS,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(source=source, now=now)
        self._limits = limits
        self._streams = AsyncStreams(
            redis_url, patience_seconds=patience_seconds, timeout_seconds=timeout_seconds
        )

    async def _send(self, event: Event) -> str:
        await self._streams.send(entries_of(event, self._limits))
        return event.id

    async def publish_many(self, events: Iterable[Event]) -> list[str]:
        """Publish events in few round trips; returns their ids. What is in when it fails stays in."""
        ids: list[str] = []
        await self._streams.send(_travelling(events, self._limits, ids))
        return ids

    async def close(self) -> None:
        """Close the connections."""
        await self._streams.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _travelling(events: Iterable[Event], limits: Limits, ids: list[str]) -> Iterator[Entry]:
    """Entries as they are needed, so that no long import is in memory at once; notes the ids in `ids`."""
    for event in events:
        ids.append(event.id)
        yield from entries_of(event, limits)
