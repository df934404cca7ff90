"""Whether an event may still enter after an erasure. Pure.

An event that carries a generation is judged by it. One that does not is judged by its date: what is dated no
later than the deletion belongs to what was erased.
"""

from __future__ import annotations

from typing import Protocol

from takeaways.schemas.events import AnyData
from takeaways.workers.intake.messages import IncomingMessage


class Tombstone(Protocol):
    @property
    def generation(self) -> int: ...
    @property
    def deleted_at_ms(self) -> int | None: ...


def is_outdated(data: AnyData, at_ms: int, agent: Tombstone, room: Tombstone | None) -> bool:
    """Whether the event is from before an erasure of its agent or room."""
    if _is_past(data.agent.generation, at_ms, agent):
        return True
    ref = getattr(data, "room", None)
    return ref is not None and room is not None and _is_past(ref.generation, at_ms, room)


def is_of_erased_person(message: IncomingMessage, said_at_ms: int, erased: dict[str, int]) -> bool:
    """Whether somebody said it, or had it said in a run of theirs, up to when they were erased.

    `erased` are the erasures by person id.
    """
    people = (message.author_id if message.author_kind == "person" else None, message.user_id)
    return any(person is not None and said_at_ms <= erased.get(person, said_at_ms - 1) for person in people)


def _is_past(given: int | None, at_ms: int, tombstone: Tombstone) -> bool:
    if given is not None:
        return given < tombstone.generation
    return tombstone.deleted_at_ms is not None and at_ms <= tombstone.deleted_at_ms
