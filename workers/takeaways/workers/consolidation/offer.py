"""Choosing what one consolidation is about: the whole memory, and as many candidates as fit beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count as counting
from typing import Any, Final

from takeaways.schemas.memories import Candidate, Memory, Section
from takeaways.workers.consolidation.render import FRAME, candidate_text, opening, render, section_text
from takeaways.workers.extraction.shorten import shorten
from takeaways.workers.models.requests import (
    ConsolidationRequest,
    OfferedCandidate,
    OfferedLine,
    OfferedSection,
)
from takeaways.workers.models.tokens import estimate

Count = Callable[[str], int]
_LONGEST_LABEL: Final = "c999999"
_LEAST_TEXT_TOKENS: Final = 200
"""An ordinary lesson is never shortened, also where a memory that is too large leaves no room for it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A request, the candidates in it, and what its labels stand for (ids). `tokens` is its size."""

    request: ConsolidationRequest
    candidates: tuple[Candidate, ...]
    sections: dict[str, str]
    lines: dict[str, str]
    candidate_ids: dict[str, str]
    tokens: int


def said_order(candidate: Candidate) -> tuple[Any, ...]:
    """The one order of candidates: when they were said, then room and message."""
    return candidate.said_at_ms, candidate.room_id, candidate.evidence[-1].message_id, candidate.id


def offered_tokens(memory: Memory, count: Count = estimate) -> int:
    """What the memory takes of a consolidation: more than MEMORY.md, for each line has a label and a time."""
    return sum(count(section_text(section)) for section in _memory(memory)[0])


def offer(memory: Memory, candidates: Iterable[Candidate], tokens: int, count: Count = estimate) -> Offer:
    """Offer the memory with the candidates said first, as many as fit into `tokens`, and always at least one.

    The one that must be offered is shortened where it does not fit as it is. Equal arguments give an equal
    offer.
    """
    sections, section_ids, line_ids = _memory(memory)
    left = tokens - sum(map(count, FRAME)) - sum(count(section_text(section)) for section in sections)
    chosen: list[Candidate] = []
    offered: list[OfferedCandidate] = []
    for candidate in sorted(candidates, key=said_order):
        shown = OfferedCandidate(
            f"c{len(chosen) + 1}", candidate.kind, candidate.topic, candidate.text, candidate.said_at_ms
        )
        heads = count(opening(shown, offered[-1] if offered else None))
        cost = heads + count(candidate_text(replace(shown, label=_LONGEST_LABEL)))
        if cost > left:
            if chosen:
                break
            bare = heads + count(candidate_text(replace(shown, label=_LONGEST_LABEL, text="")))
            shown = replace(shown, text=shorten(shown.text, max(_LEAST_TEXT_TOKENS, left - bare)))
        left -= cost
        chosen.append(candidate)
        offered.append(shown)
    request = ConsolidationRequest(tuple(sections), tuple(offered))
    return Offer(
        request=request,
        candidates=tuple(chosen),
        sections=section_ids,
        lines=line_ids,
        candidate_ids={shown.label: candidate.id for shown, candidate in zip(offered, chosen, strict=True)},
        tokens=count(render(request)),
    )


def _memory(memory: Memory) -> tuple[list[OfferedSection], dict[str, str], dict[str, str]]:
    labels = (f"l{number}" for number in counting(1))
    sections: list[OfferedSection] = []
    section_ids: dict[str, str] = {}
    line_ids: dict[str, str] = {}
    for number, section in enumerate(memory.sections, start=1):
        lines = tuple(_lines(section, labels))
        sections.append(OfferedSection(f"s{number}", section.title, section.gist, lines))
        section_ids[f"s{number}"] = section.id
        line_ids.update((shown.label, line.id) for shown, line in zip(lines, section.lines, strict=True))
    return sections, section_ids, line_ids


def _lines(section: Section, labels: Iterator[str]) -> Iterator[OfferedLine]:
    for line in section.lines:
        strength = max(1, len(line.candidates))
        yield OfferedLine(next(labels), line.kind, line.text, line.said_at_ms, line.pinned, strength)
