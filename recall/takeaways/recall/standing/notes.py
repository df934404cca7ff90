"""Standing notes: two tiny texts that an agent keeps itself, and that are always in its prompt.

They replace neither the memory nor the conversation. A call of the tool ends with one answer, whatever
happens; nothing is raised for what a model passes in.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, TypeVar

from takeaways.recall.deadline import Deadline
from takeaways.recall.standing import answers, exchange, tool
from takeaways.recall.standing.calls import Asked, Calls
from takeaways.recall.standing.caps import MEMORY_CHARS, USER_CHARS, CapFor, Caps, cap
from takeaways.recall.standing.codes import Code, Refused
from takeaways.recall.standing.guard import Scan, check, shown
from takeaways.recall.standing.in_database import DatabaseStore
from takeaways.recall.standing.in_memory import MemoryStore
from takeaways.recall.standing.render import block, usage
from takeaways.recall.standing.request import Target, target_of
from takeaways.recall.standing.store import (
    Author,
    Contended,
    CorruptStore,
    Key,
    Overtaken,
    PinKey,
    Revision,
    Store,
    Work,
)
from takeaways.recall.standing.text import size
from takeaways.recall.tools import Call, Tool
from takeaways.schemas.database import Database
from takeaways.schemas.errors import BadInput, NotFound, StoreUnavailable
from takeaways.schemas.ids import why_bad

TIMEOUT_SECONDS: Final = 10.0
SNAPSHOT_SECONDS: Final = 2.0
_ROUNDS: Final = 20
_log = logging.getLogger(__name__)
T = TypeVar("T")


class SnapshotStatus(StrEnum):
    """How asking for the notes of a conversation ended."""

    SHOWN = "shown"
    EMPTY = "empty"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The standing notes as a conversation shows them, or why it shows none. `detail` is for people.

    They belong beside the recall note, at the head of the first user message.
    """

    text: str | None
    status: SnapshotStatus
    compaction: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """A note as a person sees it: every entry as it is stored, the blocked ones too."""

    target: Target
    owner_id: str
    version: int
    entries: tuple[str, ...]
    shown: tuple[str, ...]
    usage: str
    over_by: int


class StandingNotes:
    """The notes of all agents and persons in one store. Each of the two is off until switched on.

    `store` is a database URL, an open `Database`, or a `MemoryStore()`. Caps are characters; `cap_for` gives
    single agents or persons another one, 0 for none. `heard` is told every answer of the tool. Raises
    `Misconfigured` for caps that are none. Share one between the threads of a process; leaving its context
    closes it.
    """

    def __init__(
        self,
        store: Store | Database | str,
        *,
        memory: bool = False,
        user: bool = False,
        memory_chars: int | str = MEMORY_CHARS,
        user_chars: int | str = USER_CHARS,
        cap_for: CapFor | None = None,
        scan: Scan = check,
        heard: Callable[[dict[str, Any]], None] = lambda answer: None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        snapshot_seconds: float = SNAPSHOT_SECONDS,
    ) -> None:
        sizes = Caps(cap(memory_chars, "memory_chars"), cap(user_chars, "user_chars"))
        self.caps = Caps(sizes.memory if memory else 0, sizes.user if user else 0)
        self._sizes = sizes
        self._cap_for = cap_for
        self._scan = scan
        self._heard = heard
        self._calls = Calls(self.caps, self._limit, scan)
        self._store = _opened(store)
        self._changes = Deadline(timeout_seconds)
        self._snapshots = Deadline(snapshot_seconds)

    def call(
        self,
        arguments: object,
        *,
        agent_id: str,
        user_id: str | None = None,
        call_id: str | None = None,
        turn_id: str | None = None,
        expected_version: int | None = None,
    ) -> dict[str, Any]:
        """Answer one call of the tool `memory`: a JSON object with `ok`, `code` and what else helps.

        `call_id` makes a repeat of the call change nothing and get the same answer. `turn_id` counts refusals:
        after three in a turn the answer says to stop. `expected_version` refuses a change to a note that has
        moved on. When the store does not answer in time the answer is `unavailable`, and the change may still
        arrive: repeat it with the same `call_id`. Raises `BadInput` for ids that no rule admits, and nothing for
        what a model wrote.
        """
        _check_ids(agent_id=agent_id, user_id=user_id, call_id=call_id, turn_id=turn_id)
        answer = self._answered(Asked(arguments, agent_id, user_id, call_id, turn_id, expected_version))
        self._heard(answer)
        return answer

    def tools(self, agent_id: str, *, user_id: str | None = None) -> list[Tool]:
        """The tool `memory` for a `Toolbox`; none while both notes are off. `user_id` is who the agent talks to."""
        targets = [target for target in self.caps.on if target is Target.MEMORY or user_id is not None]
        if not targets:
            return []

        def answer(call: Call) -> dict[str, Any]:
            return self.call(
                call.arguments,
                agent_id=agent_id,
                user_id=user_id,
                call_id=call.call_id,
                turn_id=call.turn_id,
            )

        on = Caps(*(self.caps[target] if target in targets else 0 for target in Target))
        return [Tool(tool.NAME, tool.description(on), tool.parameters(targets), answer)]

    def snapshot(
        self,
        agent_id: str,
        room_id: str,
        conversation_id: str,
        compaction: int | None = None,
        *,
        user_id: str | None = None,
        reload: bool = False,
    ) -> Snapshot:
        """The notes for the prompt of a conversation: the same bytes for its life, others after a compaction.

        A person's note is shown only where the call names that person: leave `user_id` out in rooms that
        several people read. `reload` takes the notes anew, at the price of the provider's prompt cache.
        When the store does not answer in time, the status is `unavailable` and nothing is pinned.
        """
        _check_ids(agent_id=agent_id, room_id=room_id, conversation_id=conversation_id, user_id=user_id)
        if compaction is not None and (type(compaction) is not int or not 0 <= compaction < 2**53):
            raise BadInput("compaction: a whole number, 0 before the conversation was first compacted")

        def key_in(work: Work) -> PinKey:
            number = (
                work.latest_compaction(agent_id, room_id, conversation_id)
                if compaction is None
                else compaction
            )
            return PinKey(agent_id, room_id, conversation_id, number, user_id or "")

        def look(work: Work) -> Snapshot | None:
            key = key_in(work)
            text = work.pinned(key)
            return None if text is None else _snapshot(text, key)

        def pin(work: Work) -> Snapshot:
            key = key_in(work)
            text = None if reload else work.pinned(key)
            if text is None:
                text = self._block(work, agent_id, user_id)
                work.pin(key, text, replace=reload)
            return _snapshot(text, key)

        def ask() -> Snapshot:
            if not reload:
                with self._store.begin(only_look=True) as work:
                    found = look(work)
                if found is not None:
                    return found
            return self._retried(pin)

        try:
            return self._snapshots.within(ask)
        except (StoreUnavailable, Overtaken, Contended, CorruptStore) as error:
            _log.warning("no standing notes for agent %r: %s", agent_id, error)
            return Snapshot(None, SnapshotStatus.UNAVAILABLE, compaction or 0, str(error))

    def view(self, target: Target, owner_id: str) -> View:
        """A note as it is stored. Raises `StoreUnavailable`."""
        key = _key(target, owner_id)
        held = self._ask(lambda work: work.read(key))
        limit = self._limit(key, of_all=True)
        return View(
            key.target,
            owner_id,
            held.version,
            held.entries,
            tuple(shown(held.entries, self._scan)),
            usage(held.entries, limit),
            max(0, size(held.entries) - limit),
        )

    def history(self, target: Target, owner_id: str) -> list[Revision]:
        """All revisions of a note, newest first."""
        key = _key(target, owner_id)
        return self._ask(lambda work: work.revisions(key))

    def undo(self, target: Target, owner_id: str, version: int) -> View:
        """Make the note again what it was in `version`, as a new revision, also where its row cannot be read any more.
        Cap and checks apply.

        Raises `NotFound` for a version that is not there or was redacted, `Refused` where a rule forbids it.
        """
        key = _key(target, owner_id)

        def go_back(work: Work) -> None:
            try:
                held = work.read(key)
            except CorruptStore:
                held = None
            entries = () if version == 0 else _revision(work, key, version)
            before = held.entries if held else ()
            exchange.admit(before, entries, self._limit(key, of_all=True), self._scan)
            if held is None:
                work.put(key, max(made.version for made in work.revisions(key)), entries, Author("undo"))
            elif entries != before:
                work.put(key, held.version, entries, Author("undo"))

        self._ask(go_back)
        return self.view(target, owner_id)

    def export(self, target: Target, owner_id: str) -> str:
        """The note as text, one `- ` line an entry; `import_` reads it back. Empty for a note without entries."""
        return exchange.exported(self.view(target, owner_id).entries)

    def import_(
        self, target: Target, owner_id: str, text: str | bytes, *, force: bool = False
    ) -> exchange.Imported:
        """Put the lines of a text in place of the note: all of them in one revision, or none.

        Blank lines and duplicates go. Lines that must not stand in a note are left out, and reported. Raises
        `BadInput` for bytes that are not UTF-8, and `Refused` for a text over the cap unless forced: then it is
        kept whole, and may only shrink.
        """
        key = _key(target, owner_id)
        limit = self._limit(key, of_all=True)

        def put(work: Work) -> exchange.Imported:
            held = work.read(key)
            imported = exchange.imported(text, cap=limit, scan=self._scan)
            if not force:
                exchange.admit(held.entries, imported.entries, limit, self._scan)
            if imported.entries != held.entries:
                work.put(key, held.version, imported.entries, Author("import"))
            return imported

        return self._ask(put)

    def redact(self, target: Target, owner_id: str, version: int) -> None:
        """Forget the text of an old revision; that there was one stays. Raises `BadInput` for the current one, and
        `NotFound` for one that is not there or was redacted.

        Conversations that may show it get the notes anew, at the price of the provider's prompt cache.
        """
        key = _key(target, owner_id)

        def forget(work: Work) -> None:
            if work.read(key).version == version:
                raise BadInput("this is the current revision: remove the text from the note first")
            if not work.redact(key, version):
                raise _no_text(key, version)

        self._ask(forget)

    def erase(self, target: Target, owner_id: str) -> None:
        """Forget a note with its history, its answers and what shows it. Nothing is left to undo."""
        key = _key(target, owner_id)
        self._ask(lambda work: work.erase(key))

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> StandingNotes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answered(self, asked: Asked) -> dict[str, Any]:
        try:
            target = target_of(asked.arguments)
        except Refused:
            target = Target.MEMORY
        try:
            return self._changes.within(lambda: self._retried(lambda work: self._calls.answer(work, asked)))
        except Overtaken as error:
            _log.warning("standing notes of agent %r: %s", asked.agent_id, error)
            why = Refused(
                Code.CONFLICT, "Others changed the notes at the same time. Nothing was saved; try again."
            )
        except Contended as error:
            _log.warning("standing notes of agent %r: %s", asked.agent_id, error)
            why = Refused(
                Code.CONFLICT, "The notes are locked by another writer. Nothing was saved; try again."
            )
        except CorruptStore as error:
            _log.error("standing notes of agent %r: %s", asked.agent_id, error)
            why = Refused(Code.CORRUPT_STORE, "The stored notes cannot be read. Nothing was saved.")
        except StoreUnavailable as error:
            _log.warning("standing notes of agent %r: %s", asked.agent_id, error)
            why = Refused(
                Code.UNAVAILABLE, "The notes cannot be reached now. Go on without; try again later."
            )
        return answers.refused(target, why, None, 0, self._scan)

    def _block(self, work: Work, agent_id: str, user_id: str | None) -> str:
        owners = {Target.MEMORY: agent_id, Target.USER: user_id}
        keys = [Key(target, owner) for target in self.caps.on if (owner := owners[target]) is not None]
        limits = [(key, self._limit(key)) for key in keys]
        return block(
            [(key.target, work.read(key).entries, limit) for key, limit in limits if limit], self._scan
        )

    def _limit(self, key: Key, *, of_all: bool = False) -> int:
        """The cap of a note; `of_all`: also of one that is switched off, which people may still look at."""
        own = self._cap_for(key.target, key.owner_id) if self._cap_for else None
        if own is not None:
            return cap(own, "cap_for")
        return (self._sizes if of_all else self.caps)[key.target]

    def _ask(self, ask: Callable[[Work], T]) -> T:
        try:
            return self._changes.within(lambda: self._retried(ask))
        except (Overtaken, Contended, CorruptStore) as error:
            raise StoreUnavailable(str(error)) from error

    def _retried(self, ask: Callable[[Work], T]) -> T:
        """Evaluate in a transaction; where another writer was first, again on what it left."""
        for attempt in range(_ROUNDS):
            try:
                with self._store.begin() as work:
                    return ask(work)
            except Overtaken:
                time.sleep(random.uniform(0, 0.002 * 2 ** min(attempt, 6)))  # noqa: S311 - only spreads retries
        raise Overtaken(f"others were first {_ROUNDS} times")


def _snapshot(text: str, key: PinKey) -> Snapshot:
    return Snapshot(text or None, SnapshotStatus.SHOWN if text else SnapshotStatus.EMPTY, key.compaction)


def _opened(store: Store | Database | str) -> Store:
    if isinstance(store, str):
        return (
            MemoryStore()
            if store == "memory"
            else DatabaseStore(Database.open(store, make_file=False), owns=True)
        )
    return DatabaseStore(store) if isinstance(store, Database) else store


def _key(target: Target | str, owner_id: str) -> Key:
    _check_ids(owner_id=owner_id)
    return Key(Target(target), owner_id)


def _check_ids(**ids: object) -> None:
    for name, value in ids.items():
        if value is not None and (problem := why_bad(value)):
            raise BadInput(f"{name}: {problem}")
    if "agent_id" in ids and ids["agent_id"] is None:
        raise BadInput("agent_id: an id is text")


def _revision(work: Work, key: Key, version: int) -> tuple[str, ...]:
    for made in work.revisions(key):
        if made.version == version and made.entries is not None:
            return made.entries
    raise _no_text(key, version)


def _no_text(key: Key, version: int) -> NotFound:
    return NotFound(
        f"the {key.target} note of {key.owner_id!r} has no revision {version} with a text; its history lists them"
    )
