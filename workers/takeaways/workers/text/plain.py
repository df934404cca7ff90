"""Text as the memory holds it: one line, without the marks that would make it a heading or a list of its own, and
without characters that nobody sees.

Whatever else Markdown could read into a line is escaped where the memory is shown.
"""

from __future__ import annotations

import unicodedata
from typing import Final

import regex

from takeaways.schemas.hidden import unhidden
from takeaways.schemas.memories import MAX_GIST, MAX_TEXT, MAX_TITLE
from takeaways.schemas.text import one_line

_MARKS: Final = regex.compile(r"(?:(?:[-*+•]|#{1,6}|>)\s+|`{3,}\w*\s*|~{3,}\w*\s*)+")

_BETWEEN_WORDS: Final = regex.compile(r"(?:[\s\p{Pd}_:;,.|/·•]|(?<!\S)#+)+")


def plain_line(text: str) -> str:
    return _plain(text, MAX_TEXT)


def plain_title(text: str) -> str:
    return _plain(text, MAX_TITLE).rstrip("# ")


def title_key(title: str) -> str:
    """What two titles have in common that differ only by case, spaces, dashes or the mark of a tag."""
    folded = unicodedata.normalize("NFKC", title).casefold()
    return _BETWEEN_WORDS.sub(" ", folded).strip()


def line_key(line: str) -> str:
    """What two lines have in common that differ only by the case of their first letter and what ends the sentence."""
    told = line.rstrip(".!… ")
    return told[:1].casefold() + told[1:]


def plain_gist(text: str) -> str:
    return _plain(text, MAX_GIST)


def _plain(text: str, most: int) -> str:
    line = one_line(unhidden(text))
    marks = _MARKS.match(line)
    return (line[marks.end() :] if marks else line)[:most].strip()
