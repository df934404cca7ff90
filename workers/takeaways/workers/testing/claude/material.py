"""Reading a rendered request back: the server sees text, as a provider does, and its answers come from values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from takeaways.schemas.events import Author
from takeaways.schemas.memories import Lesson
from takeaways.workers.extraction.render import HEADINGS
from takeaways.workers.models.requests import (
    ConsolidationRequest,
    Excerpt,
    ExtractionRequest,
    OfferedCandidate,
    OfferedLine,
    OfferedSection,
    RoomPart,
    Source,
    Span,
)

_ROOM: Final = re.compile(r"=== room (\w+)(?:: (.*))? ===")
_ROOM_END: Final = re.compile(r"=== end of room \w+ ===")
_MESSAGE: Final = re.compile(
    r"\[(m\d+)\] (?:\w{3} (\d{4}-\d\d-\d\d \d\d:\d\d) ([+-])(\d\d):(\d\d)|at an unknown time), (\w+) (.*)"
)
_CUT: Final = re.compile(r"\(([\d,]+) more characters were left out\)")
_SECTION: Final = re.compile(r"\[(s\d+)\] (.*)")
_SAID: Final = re.compile(r"said (\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?|at an unknown time)")
_LINE: Final = re.compile(r"\[(l\d+)\] (\w+)(?:, (\d+) times)?(, pinned)?: (.*)")
_ABOUT: Final = re.compile(r"about (.*)")
_CANDIDATE: Final = re.compile(r"\[(c\d+)\] (\w+): (.*)")
_SOURCES: Final = {f"{heading}:": source for source, heading in HEADINGS.items()}
_ROLES: Final = {"person": "user", "agent": "assistant", "system": "system", "tool": "tool"}


def read_material(text: str) -> ExtractionRequest | ConsolidationRequest | None:
    """The request that was rendered into `text`, or None where it holds none of ours.

    Ids are not part of the text: a message's and a room's label stand in for them.
    """
    lines = text.split("\n")
    if "=== memory ===" in lines:
        return _consolidation(lines)
    if any(_ROOM.fullmatch(line) for line in lines):
        return ExtractionRequest(tuple(_rooms(iter(lines))))
    return None


def _rooms(lines: Iterator[str]) -> Iterator[RoomPart]:
    for line in lines:
        if opened := _ROOM.fullmatch(line):
            yield _room(opened[1], opened[2] or "", lines)


def _room(label: str, title: str, lines: Iterator[str]) -> RoomPart:
    summary: list[str] = []
    excerpts: list[Excerpt] = []
    spans: list[tuple[Source, list[str], int]] = []
    header: re.Match[str] | None = None
    for line in lines:
        if line.startswith("| "):
            if header is None:
                summary.append(line[2:])
                continue
            if not spans:
                spans.append((Source.SPOKEN, [], 0))
            spans[-1][1].append(line[2:])
        elif (source := _SOURCES.get(line)) is not None:
            spans.append((source, [], 0))
        elif cut := _CUT.fullmatch(line):
            kind, said, _ = spans.pop() if spans else (Source.SPOKEN, [], 0)
            spans.append((kind, said, int(cut[1].replace(",", ""))))
        elif (found := _MESSAGE.fullmatch(line)) or _ROOM_END.fullmatch(line):
            if header is not None:
                excerpts.append(_excerpt(header, spans))
            header, spans = found, []
            if found is None:
                break
    return RoomPart(label, label, title, "\n".join(summary), tuple(excerpts))


def _excerpt(header: re.Match[str], spans: list[tuple[Source, list[str], int]]) -> Excerpt:
    label, when, sign, hours, minutes, kind, name = header.groups()
    offset = (-1 if sign == "-" else 1) * (int(hours or 0) * 60 + int(minutes or 0))
    at_ms = _milliseconds(when) - offset * 60_000 if when else 0
    read: dict[str, Any] = {"id": name or kind, "name": name or None, "kind": kind}
    made = tuple(Span(source, "\n".join(said), cut) for source, said, cut in spans)
    return Excerpt(label, label, _ROLES.get(kind, "user"), Author.model_validate(read), at_ms, offset, made)


def _consolidation(lines: list[str]) -> ConsolidationRequest:
    sections: list[OfferedSection] = []
    candidates: list[OfferedCandidate] = []
    at_ms = 0
    topic = ""
    for line in lines:
        if said := _SAID.fullmatch(line):
            at_ms = _milliseconds(said[1])
        elif about := _ABOUT.fullmatch(line):
            topic = about[1]
        elif candidate := _CANDIDATE.fullmatch(line):
            label, kind, text = candidate.groups()
            candidates.append(OfferedCandidate(label, Lesson(kind), topic, text, at_ms))
        elif found := _LINE.fullmatch(line):
            label, kind, times, pinned, text = found.groups()
            shown = OfferedLine(label, Lesson(kind), text, at_ms, bool(pinned), int(times or 1))
            sections.append(_with(sections.pop(), shown))
        elif section := _SECTION.fullmatch(line):
            sections.append(OfferedSection(section[1], section[2], "", ()))
        elif line.startswith("gist: ") and sections and not candidates:
            last = sections.pop()
            sections.append(OfferedSection(last.label, last.title, line[6:], last.lines))
        elif line.startswith("=== end of candidates"):
            break
    return ConsolidationRequest(tuple(sections), tuple(candidates))


def _with(section: OfferedSection, line: OfferedLine) -> OfferedSection:
    return OfferedSection(section.label, section.title, section.gist, (*section.lines, line))


def _milliseconds(when: str) -> int:
    try:
        at = datetime.fromisoformat(when).replace(tzinfo=UTC)
    except ValueError:
        return 0
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
