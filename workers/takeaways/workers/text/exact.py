"""Words of a text that no rewording may change: numbers and dates, paths, addresses, names in code."""

from __future__ import annotations

from typing import Final

import regex

_WORD: Final = regex.compile(r"[/~]?\w(?:[\w./:@~-]*\w)?")
_THOUSANDS: Final = regex.compile(r"(?<=\d)[,.'\s](?=\d{3}\b)")


def exact_words(text: str) -> frozenset[str]:
    """Those words, in lower case and without signs between thousands."""
    return frozenset(filter(_is_exact, _WORD.findall(_plain(text))))


def missing_words(text: str, other: str) -> frozenset[str]:
    """The exact words of `text` that `other` does not hold."""
    held = _plain(other)
    return frozenset(word for word in exact_words(text) if word not in held)


def _plain(text: str) -> str:
    return _THOUSANDS.sub("", text).casefold()


def _is_exact(word: str) -> bool:
    dotted = word.split(".")
    is_path = word[0] in "/~" or word.count("/") > 1 or (len(dotted) > 1 and min(map(len, dotted)) > 1)
    return is_path or any(one.isdigit() or one in "@_" for one in word)
