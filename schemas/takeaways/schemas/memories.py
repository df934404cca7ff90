"""The memory as data: candidates, lines, sections, revisions. Markdown is a view of these.

Nothing here does I/O. Instants are milliseconds since 1970 UTC.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from takeaways.schemas.ids import Id, derived, digest
from takeaways.schemas.lessons import Lesson as Lesson

MAX_TEXT: Final = 2_000
MAX_TITLE: Final = 120
MAX_GIST: Final = 300
MAX_QUOTE: Final = 500


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Evidence(Frozen):
    """The message that a candidate rests on, with the words that say so."""

    message_id: Id
    quote: Annotated[str, Field(min_length=1, max_length=MAX_QUOTE)]


class Candidate(Frozen):
    """A lasting lesson taken from a room, waiting to be merged. `said_at_ms` is its newest evidence's time."""

    id: Id
    room_id: Id
    kind: Lesson
    topic: Annotated[str, Field(min_length=1, max_length=MAX_TITLE)]
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    said_at_ms: int
    evidence: Annotated[tuple[Evidence, ...], Field(min_length=1)]


class Line(Frozen):
    """One line of a section. It is shown as a list item, so its text never holds a line break."""

    id: Id
    kind: Lesson
    text: Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
    said_at_ms: int
    pinned: bool = False
    candidates: tuple[Id, ...] = ()


class Section(Frozen):
    """One topic. `digest` addresses its content, so that an unchanged section is stored once."""

    id: Id
    title: Annotated[str, Field(min_length=1, max_length=MAX_TITLE)]
    gist: Annotated[str, Field(max_length=MAX_GIST)] = ""
    lines: Annotated[tuple[Line, ...], Field(min_length=1)]

    @property
    def digest(self) -> str:
        return digest(self.model_dump(mode="json"))


class Memory(Frozen):
    """The content of one revision: its sections in their order."""

    sections: tuple[Section, ...] = ()


EMPTY: Final = Memory()


class SessionSummary(Frozen):
    """What a room is about. `last_activity_ms` orders the rooms."""

    room_id: Id
    title: str = ""
    text: str
    last_activity_ms: int


def candidate_id(agent_id: str, room_id: str, message_id: str, text: str) -> str:
    """The same lesson from the same message is one candidate, however often it is extracted."""
    return derived("c", agent_id, room_id, message_id, text)


def line_id(candidates: tuple[str, ...]) -> str:
    """A line is named for the candidates it was first made from."""
    return derived("l", *sorted(candidates))


def section_id(title: str, candidates: tuple[str, ...]) -> str:
    return derived("s", title, *sorted(candidates))
