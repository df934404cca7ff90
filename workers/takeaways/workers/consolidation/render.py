"""What a model is shown to consolidate: the memory, then the candidates. What was said at the same time stands
under one heading with that time, and candidates of one topic under one with the topic: most of a session is.

Each entry is one line that begins with its label in brackets; text is brought into one line first. So no text
can begin an entry, or end the part it stands in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
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

    It is the sum of `FRAME`, `section_text` for each section, `candidates_text` and `repair_text` where it is asked
    again.
    """
    return "".join(_pieces(request))


def _pieces(request: ConsolidationRequest) -> Iterator[str]:
    opening, between, closing = FRAME
    yield opening
    yield from map(section_text, request.sections)
    yield between
    yield candidates_text(request.candidates)
    yield closing
    if request.repair is not None:
        yield repair_text(request.repair)


@lru_cache(maxsize=4_096)  # a memory's lines are the same from step to step, and each is counted and shown
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
    return head + gist + _by_time(section.lines)


def _line(line: OfferedLine) -> str:
    pinned = ", pinned" if line.pinned else ""
    times = f", {line.strength} times" if line.strength > 1 else ""
    return f"[{line.label}] {line.kind}{times}{pinned}: {_shown(line.text)}\n"


def candidates_text(candidates: Iterable[OfferedCandidate]) -> str:
    """The candidates in their order: the sum of `opening` and `candidate_text` for each."""
    pieces: list[str] = []
    before = None
    for candidate in candidates:
        pieces += (opening(candidate, before), candidate_text(candidate))
        before = candidate
    return "".join(pieces)


def opening(candidate: OfferedCandidate, before: OfferedCandidate | None) -> str:
    """The headings that a candidate stands under where the one before it had others: its time and its topic."""
    time, topic = heading(candidate.said_at_ms), f"about {_shown(candidate.topic)}\n"
    if before is None:
        return time + topic
    same_time = time == heading(before.said_at_ms)
    return ("" if same_time else time) + ("" if topic == f"about {_shown(before.topic)}\n" else topic)


def candidate_text(candidate: OfferedCandidate) -> str:
    """A candidate without its time and topic."""
    return f"[{candidate.label}] {candidate.kind}: {_shown(candidate.text)}\n"


@lru_cache(maxsize=4_096)
def heading(at_ms: int) -> str:
    """When what follows was said (UTC), up to the next heading."""
    try:
        moment = _EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:
        return "said at an unknown time\n"
    return f"said {moment:%Y-%m-%d %H:%M}{f':{moment:%S}' if moment.second else ''}\n"


def _by_time(lines: Iterable[OfferedLine]) -> str:
    pieces: list[str] = []
    said = ""
    for line in lines:
        if (now := heading(line.said_at_ms)) != said:
            said = now
            pieces.append(now)
        pieces.append(_line(line))
    return "".join(pieces)
