"""All detectors over one text, and over the text as it was before somebody wrapped its lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from takeaways.schemas.secrets.blocks import (
    ends_of_private_keys,
    lines_of_putty,
    passwords_in_urls,
    private_keys,
)
from takeaways.schemas.secrets.cards import cards
from takeaways.schemas.secrets.commands import commands
from takeaways.schemas.secrets.named import named
from takeaways.schemas.secrets.spans import Found, joined, outside_masks
from takeaways.schemas.secrets.tokens import tokens

__all__ = ["Found", "find"]

_LEAST: Final = 4
_JOINABLE: Final = r"[A-Za-z0-9+/=_.:%@-]"
# A line break, with the mark of a quote behind it, or characters that nobody sees.
_SEAM: Final = re.compile(
    r"[\r\n\u00ad\u200b-\u200f\u2060\ufeff][\r\n \t>|\u00ad\u200b-\u200f\u2060\ufeff]{0,12}"
)
_RUN: Final = re.compile(rf"{_JOINABLE}{{1,400}}")
_MIXED: Final = re.compile(r"\d|[a-z][A-Z]|[A-Z]{2}[a-z]")
_WORD: Final = re.compile(r"[A-Za-z]?[a-z]*[.,:;!?]?")
_LAST_RUN: Final = 120


def find(text: str) -> list[Found]:
    """The secrets in `text`, in order, none overlapping another. Time grows with the length of the text."""
    if len(text) < _LEAST:
        return []
    found = [*_in(text)]
    found += _across_seams(text)
    return joined(outside_masks(text, found))


def _in(text: str) -> Iterator[Found]:
    """The more telling detectors first: where two find the same, the first names it."""
    yield from tokens(text)
    yield from private_keys(text)
    yield from ends_of_private_keys(text)
    yield from lines_of_putty(text)
    if "://" in text:
        yield from passwords_in_urls(text)
    yield from cards(text)
    yield from named(text)
    yield from commands(text)


def _across_seams(text: str) -> Iterator[Found]:
    """Secrets that go on over a seam, in the places of `text`."""
    pieces: list[str] = []
    places: list[tuple[int, int]] = []  # (where a piece begins in the joined text, where in `text`)
    length = at = 0
    for seam in _SEAM.finditer(text):
        if not _goes_on(text, seam.start(), seam.end()):
            continue
        pieces.append(text[at : seam.start()])
        places.append((length, at))
        length += seam.start() - at
        at = seam.end()
    if not places:
        return
    pieces.append(text[at:])
    places.append((length, at))
    edges = [begin for begin, _ in places[1:]]
    crossing = (
        found for found in _in("".join(pieces)) if any(found.start < edge < found.end for edge in edges)
    )
    for found in crossing:
        yield Found(_back(places, found.start), _back(places, found.end - 1) + 1, found.kind)


def _goes_on(text: str, before: int, after: int) -> bool:
    """Whether the characters around a seam look like one token: nobody sees it, or a machine made them."""
    ahead = _RUN.match(text, after)
    if ahead is None or text.count("\n", before, after) > 1:
        return False
    behind = text[max(0, before - _LAST_RUN) : before].rstrip(" \t")
    behind = behind.rpartition(" ")[2].rpartition("\n")[2]
    if not _RUN.search(behind[-1:]):
        return False
    if "\n" not in text[before:after] or "://" in behind:
        return True
    parts = (behind, ahead.group())
    return any(map(_MIXED.search, parts)) and not any(map(_WORD.fullmatch, parts))


def _back(places: list[tuple[int, int]], at: int) -> int:
    begin, original = next(place for place in reversed(places) if place[0] <= at)
    return original + at - begin
