"""Showing text that anyone may have written, so that it stays text.

Memory is shown inside our Markdown and inside the note's wrapper. Nothing in it may begin a block
(heading, list, quote, fence, HTML), load a picture, or open or close the wrapper; what it says
stays readable. Secrets that were stored before their kind was known are masked here as well.
Escaping is idempotent: text that passes through twice is the same as once.
"""

from __future__ import annotations

import html
import re
import unicodedata
from typing import Final

from takeaways.schemas.hidden import unhidden
from takeaways.schemas.secrets import mask
from takeaways.schemas.text import mend, one_line

WRAPPER: Final = "agent-memory"

_OPENING = re.compile(r"[<＜﹤]|&(?:(?:amp|#0*38|#x0*26);?)*(?:lt|#0*60|#x0*3c);?", re.IGNORECASE)
_STARTS_A_TAG = re.compile(r"[A-Za-z/!?|]")
_LONGEST_TAG: Final = 1_000
_DASH = re.compile("[-\u2010-\u2015\u2212_]")
_BARE_NAMES: Final = tuple(name.replace("-", "") for name in (WRAPPER, "standing-notes"))


def _beginning(name: str) -> str:
    """A pattern for how `name` can begin. Where an entity or another script comes, a closer look has to tell."""
    rest = ""
    for letter in reversed(name[:6]):
        rest = rf"[\s\x00-\x1f\x7f/\\_-]*(?:[&\x80-\U0010ffff]|[{letter}{letter.upper()}]{rest})"
    return rest


# Code is full of tags, and a closer look at each would take long.
_MAY_NAME_IT = re.compile("|".join(map(_beginning, _BARE_NAMES)))

_STARTS_A_BLOCK = re.compile(
    r"""
      \#{1,6}(?:\s|$)                 # heading
    | >                               # quote
    | [-+*](?:\s|$)                   # list
    | ([-*_])(?:\s*\1){2,}\s*$        # rule
    | [=-]+\s*$                       # underline of a heading
    | `{3} | ~{3}                     # fence
    | \[[^\]]*\]:                     # link definition, which is not shown at all
    """,
    re.VERBOSE,
)
_NUMBERED = re.compile(r"(\d{1,9})([.)])(?=\s|$)")
_CLOSING_HASHES = re.compile(r"(?:^|(?<=\s))(?=#+$)")


def inline(text: str) -> str:
    """`text` as one line for a place where no block can begin: inside a heading, after other words."""
    line = mask(one_line(unhidden(mend(text))))
    line = _OPENING.sub(lambda opening: _without_tag(opening.group(), line[opening.end() :]), line)
    return line.replace("![", "!\\[")


def untagged(text: str) -> str:
    """`text` with nothing changed but tags that a lenient reader takes for those of our notes."""

    def shown_opening(opening: re.Match[str]) -> str:
        if not _MAY_NAME_IT.match(text, opening.end()):
            return opening.group()
        rest = text[opening.end() : opening.end() + _LONGEST_TAG]
        return "‹" if _names_the_wrapper(rest) else opening.group()

    return _OPENING.sub(shown_opening, text)


def shown(text: str) -> str:
    """`text` as one line that is a paragraph or a list item whatever it begins with."""
    line = inline(text)
    if _STARTS_A_BLOCK.match(line):
        return "\\" + line
    return _NUMBERED.sub(r"\1\\\2", line, count=1) if _NUMBERED.match(line) else line


def heading(text: str) -> str:
    """`text` as the words of a heading; hashes at its end are kept."""
    return _CLOSING_HASHES.sub(r"\\", inline(text), count=1)


def blocks(text: str) -> str:
    """Text of several lines as paragraphs and flat lists, in Markdown."""
    result: list[str] = []
    in_list = False
    for raw in mask(mend(text)).split("\n"):
        line = raw.strip()
        item = re.match(r"[-+*•]\s+(?=\S)", line)
        words = shown(line[item.end() :] if item else line)
        if words:
            separator = "" if not result else "\n" if item and in_list else "\n\n"
            result.append(f"{separator}{'- ' if item else ''}{words}")
            in_list = bool(item)
    return "".join(result)


def _without_tag(opening: str, rest: str) -> str:
    """What stands for `opening`: a quotation mark before the wrapper's name, an entity before other tags."""
    if _names_the_wrapper(rest):
        return "‹"
    return "&lt;" if opening == "<" and _STARTS_A_TAG.match(rest) else opening


def _names_the_wrapper(rest: str) -> bool:
    """Whether `rest` names the wrapper for a reader lenient about entities, case, blanks and look-alikes."""
    while (plain := html.unescape(rest)) != rest:
        rest = plain
    visible = "".join(
        character
        for character in _DASH.sub("", unicodedata.normalize("NFKC", rest))
        if unicodedata.category(character)[0] not in "CMZ"
    )
    return visible.lstrip("/\\").casefold().startswith(_BARE_NAMES)
