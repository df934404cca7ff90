"""A store without a database: for tests, and for programs that need not remember beyond their own life."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from takeaways.recall.standing.request import Target
from takeaways.recall.standing.store import Answered, Author, Held, Key, Overtaken, PinKey, Revision


class MemoryStore:
    """Everything in this process. Safe between its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.notes: dict[Key, Held] = {}
        self.history: dict[Key, list[Revision]] = {}
        self.answers: dict[tuple[str, str], tuple[Key, Answered]] = {}
        self.failures: dict[tuple[str, str], int] = {}
        self.pins: dict[PinKey, str] = {}

    @contextmanager
    def begin(self, *, only_look: bool = False) -> Iterator[MemoryWork]:
        with self._lock:
            work = MemoryWork(self)
            yield work
            work.commit()

    def close(self) -> None:
        """Nothing to close."""


class MemoryWork:
    """One transaction: what it writes is applied at its end, under the store's lock."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._todo: list[Callable[[], Any]] = []

    def commit(self) -> None:
        for write in self._todo:
            write()

    def read(self, key: Key) -> Held:
        return self._store.notes.get(key, Held())

    def put(self, key: Key, expected: int, entries: Sequence[str], author: Author) -> None:
        if self.read(key).version != expected:
            raise Overtaken("the note was changed meanwhile")
        held = Held(expected + 1, tuple(entries))
        made = Revision(
            held.version,
            held.entries,
            author.made_by,
            author.agent_id,
            author.call_id,
            time.time_ns() // 1_000_000,
        )
        self._todo.append(lambda: self._store.notes.__setitem__(key, held))
        self._todo.append(lambda: self._store.history.setdefault(key, []).append(made))

    def revisions(self, key: Key) -> list[Revision]:
        return list(reversed(self._store.history.get(key, [])))

    def redact(self, key: Key, version: int) -> bool:
        history = self._store.history.get(key, [])
        place = next((place for place, made in enumerate(history) if made.version == version), None)
        if place is None or history[place].entries is None:
            return False
        redacted = replace(history[place], entries=None)

        def forget() -> None:
            history[place] = redacted
            # An answer quotes what a call replaced or removed, and conversations may still show it.
            self._forget_shown(key)

        self._todo.append(forget)
        return True

    def answered(self, agent_id: str, call_id: str) -> Answered | None:
        found = self._store.answers.get((agent_id, call_id))
        return found[1] if found else None

    def keep_answer(self, agent_id: str, call_id: str, key: Key, answered: Answered) -> None:
        self._todo.append(lambda: self._store.answers.__setitem__((agent_id, call_id), (key, answered)))

    def count_failure(self, agent_id: str, turn_id: str) -> int:
        failures = self._store.failures.get((agent_id, turn_id), 0) + 1
        self._todo.append(lambda: self._store.failures.__setitem__((agent_id, turn_id), failures))
        return failures

    def clear_failures(self, agent_id: str, turn_id: str) -> None:
        self._todo.append(lambda: self._store.failures.pop((agent_id, turn_id), None))

    def latest_compaction(self, agent_id: str, room_id: str, conversation_id: str) -> int:
        asked = (agent_id, room_id, conversation_id)
        return max(
            (
                pin.compaction
                for pin in self._store.pins
                if (pin.agent_id, pin.room_id, pin.conversation_id) == asked
            ),
            default=0,
        )

    def pinned(self, key: PinKey) -> str | None:
        return self._store.pins.get(key)

    def pin(self, key: PinKey, text: str, *, replace: bool) -> None:
        self._todo.append(lambda: self._store.pins.__setitem__(key, text))

    def erase(self, key: Key) -> None:
        def forget() -> None:
            self._store.notes.pop(key, None)
            self._store.history.pop(key, None)
            self._forget_shown(key)

        self._todo.append(forget)

    def _forget_shown(self, key: Key) -> None:
        for call in [call for call, (owner, _) in self._store.answers.items() if owner == key]:
            del self._store.answers[call]
        for pin in [pin for pin in self._store.pins if _shows(pin, key)]:
            del self._store.pins[pin]


def _shows(pin: PinKey, key: Key) -> bool:
    return (pin.agent_id if key.target is Target.MEMORY else pin.user_id) == key.owner_id
