"""A secret's place in a text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MASK: Final = "[masked: "
"""How everything begins that stands in a secret's place."""


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """From `start` to before `end` stands a secret of this kind."""

    start: int
    end: int
    kind: str


def joined(found: list[Found]) -> list[Found]:
    """In order, without overlaps: of two that overlap one reaches over both, and the one found first names it.

    Names come from the more telling detectors first.
    """
    ranked = {one: rank for rank, one in reversed(list(enumerate(found)))}
    result: list[Found] = []
    for one in sorted(ranked):
        if result and one.start < result[-1].end:
            last = result.pop()
            first = min(last, one, key=lambda each: ranked.get(each, -1))
            both = Found(last.start, max(last.end, one.end), first.kind)
            ranked[both] = min(ranked.get(last, 0), ranked[one])
            result.append(both)
        else:
            result.append(one)
    return result


def outside_masks(text: str, found: list[Found]) -> list[Found]:
    """What touches no mask that is there already: that stays as it is."""
    if not found or MASK not in text:
        return found
    masks = [(at, text.find("]", at)) for at in places(text, MASK)]
    return [one for one in found if not any(one.start <= end and start < one.end for start, end in masks)]


def places(text: str, words: str) -> Iterator[int]:
    """Where `words` stand in `text`. Much faster than any pattern, which is then tried only there."""
    at = text.find(words)
    while at >= 0:
        yield at
        at = text.find(words, at + len(words))
