"""The note that begins a conversation, and keeping it the same for as long as the conversation lasts.

The first question for (agent, room, conversation, compaction) composes the note from the current
memory and pins its bytes; every later one reads them back, from any process. That an agent had no
memory is pinned too: a conversation that began without a note goes on without one. After a
compaction the number is another, and so may the note be.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Final

from sqlalchemy import Connection, Table, func, select
from sqlalchemy.dialects import postgresql, sqlite

from takeaways.recall.deadline import Deadline
from takeaways.recall.reading import read_memory, search_memory, tools
from takeaways.recall.store import Revision, answered_or_unavailable, load_memory, snapshot
from takeaways.recall.tokens import Count, count
from takeaways.recall.tools import Tool
from takeaways.recall.wrapper import NOTE_BUDGET_TOKENS, Reach, note_text
from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.errors import BadInput, StoreUnavailable
from takeaways.schemas.ids import why_bad
from takeaways.schemas.tables import agents, note_texts, notes, rooms

TIMEOUT_SECONDS: Final = 2.0
_MAX_COMPACTION: Final = 2**53 - 1
_ROUNDS: Final = 20
_log = logging.getLogger(__name__)


class NoteStatus(StrEnum):
    """How asking for a note ended. `no_memory_yet` is also said where nothing is left of a memory."""

    GIVEN = "given"
    NO_MEMORY_YET = "no_memory_yet"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Note:
    """A note, or why there is none. `revision` is the memory it shows; `detail` is for people.

    It belongs at the head of the first user message. In the system prompt every new revision of the
    memory would break the prompt cache of every conversation.
    """

    text: str | None
    status: NoteStatus
    revision: int
    compaction: int = 0
    detail: str = ""

    def for_anthropic(self) -> list[dict[str, str]]:
        """Content blocks to put before the others in the first user message: one, or none without a note."""
        return [{"type": "text", "text": self.text}] if self.text is not None else []

    def for_openai(self) -> list[dict[str, str]]:
        """Content parts to put before the others in the first user message: one, or none without a note."""
        return self.for_anthropic()


@dataclass(frozen=True, slots=True)
class _Key:
    agent_id: str
    room_id: str
    conversation_id: str
    compaction: int


@dataclass(frozen=True, slots=True)
class _Version:
    """What an erasure or a consolidation changes: a note composed from another version is not pinned."""

    generation: int
    revision: int


class Recall:
    """Gives notes. Make one per process and share it between threads; leaving its context closes it.

    `database` is a URL or an open `Database`: the primary, because a replica does not know the pins of
    a moment ago. A question takes at most about `timeout_seconds`; after that there is no note. `reach` is how the
    agent can read more than the note, which says so: in its workspace, or with the tools that `tools` gives.
    """

    def __init__(
        self,
        database: Database | str,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        budget_tokens: int = NOTE_BUDGET_TOKENS,
        count: Count = count,
        reach: Reach = Reach.FOLDER,
    ) -> None:
        self._owns_database = isinstance(database, str)
        self._database = (
            Database.open(database, statement_timeout_seconds=timeout_seconds, make_file=False)
            if isinstance(database, str)
            else database
        )
        self._deadline = Deadline(timeout_seconds)
        self._budget_tokens = budget_tokens
        self._count = count
        self._reach = reach

    def note(self, agent_id: str, room_id: str, conversation_id: str, compaction: int | None = None) -> Note:
        """The note of a conversation: the same bytes for its life, after a compaction perhaps others.

        `compaction` is how often the platform has compacted the conversation. Without it the highest
        number stands that was taken in or asked for. Raises `BadInput` for ids that no rule admits.
        When the database does not answer in time the status is `unavailable` and nothing is pinned.
        """
        _check(agent_id, room_id, conversation_id, compaction)
        try:
            return self._deadline.within(lambda: self._pinned(agent_id, room_id, conversation_id, compaction))
        except StoreUnavailable as error:
            _log.warning("no note for agent %r: %s", agent_id, error)
            return Note(None, NoteStatus.UNAVAILABLE, 0, compaction or 0, str(error))

    def is_ours(self, agent_id: str, text: str) -> bool:
        """Whether `text` is a note that this agent was given, byte for byte; a forged one is not.

        Raises `StoreUnavailable` when the database does not answer in time.
        """
        text_hash = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

        def known() -> bool:
            with snapshot(self._database) as connection:
                query = select(note_texts.c.text_hash).where(
                    note_texts.c.agent_id == agent_id, note_texts.c.text_hash == text_hash
                )
                return connection.execute(query).first() is not None

        return self._deadline.within(known)

    def read_memory(
        self, agent_id: str, *, topic: str | None = None, room: str | None = None, page: int = 1
    ) -> dict[str, Any]:
        """What the tool `read_memory` answers: `ok`, and a page of `text` or an `error`."""
        return self._answered(
            agent_id,
            lambda: read_memory(
                self._database, agent_id, topic=topic, room=room, page=page, count=self._count
            ),
        )

    def search_memory(self, agent_id: str, query: str, *, limit: int = 10) -> dict[str, Any]:
        """What the tool `search_memory` answers: `ok`, and `hits`, the best first."""
        return self._answered(agent_id, lambda: search_memory(self._database, agent_id, query, limit=limit))

    def tools(self, agent_id: str) -> list[Tool]:
        """The tools `read_memory` and `search_memory`, for a `Toolbox`."""
        return tools(
            lambda topic, room, page: self.read_memory(agent_id, topic=topic, room=room, page=page),
            lambda query, limit: self.search_memory(agent_id, query, limit=limit),
        )

    def close(self) -> None:
        if self._owns_database:
            self._database.dispose()

    def __enter__(self) -> Recall:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answered(self, agent_id: str, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        if problem := why_bad(agent_id):
            raise BadInput(f"agent_id: {problem}")
        try:
            return self._deadline.within(ask)
        except StoreUnavailable as error:
            _log.warning("the memory of agent %r cannot be read: %s", agent_id, error)
            return {"ok": False, "error": "The memory cannot be reached now. Go on without it."}

    def _pinned(self, agent_id: str, room_id: str, conversation_id: str, compaction: int | None) -> Note:
        for _ in range(_ROUNDS):
            with snapshot(self._database) as connection:
                if compaction is None:
                    compaction = latest_compaction(connection, agent_id, room_id, conversation_id)
                key = _Key(agent_id, room_id, conversation_id, compaction)
                if (note := _read(connection, key)) is not None:
                    return note
                version = _version(connection, agent_id)
                revision = load_memory(connection, agent_id)
            text = self._compose(agent_id, revision)
            if (note := self._pin(key, version, revision.number, text)) is not None:
                return note
        raise StoreUnavailable(
            f"the memory of agent {agent_id!r} changed {_ROUNDS} times while its note was composed"
        )

    def _compose(self, agent_id: str, revision: Revision) -> str | None:
        if not revision.memory.sections:  # not born yet, or all that was known has been erased
            return None
        return note_text(
            agent_id, revision, budget_tokens=self._budget_tokens, count=self._count, reach=self._reach
        )

    def _pin(self, key: _Key, version: _Version | None, revision: int, text: str | None) -> Note | None:
        """Pin `text`, or read what another process pinned first. None when the memory has changed meanwhile.

        The agent's row is locked against erasure until the pin is in, so that an erasure finds it.
        """
        milliseconds = int(self._deadline.seconds * 1000)
        with answered_or_unavailable(), self._database.write(lock_timeout_ms=milliseconds) as connection:
            if _version(connection, key.agent_id, lock=True) != version:
                return None
            text_hash = None
            if text is not None:
                text_hash = hashlib.sha256(text.encode()).hexdigest()
                _insert_or_leave(
                    connection, note_texts, agent_id=key.agent_id, text_hash=text_hash, text=text
                )
            _insert_or_leave(
                connection,
                notes,
                agent_id=key.agent_id,
                room_id=key.room_id,
                conversation_id=key.conversation_id,
                compaction=key.compaction,
                text_hash=text_hash,
                revision=revision,
                pinned_at_ms=now_ms(connection),
            )
            return _read(connection, key)


def _check(agent_id: object, room_id: object, conversation_id: object, compaction: object) -> None:
    for name, value in (("agent_id", agent_id), ("room_id", room_id), ("conversation_id", conversation_id)):
        if problem := why_bad(value):
            raise BadInput(f"{name}: {problem}")
    if compaction is not None and (
        not isinstance(compaction, int)
        or isinstance(compaction, bool)
        or not 0 <= compaction <= _MAX_COMPACTION
    ):
        raise BadInput("compaction: a whole number, 0 before the conversation was first compacted")


def latest_compaction(connection: Connection, agent_id: str, room_id: str, conversation_id: str) -> int:
    """The higher of what the room's events said and what was asked for before: the number never goes back."""
    taken_in = select(rooms.c.compaction).where(
        rooms.c.agent_id == agent_id, rooms.c.room_id == room_id, rooms.c.conversation_id == conversation_id
    )
    asked_for = select(func.max(notes.c.compaction)).where(
        notes.c.agent_id == agent_id, notes.c.room_id == room_id, notes.c.conversation_id == conversation_id
    )
    return max(connection.execute(query).scalar() or 0 for query in (taken_in, asked_for))


def _version(connection: Connection, agent_id: str, *, lock: bool = False) -> _Version | None:
    """The version of an agent's memory; None where nobody has heard of the agent."""
    query = select(agents.c.generation, agents.c.revision).where(agents.c.agent_id == agent_id)
    row = connection.execute(query.with_for_update(read=True) if lock else query).one_or_none()
    return None if row is None else _Version(row.generation, row.revision)


def _read(connection: Connection, key: _Key) -> Note | None:
    row = connection.execute(
        select(notes.c.text_hash, notes.c.revision, note_texts.c.text)
        .outerjoin_from(
            notes,
            note_texts,
            (note_texts.c.agent_id == notes.c.agent_id) & (note_texts.c.text_hash == notes.c.text_hash),
        )
        .where(
            notes.c.agent_id == key.agent_id,
            notes.c.room_id == key.room_id,
            notes.c.conversation_id == key.conversation_id,
            notes.c.compaction == key.compaction,
        )
    ).one_or_none()
    if row is None:
        return None
    if row.text_hash is None:
        return Note(None, NoteStatus.NO_MEMORY_YET, row.revision, key.compaction)
    if row.text is None:
        raise StoreUnavailable(f"the text of a note pinned for agent {key.agent_id!r} is not in the database")
    return Note(row.text, NoteStatus.GIVEN, row.revision, key.compaction)


def _insert_or_leave(connection: Connection, table: Table, **values: object) -> None:
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    connection.execute(insert(table).values(**values).on_conflict_do_nothing())
