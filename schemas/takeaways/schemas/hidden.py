"""Characters without a shape, which can hide text or turn its direction, told from those that scripts need."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

OVERRIDES: Final = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""What turns the direction of the text after it. A model reads on in the order in which it was typed."""

_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_JOINERS: Final = "\u200c\u200d"
_MARKS: Final = (
    "\u200e\u200f\u061c"  # direction marks: harmless by themselves, and Hebrew and Arabic type them
)
# A flag of a part of a country: a black flag, its letters as tags, and the tag that ends them.
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f")


def hidden(text: str) -> str | None:
    """The first character that hides something, as `U+200B`; None where there is none.

    Joiners are fine in scripts that join letters and in emoji, variation selectors after what they vary, and
    tags in a flag.
    """
    place = next(_hiding(text), None)
    return None if place is None else f"U+{ord(text[place]):04X}"


def unhidden(text: str, *, keep: str = "") -> str:
    """`text` without the characters that hide something, but for those in `keep`. Idempotent."""
    if text.isascii():
        return text
    while places := [place for place in _hiding(text) if text[place] not in keep]:
        pieces = [
            text[begin + 1 : end] for begin, end in zip([-1, *places], [*places, len(text)], strict=True)
        ]
        text = "".join(pieces)  # what stood apart may now stand after something that it does not vary
    return text


def revealed(text: str) -> str:
    """`text` as a reader takes it in: compatibility forms folded, and nothing hidden between its letters."""
    return _HIDDEN.sub("", unicodedata.normalize("NFKC", text))


def _hiding(text: str) -> Iterator[int]:
    """The places of characters that hide something, in order."""
    if text.isascii():
        return
    flags = {place for flag in _FLAG.finditer(text) for place in range(*flag.span())}
    for found in _HIDDEN.finditer(text):
        place, character = found.start(), found.group()
        before = text[place - 1] if place else ""
        fine = (
            character in _MARKS
            or place in flags
            or (character in _JOINERS and _joins(before))
            or ("\ufe00" <= character <= "\ufe0f" and _can_vary(before))
            or ("\U000e0100" <= character <= "\U000e01ef" and before >= "\u3400" and before.isalpha())
        )
        if not fine:
            yield place


def _can_vary(before: str) -> bool:
    return bool(before) and not before.isspace() and not _HIDDEN.match(before)


def _joins(before: str) -> bool:
    """Whether a joiner after `before` belongs to its script: not after Latin, Greek, Cyrillic, digits or space."""
    if not before:
        return False
    if before == "\ufe0f" or "\U0001f3fb" <= before <= "\U0001f3ff":
        return True
    category = unicodedata.category(before)
    if category in ("So", "Mn", "Mc"):
        return True
    return category[0] == "L" and unicodedata.bidirectional(before) != "" and ord(before) >= 0x0590
