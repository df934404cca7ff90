"""What can become of an event, and the result of taking in a batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from takeaways.schemas.queues import Kind
from takeaways.workers.intake.entries import Entry


class Taken(StrEnum):
    """What became of an event. Stored with its id in `inbox`; logs and metrics use the same words."""

    TAKEN_IN = "taken_in"
    FORGOTTEN = "forgotten"
    DUPLICATE = "duplicate"
    REPEATED = "repeated"
    SUPERSEDED = "superseded"
    OUTDATED = "outdated"
    NOT_A_ROOM = "not_a_room"
    DEAD_LETTER = "dead_letter"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Taken.TAKEN_IN: "what it says was stored and counted",
    Taken.FORGOTTEN: "it asked to forget, and what it named was erased",
    Taken.DUPLICATE: "the same event came before; it changed nothing",
    Taken.REPEATED: "its run or compaction was counted before; messages that were new were stored",
    Taken.SUPERSEDED: "a higher revision of the message came before",
    Taken.OUTDATED: "it is from before an erasure, so nothing was stored",
    Taken.NOT_A_ROOM: "it belongs to a task or document, so nothing was stored",
    Taken.DEAD_LETTER: "it cannot be taken in; it is kept whole, with the reason",
}


@dataclass(frozen=True, slots=True)
class Hint:
    """An agent for which something became due. To be published after the commit."""

    kind: Kind
    agent_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class TakenIn:
    """The result of a batch. `done` are to be acknowledged; `left` stay pending, their agents were locked."""

    done: tuple[Entry, ...] = ()
    left: tuple[Entry, ...] = ()
    hints: tuple[Hint, ...] = ()
    outcomes: Counter[Taken] = field(default_factory=Counter)
    messages_stored: int = 0
    unknown_fields: int = 0

    def plus(self, other: Self) -> Self:
        return type(self)(
            self.done + other.done,
            self.left + other.left,
            self.hints + other.hints,
            self.outcomes + other.outcomes,
            self.messages_stored + other.messages_stored,
            self.unknown_fields + other.unknown_fields,
        )

    @property
    def busy_agents(self) -> frozenset[str]:
        """The agents whose entries were left: what follows for them must wait as well."""
        return frozenset(entry.agent_id for entry in self.left if entry.agent_id is not None)
