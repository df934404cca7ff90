"""Keeping the memory within its share of the step: the least useful lines go first, pinned lines never."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from takeaways.recall.ranking import ranked as most_useful_first
from takeaways.schemas.memories import Line, Memory, Section
from takeaways.schemas.words import telling_words


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
    ranked = [
        (memory.sections[section], memory.sections[section].lines[line])
        for section, line in most_useful_first(memory, now_ms, recalled=recalled or {})
    ]
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
