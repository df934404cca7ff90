"""Keeping the beginning of a text that is too long, without breaking what people take for a character."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

import regex

from takeaways.workers.models.tokens import estimate

_CLUSTER: Final = regex.compile(r"\X")
# The beginning of an escape: `\`, `\u00`, `\x4`; and the halves of `\ud83d\ude00`.
_BEGUN: Final = regex.compile(r"\\(?:u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|x[0-9a-fA-F]?)?\Z")
_FIRST_HALF: Final = regex.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_SECOND_HALF: Final = regex.compile(r"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_LONGEST_ESCAPE: Final = 10
_FENCE: Final = regex.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<rest>[^\n]*)$", regex.MULTILINE)


def shorten(text: str, tokens: int) -> str:
    """Return the longest beginning of `text` of at most `tokens`, cut between characters, not in an escape and
    not in a code fence: the cut is before a fence that has just begun, and one that has gone on for longer is
    closed.
    """
    if tokens <= 0:
        return ""
    # Every character costs half a token or more, so what is beyond can be left unread however long it is.
    head = text[: 2 * tokens + 1]
    if len(head) == len(text) and estimate(text) <= tokens:
        return text
    kept = _beginning(text, head, tokens)
    fence = _open_fence(kept)
    if fence is None:
        return kept
    start, mark = fence
    if 2 * start >= len(kept):
        return kept[:start].rstrip("\n")
    closing = f"\n{mark}"
    return (
        _beginning(text, head, tokens - estimate(closing)) + closing if len(kept) > 8 * len(closing) else kept
    )


def _beginning(text: str, head: str, tokens: int) -> str:
    length = bisect_right(range(1, len(head) + 1), tokens, key=lambda size: estimate(head[:size]))
    return cut(text, length)


def _open_fence(text: str) -> tuple[int, str] | None:
    """Where the code fence begins that `text` does not close, and its mark; None where none is open."""
    opened: tuple[int, str] | None = None
    for line in _FENCE.finditer(text):
        mark, rest = line["mark"], line["rest"]
        if opened is None:
            opened = line.start(), mark
        elif mark[0] == opened[1][0] and len(mark) >= len(opened[1]) and not rest.strip():
            opened = None
    return opened


def cut(text: str, length: int) -> str:
    """Return at most the first `length` characters of `text`, ending where a character and an escape end."""
    if length >= len(text):
        return text
    kept = text[:length]
    if not (kept.isascii() and text[length].isascii()) or text[length - 1 : length + 1] == "\r\n":
        kept = text[: _whole(text, length)]
    return kept[: _before_escape(kept, text)]


def _before_escape(kept: str, text: str) -> int:
    """How much of `kept` stands before an escape that goes on in `text`, or all of it."""
    tail = max(0, len(kept) - _LONGEST_ESCAPE)
    begun = _BEGUN.search(kept, tail)
    if begun is None and _SECOND_HALF.match(text, len(kept)):
        begun = _FIRST_HALF.search(kept, tail)
    if begun is None:
        return len(kept)
    backslashes = begun.start() + 1 - len(kept[: begun.start() + 1].rstrip("\\"))
    return begun.start() if backslashes % 2 else len(kept)


def _whole(text: str, length: int) -> int:
    """The end of the last character of `text` as people see it that ends at `length` or before."""
    end = 0
    for cluster in _CLUSTER.finditer(text):
        if cluster.end() > length:
            break
        end = cluster.end()
    return end
