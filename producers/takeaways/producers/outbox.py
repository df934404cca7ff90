"""The outbox: events written in the caller's own transaction, published afterwards by a relay.

A service that commits and then publishes loses the event when it dies in between, and one that publishes first
tells of what may be rolled back. Here the event is a row of the service's own database, there exactly when
its transaction is. The relay may die at any moment too: what it then publishes twice has the same event id,
and intake takes each in once.

    outbox = Outbox(metadata)                            # the table joins the service's own
    with Session(engine) as session, session.begin():
        outbox.within(session).run_completed(agent_id="scout", room="quotes", run_id="r1")

This module needs SQLAlchemy 2 (the extra `outbox`), and no other part of `takeaways.producers` does.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Protocol

from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    String,
    Table,
    delete,
    func,
    select,
)

from takeaways.producers.delivery import FIRST_PAUSE_SECONDS
from takeaways.producers.entries import DEFAULT_LIMITS, Entry, Limits, entries_of
from takeaways.producers.publisher import SOURCE, Publisher, utc_now
from takeaways.producers.streams import Streams
from takeaways.schemas.errors import Misconfigured, PublishFailed
from takeaways.schemas.events import Event

log = logging.getLogger(__name__)

TABLE: Final = "takeaways_outbox"
BATCH_ENTRIES: Final = 500
LOOK_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
TIMEOUT_SECONDS: Final = 5.0


class Transaction(Protocol):
    """SQLAlchemy's `Connection` and `Session`, as far as the outbox needs them."""

    def execute(self, statement: Any, parameters: Any = None, /) -> Any: ...


class Outbox:
    """The table, in the service's own `metadata` so that its migrations make it, and the calls that fill it.

    With SQLAlchemy's asyncio, write inside `run_sync`: `await session.run_sync(lambda s: outbox.within(s)...)`.
    """

    def __init__(
        self,
        metadata: MetaData,
        *,
        table_name: str = TABLE,
        source: str = SOURCE,
        limits: Limits = DEFAULT_LIMITS,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.source = source
        self.limits = limits
        self.now = now
        self.table = Table(
            table_name,
            metadata,
            # SQLite counts up by itself only in a column of exactly this type.
            Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
            Column("event_id", String(255), nullable=False),
            Column("stream", String(255), nullable=False),
            Column("payload", LargeBinary, nullable=False),
            comment="Events that are committed and not published yet.",
        )

    def within(self, transaction: Transaction) -> Publisher[str]:
        """The calls of a `Producer`, each of which writes to the outbox within the caller's transaction.

        Each returns the event's id and commits nothing. Bad arguments raise `BadInput` and write nothing.
        """
        return _Writer(self, transaction)

    def waiting(self, transaction: Transaction) -> int:
        """How many entries are not published yet. One that grows says that no relay runs."""
        return int(transaction.execute(select(func.count()).select_from(self.table)).scalar_one())


class _Writer(Publisher[str]):
    def __init__(self, outbox: Outbox, transaction: Transaction) -> None:
        super().__init__(source=outbox.source, now=outbox.now)
        self._outbox = outbox
        self._transaction = transaction

    def _send(self, event: Event) -> str:
        # As entries: what is too large is cut and split now, in front of whoever can still do something about it.
        rows = [entry._asdict() for entry in entries_of(event, self._outbox.limits)]
        self._transaction.execute(self._outbox.table.insert(), rows)
        return event.id


class Relay:
    """Publishes what is in the outbox, oldest first, and deletes it there once Redis has taken it.

    One a database is enough. Several do no harm, and neither does one that dies between publishing and
    deleting: intake takes each event in once, by its id.
    """

    def __init__(
        self, outbox: Outbox, engine: Engine, redis_url: str, *, timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._table = outbox.table
        self._engine = engine
        # The rows wait for as long as it takes, so no single attempt has to be patient.
        self._streams = Streams(redis_url, patience_seconds=0.0, timeout_seconds=timeout_seconds)

    def once(self, *, limit: int = BATCH_ENTRIES) -> int:
        """Publish up to `limit` entries; returns how many. No transaction is open while Redis is waited for.

        Raises `PublishFailed` or `Misconfigured` when Redis does not take them, and SQLAlchemy's errors; every
        row that was not published is still there. A stream that Redis refuses to us does not hold up the others:
        it raises once all of theirs are published.
        """
        published = 0
        refused: dict[str, Misconfigured] = {}
        while rows := self._oldest(limit, refused):
            for stream in dict.fromkeys(row.stream for row in rows):
                of_stream = [row for row in rows if row.stream == stream]
                try:
                    self._streams.send(Entry(stream, bytes(row.payload), row.event_id) for row in of_stream)
                except Misconfigured as error:
                    refused[stream] = error
                    continue
                self._delete([row.id for row in of_stream])
                published += len(of_stream)
            if not refused:
                break
        for refusal in refused.values():
            raise refusal
        return published

    def run(self, stop: threading.Event, *, look_seconds: float = LOOK_SECONDS) -> None:
        """Publish until `stop` is set, looking every `look_seconds`; trouble is logged and waited out."""
        failures = 0
        while not stop.is_set():
            try:
                published = self.once()
            except (PublishFailed, Misconfigured) as error:
                failures += 1
                log.warning("the outbox waits: %s", error)
            except Exception as error:  # the service's own database: whatever its driver raises
                failures += 1
                # Its text is left out, because it may quote what was written.
                log.warning("the outbox cannot be read: %s", type(error).__name__)
            else:
                failures = 0
                if published:
                    continue
            stop.wait(_pause_seconds(failures) if failures else look_seconds)

    def close(self) -> None:
        """Close the connections to Redis. The engine belongs to the service."""
        self._streams.close()

    def _oldest(self, limit: int, without: Iterable[str]) -> Sequence[Row[Any]]:
        table = self._table
        oldest = select(table).where(table.c.stream.not_in(list(without))).order_by(table.c.id).limit(limit)
        with self._engine.connect() as connection:
            return connection.execute(oldest).all()

    def _delete(self, ids: Iterable[int]) -> None:
        with self._engine.begin() as connection:
            connection.execute(delete(self._table).where(self._table.c.id.in_(list(ids))))


def _pause_seconds(failures: int) -> float:
    """Doubling from a twentieth of a second, at most half a minute."""
    return float(min(FIRST_PAUSE_SECONDS * 2 ** min(failures, 20), LONGEST_PAUSE_SECONDS))
