"""What a model is asked. Labels (`r1`, `m3`, `s2`, `l5`, `c7`) stand for ids: short, and nothing to forge.

`extraction.render` and `consolidation.render` turn a request into the text that a language model is
sent and that tokens are counted on. `OfflineModel` reads the same values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from takeaways.schemas.events import Author
from takeaways.schemas.memories import Lesson
from takeaways.workers.models.answers import ConsolidationAnswer


class Source(StrEnum):
    """Where a piece of a message comes from, which says what may be learned from it."""

    SPOKEN = "spoken"
    TOOL_CALL = "tool call"
    TOOL_RESULT = "tool result"
    ATTACHMENT = "attachment"
    INSERTED = "inserted by the platform"


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of one message. `cut_chars` says how much was left out at its end."""

    source: Source
    text: str
    cut_chars: int = 0


@dataclass(frozen=True, slots=True)
class Excerpt:
    """One message as the model sees it. `offset_minutes` is the offset from UTC of whoever said it."""

    label: str
    message_id: str
    role: str
    author: Author
    said_at_ms: int
    offset_minutes: int
    spans: tuple[Span, ...]

    def text(self, *sources: Source) -> str:
        """The text of the spans from `sources`, or of all."""
        return "\n".join(span.text for span in self.spans if not sources or span.source in sources)


@dataclass(frozen=True, slots=True)
class RoomPart:
    """A stretch of one room: what was new in it, in order. `previous_summary` is "" for a room never read."""

    label: str
    room_id: str
    title: str
    previous_summary: str
    excerpts: tuple[Excerpt, ...]


@dataclass(frozen=True, slots=True)
class ExtractionRequest:
    rooms: tuple[RoomPart, ...]


@dataclass(frozen=True, slots=True)
class OfferedLine:
    label: str
    kind: Lesson
    text: str
    said_at_ms: int
    pinned: bool = False
    strength: int = 1


@dataclass(frozen=True, slots=True)
class OfferedSection:
    label: str
    title: str
    gist: str
    lines: tuple[OfferedLine, ...]


@dataclass(frozen=True, slots=True)
class OfferedCandidate:
    label: str
    kind: Lesson
    topic: str
    text: str
    said_at_ms: int


@dataclass(frozen=True, slots=True)
class Repair:
    """What was wrong with the answer to the same request, one sentence a rule. `answer` is None for want of room."""

    complaints: tuple[str, ...]
    answer: ConsolidationAnswer | None = None


@dataclass(frozen=True, slots=True)
class ConsolidationRequest:
    """The memory as it is, and the candidates to merge, in the order in which they were said.

    With `repair` it is asked a second time, and the whole answer is wanted anew.
    """

    sections: tuple[OfferedSection, ...]
    candidates: tuple[OfferedCandidate, ...]
    repair: Repair | None = None
