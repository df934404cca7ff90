"""Dead letters: entries of a stream that cannot be taken in, kept whole with the reason.

They are written in the transaction that takes in the rest of the batch, so one bad entry stops nothing and
none is lost. What was wrong may be put right elsewhere (a newer worker knows the type): `retry` publishes the
same bytes again under the same event id, on the stream that they belong to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis import Redis
from sqlalchemy import Connection, func, select, update

from takeaways.schemas.database import Database
from takeaways.schemas.errors import BadInput, DeadLetterReason, NotFound, UnreadableMessage
from takeaways.schemas.events import decode
from takeaways.schemas.ids import derived
from takeaways.schemas.queues import FIELD
from takeaways.schemas.secrets import mask
from takeaways.schemas.tables import dead_letters
from takeaways.workers import rows

OPEN: Final = "open"
RETRIED: Final = "retried"
DISCARDED: Final = "discarded"
MAX_DETAIL: Final = 2_000
_WHOLE: Final = "fields of the entry"

_COLUMNS: Final = (
    "dead_letter_id",
    "stream",
    "entry_id",
    "reason",
    "detail",
    "raw",
    "source",
    "event_id",
    "agent_id",
    "at_ms",
)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One entry that was set aside. `raw` is what stood in its field, byte for byte.

    Of an entry that has not the one field it is `whole` of its fields.
    """

    stream: str
    entry_id: str
    reason: DeadLetterReason
    detail: str
    raw: bytes
    source: str | None = None
    event_id: str | None = None
    agent_id: str | None = None
    at_ms: int = 0
    state: str = OPEN

    @property
    def id(self) -> str:
        return derived("d", self.stream, self.entry_id)


@dataclass(frozen=True, slots=True)
class Listed:
    """A dead letter in a list: all but its bytes, which `show` gives."""

    id: str
    stream: str
    entry_id: str
    reason: str
    detail: str
    size_bytes: int
    source: str | None
    event_id: str | None
    agent_id: str | None
    at_ms: int
    state: str


def whole(fields: Mapping[bytes, bytes]) -> bytes:
    """All fields of a misshapen entry in one text, so that nothing of it is lost."""
    pairs = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in fields.items()]
    return json.dumps({_WHOLE: pairs}).encode("ascii")


def put(connection: Connection, letters: Sequence[DeadLetter], *, at_ms: int) -> None:
    """Store dead letters in the caller's transaction. One that is there already stays as it is."""
    values = [
        (
            letter.id,
            letter.stream,
            letter.entry_id,
            letter.reason.value,
            mask(letter.detail)[:MAX_DETAIL],
            letter.raw,
            letter.source,
            letter.event_id,
            letter.agent_id,
            at_ms,
        )
        for letter in letters
    ]
    # In the order of the key, so that two intakes with the same entries never wait for each other in a ring.
    rows.insert(connection, dead_letters, _COLUMNS, sorted(values, key=lambda row: row[0]))


def list_open(
    database: Database, *, limit: int | None = 100, reason: DeadLetterReason | None = None
) -> list[Listed]:
    """The open dead letters, oldest first; at most `limit`, or all."""
    columns = [dead_letters.c[name] for name in ("stream", "entry_id", "reason", "detail")]
    columns += [dead_letters.c[name] for name in ("source", "event_id", "agent_id", "at_ms", "state")]
    statement = (
        select(
            dead_letters.c.dead_letter_id.label("id"),
            func.length(dead_letters.c.raw).label("size_bytes"),
            *columns,
        )
        .where(dead_letters.c.state == OPEN)
        .order_by(dead_letters.c.at_ms, dead_letters.c.stream, dead_letters.c.entry_id)
        .limit(limit)
    )
    if reason is not None:
        statement = statement.where(dead_letters.c.reason == reason.value)
    with database.read() as connection:
        return [Listed(**row) for row in connection.execute(statement).mappings()]


def show(database: Database, dead_letter_id: str) -> DeadLetter:
    """One dead letter with its bytes. Raises `BadInput` where there is none of this id."""
    with database.read() as connection:
        return _load(connection, dead_letter_id)


def retry(database: Database, redis: Redis, dead_letter_id: str) -> str:
    """Publish the bytes again to their stream; returns the new entry's id. Raises `BadInput` unless open.

    The event's own id is in the bytes, so publishing twice, should this fail in between, changes nothing. What
    came on the wrong stream goes to the right one.
    """
    letter = show(database, dead_letter_id)
    if letter.state != OPEN:
        raise BadInput(f"dead letter {dead_letter_id} was {letter.state} before")
    entry_id: Any = redis.xadd(_destination(letter), _fields(letter))
    _settle(database, dead_letter_id, RETRIED)
    return entry_id.decode() if isinstance(entry_id, bytes) else str(entry_id)


def discard(database: Database, dead_letter_id: str) -> None:
    """Settle a dead letter without publishing it. Raises `BadInput` unless it is open."""
    letter = show(database, dead_letter_id)
    if letter.state != OPEN:
        raise BadInput(f"dead letter {dead_letter_id} was {letter.state} before")
    _settle(database, dead_letter_id, DISCARDED)


def counts(database: Database) -> dict[DeadLetterReason, int]:
    """How many are open, by reason."""
    with database.read() as connection:
        return counted(connection)


def counted(connection: Connection) -> dict[DeadLetterReason, int]:
    """`counts` within the caller's transaction."""
    statement = (
        select(dead_letters.c.reason, func.count())
        .where(dead_letters.c.state == OPEN)
        .group_by(dead_letters.c.reason)
        .order_by(dead_letters.c.reason)
    )
    return {DeadLetterReason(reason): number for reason, number in connection.execute(statement)}


def _destination(letter: DeadLetter) -> str:
    if letter.reason is not DeadLetterReason.WRONG_STREAM:
        return letter.stream
    try:
        return decode(letter.raw).data.STREAM
    except UnreadableMessage:
        return letter.stream


def _fields(letter: DeadLetter) -> dict[Any, Any]:
    """The fields of the entry as it was."""
    if letter.reason is DeadLetterReason.NOT_AN_EVENT and letter.raw.startswith(b'{"%s"' % _WHOLE.encode()):
        pairs: list[list[str]] = json.loads(letter.raw)[_WHOLE]
        return {name.encode("latin-1"): value.encode("latin-1") for name, value in pairs}
    return {FIELD: letter.raw}


def _load(connection: Connection, dead_letter_id: str) -> DeadLetter:
    found = select(dead_letters).where(dead_letters.c.dead_letter_id == dead_letter_id)
    row = connection.execute(found).mappings().one_or_none()
    if row is None:
        raise NotFound(f"no dead letter {dead_letter_id[:80]!r}; `takeaways dead-letters list` shows them")
    return DeadLetter(
        stream=row["stream"],
        entry_id=row["entry_id"],
        reason=DeadLetterReason(row["reason"]),
        detail=row["detail"],
        raw=bytes(row["raw"]),
        source=row["source"],
        event_id=row["event_id"],
        agent_id=row["agent_id"],
        at_ms=row["at_ms"],
        state=row["state"],
    )


def _settle(database: Database, dead_letter_id: str, state: str) -> None:
    with database.write() as connection:
        connection.execute(
            update(dead_letters)
            .where(dead_letters.c.dead_letter_id == dead_letter_id, dead_letters.c.state == OPEN)
            .values(state=state)
        )
