"""Which lines of a memory are the most useful: they stay where room is short, and stand in the note.

How useful a line is:

- what it says: its telling words, each weighted by how rare it is in this memory and by how specific it is at
  all, and counting half again each time that a more useful line has said it already;
- per cost: divided by the square root of its length, so that two short lines beat a long one that says as
  much;
- times its kind: preferences, decisions, procedures and failures more than facts, what somebody told of
  themselves more and what they said about their listener less than the rest;
- times its strength: more, slowly, with the number of candidates that it rests on;
- times how often it was recalled: more, more slowly, with the number of notes that showed it;
- times its age: half after four years;
- times how fresh it is, where that is asked for: what was said just now counts double, half of that after a month.

Rules and corrections stand before everything else, and pinned lines before those.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

import regex

from takeaways.schemas.memories import Lesson, Line, Memory
from takeaways.schemas.words import telling_words, weight

HALF_LIFE_DAYS: Final = 4 * 365
FRESH_DAYS: Final = 30
_DAY_MS: Final = 86_400_000
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


def ranked(
    memory: Memory, now_ms: int, *, recalled: Mapping[str, int] | None = None, fresh: bool = False
) -> list[tuple[int, int]]:
    """Every line as (place of its section, place in it), the most useful first. Pure and deterministic.

    `recalled` is the number of notes that showed a line, by its id.
    """
    places = [
        (section_at, line_at, line)
        for section_at, section in enumerate(memory.sections)
        for line_at, line in enumerate(section.lines)
    ]
    words = [telling_words(line.text) for _, _, line in places]
    lines_with = Counter(word for of_line in words for word in of_line)
    worth = {word: weight(word) * math.log(1 + len(places) / n) for word, n in lines_with.items()}
    said: Counter[str] = Counter()
    notes = recalled or {}
    factor = [_factor(line, now_ms, notes.get(line.id, 0), fresh=fresh) for _, _, line in places]

    def usefulness(at: int) -> float:
        return factor[at] * sum(worth[word] * _SAID_AGAIN ** said[word] for word in words[at])

    def entry(at: int) -> tuple[int, float, int, int]:
        line = places[at][2]
        group = 0 if line.pinned else 1 if line.kind.must_obey else 2
        return (group, -usefulness(at), -line.said_at_ms, at)

    heap = [entry(at) for at in range(len(places))]
    heapq.heapify(heap)
    order: list[tuple[int, int]] = []
    while heap:
        at = heapq.heappop(heap)[-1]
        current = entry(at)
        if heap and current > heap[0]:  # what it says has been said meanwhile
            heapq.heappush(heap, current)
            continue
        order.append(places[at][:2])
        said.update(words[at])
    return order


def _factor(line: Line, now_ms: int, notes: int, *, fresh: bool) -> float:
    age_days = max(0, now_ms - line.said_at_ms) / _DAY_MS
    addressed = 0.6 if _ADDRESSED.search(line.text) else 1.0
    own = 1.3 if _OF_ONESELF.search(line.text) else 1.0
    strength = 1 + 0.25 * math.log2(max(1, len(line.candidates)))
    use = 1 + 0.05 * math.log2(1 + notes)
    age = math.pow(0.5, age_days / HALF_LIFE_DAYS)
    freshness = 1 + math.pow(0.5, age_days / FRESH_DAYS) if fresh else 1.0
    return (
        _OF_KIND.get(line.kind, 1.0)
        * addressed
        * own
        * strength
        * use
        * age
        * freshness
        / math.sqrt(len(line.text) + _LINE_MARK_CHARS)
    )
