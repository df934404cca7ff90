"""What a model is shown to consolidate: the memory, then the candidates, each with the time at which it was
said.

Each entry is one line that begins with its label in brackets; text is brought into one line first. So no text
can begin an entry, or end the part it stands in.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from takeaways.schemas.secrets import mask
from takeaways.schemas.text import one_line
from takeaways.workers.models.requests import (
    ConsolidationRequest,
    OfferedCandidate,
    OfferedLine,
    OfferedSection,
    Repair,
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FRAME: Final = (
    "=== memory ===\n",
    "=== end of memory ===\n=== candidates ===\n",
    "=== end of candidates ===\n",
)


def render(request: ConsolidationRequest) -> str:
    """The request as the text that a language model is sent and that tokens are counted on.

    It is the sum of `FRAME`, `section_text` for each section, `candidate_text` for each candidate and
    `repair_text` where it is asked again.
    """
    return "".join(_pieces(request))


def _pieces(request: ConsolidationRequest) -> Iterator[str]:
    opening, between, closing = FRAME
    yield opening
    yield from map(section_text, request.sections)
    yield between
    yield from map(candidate_text, request.candidates)
    yield closing
    if request.repair is not None:
        yield repair_text(request.repair)


def _shown(text: str) -> str:
    """One line. What was stored before a secret of its kind was known is masked here."""
    return mask(one_line(text))


def repair_text(repair: Repair) -> str:
    """The complaints about the answer before, and that answer where there is room for it."""
    before = f"=== your answer before ===\n{repair.answer.model_dump_json()}\n" if repair.answer else ""
    wrong = "".join(f"- {_shown(complaint)}\n" for complaint in repair.complaints)
    return (
        f"{before}=== what is wrong with it ===\n{wrong}=== end ===\n"
        "Nothing of it was applied. Answer again, whole, with this put right.\n"
    )


def section_text(section: OfferedSection) -> str:
    """A section's title and gist, and its lines."""
    head = f"[{section.label}] {_shown(section.title)}\n"
    gist = f"gist: {_shown(section.gist)}\n" if section.gist else ""
    return head + gist + "".join(map(_line, section.lines))


def _line(line: OfferedLine) -> str:
    pinned = ", pinned" if line.pinned else ""
    times = f", {line.strength} times" if line.strength > 1 else ""
    return f"[{line.label}] {line.kind}, said {_when(line.said_at_ms)}{times}{pinned}: {_shown(line.text)}\n"


def candidate_text(candidate: OfferedCandidate) -> str:
    """A candidate with its topic."""
    about = f"{candidate.kind}, said {_when(candidate.said_at_ms)}, about {_shown(candidate.topic)}"
    return f"[{candidate.label}] {about}: {_shown(candidate.text)}\n"


def _when(at_ms: int) -> str:
    try:
        return f"{_EPOCH + timedelta(milliseconds=at_ms):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return "at an unknown time"
