"""Standing notes in SQLite or PostgreSQL, beside the memory.

The note's row is locked while a change is evaluated, and the update names the version that was read: two
writers take turns, and neither overwrites what it has not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, insert, null, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from takeaways.recall.note import latest_compaction
from takeaways.recall.standing.request import Target
from takeaways.recall.standing.store import (
    KEPT_MS,
    Answered,
    Author,
    Contended,
    CorruptStore,
    Held,
    Key,
    Overtaken,
    PinKey,
    Revision,
)
from takeaways.recall.store import answered_or_unavailable
from takeaways.schemas.database import Database, is_retryable, now_ms
from takeaways.schemas.tables import (
    standing_note_calls,
    standing_note_pins,
    standing_note_revisions,
    standing_note_turns,
    standing_notes,
)

LOCK_SECONDS: Final = 2.0
_LOCKED: Final = "55P03"


class DatabaseStore:
    """The tables that begin with `standing_note`. `owns` closes the database with the store."""

    def __init__(self, database: Database, *, owns: bool = False) -> None:
        self._database = database
        self._owns = owns

    @contextmanager
    def begin(self, *, only_look: bool = False) -> Iterator[DatabaseWork]:
        with answered_or_unavailable():
            try:
                if only_look:
                    with self._database.read() as connection:
                        yield DatabaseWork(connection)
                    return
                with self._database.write(lock_timeout_ms=int(LOCK_SECONDS * 1000)) as connection:
                    yield DatabaseWork(connection)
            except DBAPIError as error:
                if getattr(error.orig, "sqlstate", None) == _LOCKED:
                    raise Contended("another writer keeps the note locked") from error
                if is_retryable(error):
                    raise Overtaken("another writer was first") from error
                raise

    def close(self) -> None:
        if self._owns:
            self._database.dispose()


class DatabaseWork:
    """One transaction."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def read(self, key: Key) -> Held:
        wanted = select(standing_notes.c.version, standing_notes.c.entries).where(_of(standing_notes, key))
        try:
            row = self._connection.execute(wanted.with_for_update()).one_or_none()
        except ValueError:
            raise _corrupt(key) from None
        return Held() if row is None else Held(row.version, _entries(row.entries, key))

    def put(self, key: Key, expected: int, entries: Sequence[str], author: Author) -> None:
        at_ms = now_ms(self._connection)
        values = {"version": expected + 1, "entries": list(entries), "updated_ms": at_ms}
        if expected == 0:
            written = _insert_or_leave(
                self._connection, standing_notes, target=key.target.value, owner_id=key.owner_id, **values
            )
        else:
            written = self._connection.execute(
                update(standing_notes)
                .where(_of(standing_notes, key), standing_notes.c.version == expected)
                .values(values)
            ).rowcount
        if written != 1:
            raise Overtaken("the note was changed meanwhile")
        self._connection.execute(
            insert(standing_note_revisions).values(
                target=key.target.value,
                owner_id=key.owner_id,
                version=expected + 1,
                entries=list(entries),
                made_by=author.made_by,
                agent_id=author.agent_id,
                call_id=author.call_id,
                made_at_ms=at_ms,
            )
        )

    def revisions(self, key: Key) -> list[Revision]:
        table = standing_note_revisions
        rows = self._connection.execute(select(table).where(_of(table, key)).order_by(table.c.version.desc()))
        return [
            Revision(
                row.version,
                None if row.entries is None else _entries(row.entries, key),
                row.made_by,
                row.agent_id,
                row.call_id,
                row.made_at_ms,
            )
            for row in rows
        ]

    def redact(self, key: Key, version: int) -> bool:
        table = standing_note_revisions
        done = self._connection.execute(
            update(table)
            .where(_of(table, key), table.c.version == version, table.c.redacted_ms.is_(None))
            .values(entries=null(), redacted_ms=now_ms(self._connection))
        )
        # An answer quotes what a call replaced or removed, and conversations may still show it.
        self._connection.execute(delete(standing_note_calls).where(_of(standing_note_calls, key)))
        shows = standing_note_pins.c.agent_id if key.target is Target.MEMORY else standing_note_pins.c.user_id
        self._connection.execute(delete(standing_note_pins).where(shows == key.owner_id))
        return done.rowcount == 1

    def answered(self, agent_id: str, call_id: str) -> Answered | None:
        table = standing_note_calls
        row = self._connection.execute(
            select(table.c.request_hash, table.c.answer).where(
                table.c.agent_id == agent_id, table.c.call_id == call_id
            )
        ).one_or_none()
        return None if row is None else Answered(row.request_hash, row.answer)

    def keep_answer(self, agent_id: str, call_id: str, key: Key, answered: Answered) -> None:
        table = standing_note_calls
        at_ms = now_ms(self._connection)
        self._connection.execute(
            delete(table).where(table.c.agent_id == agent_id, table.c.at_ms < at_ms - KEPT_MS)
        )
        kept = _insert_or_leave(
            self._connection,
            table,
            agent_id=agent_id,
            call_id=call_id,
            target=key.target.value,
            owner_id=key.owner_id,
            request_hash=answered.request_hash,
            answer=answered.answer,
            at_ms=at_ms,
        )
        if kept != 1:
            raise Overtaken("the same call was answered meanwhile")

    def count_failure(self, agent_id: str, turn_id: str) -> int:
        table = standing_note_turns
        at_ms = now_ms(self._connection)
        self._connection.execute(
            delete(table).where(table.c.agent_id == agent_id, table.c.at_ms < at_ms - KEPT_MS)
        )
        values = {"agent_id": agent_id, "turn_id": turn_id, "failures": 1, "at_ms": at_ms}
        changes = {"failures": table.c.failures + 1, "at_ms": at_ms}
        keys = ["agent_id", "turn_id"]
        statement: Any = (
            sqlite.insert(table).values(values).on_conflict_do_update(index_elements=keys, set_=changes)
            if self._connection.dialect.name == "sqlite"
            else postgresql.insert(table)
            .values(values)
            .on_conflict_do_update(index_elements=keys, set_=changes)
        )
        return int(self._connection.execute(statement.returning(table.c.failures)).scalar_one())

    def clear_failures(self, agent_id: str, turn_id: str) -> None:
        table = standing_note_turns
        self._connection.execute(
            delete(table).where(table.c.agent_id == agent_id, table.c.turn_id == turn_id)
        )

    def latest_compaction(self, agent_id: str, room_id: str, conversation_id: str) -> int:
        table = standing_note_pins
        asked_for = self._connection.execute(
            select(func.max(table.c.compaction)).where(
                table.c.agent_id == agent_id,
                table.c.room_id == room_id,
                table.c.conversation_id == conversation_id,
            )
        ).scalar()
        return max(asked_for or 0, latest_compaction(self._connection, agent_id, room_id, conversation_id))

    def pinned(self, key: PinKey) -> str | None:
        text: str | None = self._connection.execute(
            select(standing_note_pins.c.text).where(_at(key))
        ).scalar_one_or_none()
        return text

    def pin(self, key: PinKey, text: str, *, replace: bool) -> None:
        if replace:
            self._connection.execute(delete(standing_note_pins).where(_at(key)))
        written = _insert_or_leave(
            self._connection,
            standing_note_pins,
            agent_id=key.agent_id,
            room_id=key.room_id,
            conversation_id=key.conversation_id,
            compaction=key.compaction,
            user_id=key.user_id,
            text=text,
            pinned_at_ms=now_ms(self._connection),
        )
        if written != 1:
            raise Overtaken("the conversation was pinned meanwhile")

    def erase(self, key: Key) -> None:
        if key.target is Target.MEMORY:
            forget_agent(self._connection, key.owner_id)
        else:
            forget_user(self._connection, key.owner_id)


def forget_agent(connection: Connection, agent_id: str) -> None:
    """The agent's note goes, with its history, its answers, and what its conversations show."""
    _forget(connection, Key(Target.MEMORY, agent_id))
    for table in (standing_note_calls, standing_note_turns, standing_note_pins):
        connection.execute(delete(table).where(table.c.agent_id == agent_id))


def forget_user(connection: Connection, user_id: str) -> None:
    """The person's note goes, for all agents that shared it, with its history and what shows it."""
    _forget(connection, Key(Target.USER, user_id))
    connection.execute(delete(standing_note_calls).where(_of(standing_note_calls, Key(Target.USER, user_id))))
    connection.execute(delete(standing_note_pins).where(standing_note_pins.c.user_id == user_id))


def _forget(connection: Connection, key: Key) -> None:
    # The note first: whoever is about to pin it holds its row, and has then pinned it before the pins go.
    for table in (standing_notes, standing_note_revisions):
        connection.execute(delete(table).where(_of(table, key)))


def _of(table: Table, key: Key) -> ColumnElement[bool]:
    return and_(table.c.target == key.target.value, table.c.owner_id == key.owner_id)


def _at(key: PinKey) -> ColumnElement[bool]:
    table = standing_note_pins
    return and_(
        table.c.agent_id == key.agent_id,
        table.c.room_id == key.room_id,
        table.c.conversation_id == key.conversation_id,
        table.c.compaction == key.compaction,
        table.c.user_id == key.user_id,
    )


def _entries(stored: object, key: Key) -> tuple[str, ...]:
    if not isinstance(stored, list) or not all(isinstance(line, str) for line in stored):
        raise _corrupt(key)
    return tuple(
        line for line in stored if line.strip()
    )  # an empty one shows nothing, and nothing can name it


def _corrupt(key: Key) -> CorruptStore:
    return CorruptStore(
        f"the row of standing_notes ({key.target}, {key.owner_id!r}) cannot be read as a list of lines; "
        "`takeaways notes history` and `undo` bring an earlier version back"
    )


def _insert_or_leave(connection: Connection, table: Table, **values: object) -> int:
    """Insert a row where there is none of its key; how many were inserted."""
    insert_into = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = insert_into(table).values(**values).on_conflict_do_nothing()
    return len(connection.execute(statement.returning(*table.primary_key)).all())
