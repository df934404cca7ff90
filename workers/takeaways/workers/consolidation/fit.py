"""Keeping the memory within its share of the step: the least useful lines go first.

How useful a line is:

- what it says: its telling words, each weighted by how rare it is in this memory and by how specific it is at
  all, and counting half again each time that a more useful line has said it already;
- per cost: divided by the square root of its length, so that two short lines beat a long one that says as
  much;
- times its kind: preferences, decisions, procedures and failures more than facts, what somebody told of
  themselves more and what they said about their listener less than the rest;
- times its strength: more, slowly, with the number of candidates that it rests on;
- times how often it was recalled: more, more slowly, with the number of notes that showed it;
- times its age: half after four years.

Rules and corrections go only after everything else, and pinned lines never.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import regex

from takeaways.schemas.memories import Lesson, Line, Memory, Section
from takeaways.workers.text.words import telling_words, weight

HALF_LIFE_DAYS: Final = 4 * 365
_OF_KIND: Final = {
    Lesson.PREFERENCE: 1.2,
    Lesson.DECISION: 1.2,
    Lesson.PROCEDURE: 1.2,
    Lesson.FAILURE: 1.2,
    Lesson.FACT: 1.0,
}
_SAID_AGAIN: Final = 0.5
_LINE_MARK_CHARS: Final = 3
_ADDRESSED: Final = regex.compile(r"\b(?:you|your|yours|you're|you've|you'll)\b", regex.IGNORECASE)
_OF_ONESELF: Final = regex.compile(r"\b(?:i|i'm|i've|i'd|my|we|we're|we've|our|me)\b", regex.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A line that had to go, and why. `section_id` names the section it stood in."""

    section_id: str
    line_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Fitted:
    memory: Memory
    dropped: tuple[Dropped, ...] = ()

    def reasons(self) -> dict[str, str]:
        """Why, by id of every line that was dropped and of the section it stood in."""
        return {id_: one.reason for one in self.dropped for id_ in (one.line_id, one.section_id)}


def fit(
    memory: Memory,
    budget_tokens: int,
    size: Callable[[Memory], int],
    now_ms: int,
    recalled: Mapping[str, int] | None = None,
) -> Fitted:
    """The most useful part of `memory` whose `size` is at most `budget_tokens`.

    `recalled` is the number of notes that showed a line, by its id. Pure and deterministic. What fits already
    is returned as it is, and a smaller budget keeps a part of what a larger one keeps. Pinned lines stay even
    where they alone take more.
    """
    if size(memory) <= budget_tokens:
        return Fitted(memory)
    ranked = _ranked(memory, now_ms, recalled or {})
    low, high = sum(line.pinned for _, line in ranked), len(ranked)
    while low < high:
        middle = (low + high + 1) // 2
        if size(_with(memory, ranked[:middle])) <= budget_tokens:
            low = middle
        else:
            high = middle - 1
    reason = f"the memory is over its {budget_tokens} tokens and this was among the least useful"
    dropped = tuple(Dropped(section.id, line.id, reason) for section, line in ranked[low:])
    return Fitted(_with(memory, ranked[:low]), dropped)


def _with(memory: Memory, kept: list[tuple[Section, Line]]) -> Memory:
    ids = {(section.id, line.id) for section, line in kept}
    sections = []
    for section in memory.sections:
        lines = tuple(line for line in section.lines if (section.id, line.id) in ids)
        if lines:
            sections.append(section if lines == section.lines else _shortened(section, lines))
    return Memory(sections=tuple(sections))


def _shortened(section: Section, lines: tuple[Line, ...]) -> Section:
    """A gist that names what only a dropped line said would promise what is not there, so it goes too."""
    if not section.gist:
        return section.model_copy(update={"lines": lines})
    kept = {word for line in lines for word in telling_words(line.text)}
    gone = {word for line in section.lines for word in telling_words(line.text)} - kept
    gist = "" if gone & set(telling_words(section.gist)) else section.gist
    return section.model_copy(update={"lines": lines, "gist": gist})


def _ranked(memory: Memory, now_ms: int, recalled: Mapping[str, int]) -> list[tuple[Section, Line]]:
    """Most useful first: pinned lines, then what must be obeyed, then the rest."""
    places = [(section, line) for section in memory.sections for line in section.lines]
    words = [telling_words(line.text) for _, line in places]
    lines_with = Counter(word for of_line in words for word in of_line)
    worth = {word: weight(word) * math.log(1 + len(places) / n) for word, n in lines_with.items()}
    said: Counter[str] = Counter()
    factor = [_factor(line, now_ms, recalled.get(line.id, 0)) for _, line in places]

    def usefulness(at: int) -> float:
        return factor[at] * sum(worth[word] * _SAID_AGAIN ** said[word] for word in words[at])

    def entry(at: int) -> tuple[int, float, int, int]:
        line = places[at][1]
        group = 0 if line.pinned else 1 if line.kind.must_obey else 2
        return (group, -usefulness(at), -line.said_at_ms, at)

    heap = [entry(at) for at in range(len(places))]
    heapq.heapify(heap)
    order: list[tuple[Section, Line]] = []
    while heap:
        at = heapq.heappop(heap)[-1]
        current = entry(at)
        if heap and current > heap[0]:  # what it says has been said meanwhile
            heapq.heappush(heap, current)
            continue
        order.append(places[at])
        said.update(words[at])
    return order


def _factor(line: Line, now_ms: int, notes: int) -> float:
    age_days = max(0, now_ms - line.said_at_ms) / 86_400_000
    addressed = 0.6 if _ADDRESSED.search(line.text) else 1.0
    own = 1.3 if _OF_ONESELF.search(line.text) else 1.0
    strength = 1 + 0.25 * math.log2(max(1, len(line.candidates)))
    use = 1 + 0.05 * math.log2(1 + notes)
    age = math.pow(0.5, age_days / HALF_LIFE_DAYS)
    return (
        _OF_KIND.get(line.kind, 1.0)
        * addressed
        * own
        * strength
        * use
        * age
        / math.sqrt(len(line.text) + _LINE_MARK_CHARS)
    )
