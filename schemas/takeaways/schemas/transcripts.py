"""Messages in one internal form, whatever platform they come from.

`normalise` makes `Parts` of a message on the wire, `cut` bounds them. `Said` is a message of a room as
extraction reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from takeaways.schemas.cutting import cut, size_bytes
from takeaways.schemas.events import Author
from takeaways.schemas.parts import PARTS, Attachment, Part, Parts, Text, Thinking, ToolCall, ToolResult
from takeaways.schemas.shapes import normalise

__all__ = [
    "PARTS",
    "Attachment",
    "Part",
    "Parts",
    "Said",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolResult",
    "cut",
    "normalise",
    "size_bytes",
]


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a room as extraction reads it.

    `said_at_ms` with `offset_minutes` is the wall clock of who said it; `sort_key` puts a room in order.
    """

    agent_id: str
    room_id: str
    message_id: str
    role: str
    author: Author
    parts: Parts
    said_at_ms: int
    offset_minutes: int = 0
    position: int | None = None
    run_started_ms: int | None = None
    ordinal: int = 0
    arrival: int = 0

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """By `position` where the platform gives one, else by time, start of the run and ordinal."""
        if self.position is not None:
            return (0, self.position, 0, 0, self.message_id)
        return (1, self.said_at_ms, self.run_started_ms or 0, self.ordinal, self.message_id)
