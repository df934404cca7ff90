"""Stand-ins for tests of services that publish. They read back what they were given, as a worker would.

producer = RecordingProducer()
my_service(producer)
(run,) = producer.of(RunCompleted)
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from takeaways.producers.entries import DEFAULT_LIMITS, Entry, Limits, entries_of
from takeaways.producers.publisher import SOURCE, Publisher, Sent, utc_now
from takeaways.schemas.errors import PublishFailed
from takeaways.schemas.events import Data, Event, decode

AnyData = TypeVar("AnyData", bound=Data)


class Recording(Publisher[Sent]):
    """What was published. Set `failing` to see how a service bears it when Redis is away."""

    def __init__(
        self,
        *,
        source: str = SOURCE,
        limits: Limits = DEFAULT_LIMITS,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(source=source, now=now)
        self.entries: list[Entry] = []
        self.failing = False
        self._limits = limits

    @property
    def events(self) -> list[Event]:
        """The events as a worker would read them, in the order of publishing."""
        return [decode(entry.payload, stream=entry.stream) for entry in self.entries]

    def of(self, model: type[AnyData]) -> list[AnyData]:
        """The data of all events of one type."""
        return [event.data for event in self.events if isinstance(event.data, model)]

    def clear(self) -> None:
        """Forget what was published."""
        self.entries.clear()

    def _record(self, event: Event) -> str:
        entries = entries_of(event, self._limits)
        if self.failing:
            raise PublishFailed(f"this recording is failing; event {event.id} was not taken", (event.id,))
        self.entries += entries
        return event.id


class RecordingProducer(Recording[str]):
    """A `Producer` that keeps everything in memory."""

    def _send(self, event: Event) -> str:
        return self._record(event)

    def publish_many(self, events: Iterable[Event]) -> list[str]:
        """As `Producer.publish_many`."""
        return [self._record(event) for event in events]

    def close(self) -> None:
        """Nothing to close; what was published stays readable."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncRecordingProducer(Recording[Coroutine[Any, Any, str]]):
    """An `AsyncProducer` that keeps everything in memory."""

    async def _send(self, event: Event) -> str:
        return self._record(event)

    async def publish_many(self, events: Iterable[Event]) -> list[str]:
        """As `AsyncProducer.publish_many`."""
        return [self._record(event) for event in events]

    async def close(self) -> None:
        """Nothing to close; what was published stays readable."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
