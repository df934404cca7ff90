"""Titles and gists that may show what was erased are made anew from what is left. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from takeaways.schemas.memories import MAX_TITLE, Memory, Section
from takeaways.schemas.words import telling_words
from takeaways.workers.consolidation.account import gist_of, in_order
from takeaways.workers.extraction.shorten import cut
from takeaways.workers.text.plain import plain_title, title_key

_TITLE_FROM_LINE_CHARS: Final = 60


def scrubbed(memory: Memory, erased: Iterable[str], topics: Mapping[str, str]) -> Memory:
    """The memory without words in titles and gists that only the `erased` texts said.

    A model makes both from several candidates at once, so any section may have taken a word. `topics` are
    those of the candidates that are left, by id: a title is made of them.
    """
    gone = frozenset(word for text in erased for word in telling_words(text))
    if not gone:
        return memory
    keys = Counter(title_key(section.title) for section in memory.sections)
    return Memory(sections=in_order(_scrubbed(section, gone, topics, keys) for section in memory.sections))


def _scrubbed(
    section: Section, gone: frozenset[str], topics: Mapping[str, str], keys: Counter[str]
) -> Section:
    about = [topics[id_] for line in section.lines for id_ in line.candidates if id_ in topics]
    said = {word for text in (*about, *(line.text for line in section.lines)) for word in telling_words(text)}
    only_erased = gone - said
    title, gist = section.title, section.gist
    if only_erased.intersection(telling_words(gist)):
        gist = gist_of(section.lines)
    if only_erased.intersection(telling_words(title)):
        title = _free(_title_of(section, about), keys)
    return section if (title, gist) == (section.title, section.gist) else _with(section, title, gist)


def _with(section: Section, title: str, gist: str) -> Section:
    return section.model_copy(update={"title": title, "gist": gist})


def _title_of(section: Section, about: list[str]) -> str:
    """What most of its candidates are about, else the beginning of its first line."""
    if about:
        counted = Counter(about)
        return min(counted, key=lambda topic: (-counted[topic], topic))
    return cut(section.lines[0].text, _TITLE_FROM_LINE_CHARS).rstrip()


def _free(title: str, keys: Counter[str]) -> str:
    """The title, numbered where another section has it."""
    title = plain_title(title)
    found, number = title, 1
    while keys[title_key(found)]:
        number += 1
        found = f"{title[: MAX_TITLE - 6]} {number}"
    keys[title_key(found)] += 1
    return found
