"""What standing notes need of a store. One `Work` is one transaction: all of it is kept, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from takeaways.recall.standing.request import Target
from takeaways.schemas.errors import Transient

KEPT_MS: Final = 7 * 24 * 3600 * 1000
"""How long answers and counts of failures are kept: longer than anybody repeats a call."""


class Overtaken(Transient):
    """Another writer was first: evaluate again on what it left."""


class Contended(Transient):
    """The note is locked by somebody who does not let go."""


class CorruptStore(Transient):
    """What is stored cannot be read as a note; it is never taken for an empty one."""


@dataclass(frozen=True, slots=True)
class Key:
    """Whose note: the agent's `memory`, or the person's `user`."""

    target: Target
    owner_id: str


@dataclass(frozen=True, slots=True)
class Held:
    """A note as it is stored. Version 0 has never been written."""

    version: int = 0
    entries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Author:
    """By whom a revision was made: `tool`, `undo`, `import` or `person`; of which agent, in which call."""

    made_by: str
    agent_id: str | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Revision:
    """One version of a note. `entries` is None once redacted."""

    version: int
    entries: tuple[str, ...] | None
    made_by: str
    agent_id: str | None
    call_id: str | None
    made_at_ms: int


@dataclass(frozen=True, slots=True)
class Answered:
    """What a tool call was answered, and the hash of what it asked."""

    request_hash: str
    answer: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PinKey:
    """The conversation that shows the notes, and the person that it names; `user_id` "" names nobody."""

    agent_id: str
    room_id: str
    conversation_id: str
    compaction: int
    user_id: str


class Work(Protocol):
    """One transaction on the store."""

    def read(self, key: Key) -> Held:
        """The note, locked against other writers until the end. Raises `CorruptStore`."""

    def put(self, key: Key, expected: int, entries: Sequence[str], author: Author) -> None:
        """Store version `expected` + 1 and its revision. Raises `Overtaken` where the note is not at `expected`."""

    def revisions(self, key: Key) -> list[Revision]:
        """All revisions, newest first."""

    def redact(self, key: Key, version: int) -> bool:
        """Forget the text of a revision, with answers and conversations that may quote it; whether it had one."""

    def answered(self, agent_id: str, call_id: str) -> Answered | None: ...

    def keep_answer(self, agent_id: str, call_id: str, key: Key, answered: Answered) -> None:
        """Keep an answer for a repeat. Raises `Overtaken` where the same call was answered meanwhile."""

    def count_failure(self, agent_id: str, turn_id: str) -> int:
        """Count a failure of a turn; how many there are now."""

    def clear_failures(self, agent_id: str, turn_id: str) -> None: ...

    def latest_compaction(self, agent_id: str, room_id: str, conversation_id: str) -> int:
        """The highest compaction number of a conversation that is known; 0 where none is."""

    def pinned(self, key: PinKey) -> str | None: ...

    def pin(self, key: PinKey, text: str, *, replace: bool) -> None:
        """Pin what a conversation shows. Raises `Overtaken` where it was pinned meanwhile and is not replaced."""

    def erase(self, key: Key) -> None:
        """Forget a note with its revisions and answers, and what shows it."""


class Store(Protocol):
    def begin(self, *, only_look: bool = False) -> AbstractContextManager[Work]:
        """A transaction: kept at the end, undone on an error. One that only looks holds up no writer."""

    def close(self) -> None: ...
