"""Characters without a shape, which can hide text or turn its direction, told from those that scripts need."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_JOINERS: Final = "\u200c\u200d"
_MARKS: Final = (
    "\u200e\u200f\u061c"  # direction marks: harmless by themselves, and Hebrew and Arabic type them
)
_TAGS = re.compile("[\U000e0020-\U000e007f]")
# A flag of a part of a country: a black flag, its letters as tags, and the tag that ends them.
_FLAG = re.compile("\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{2,6}\U000e007f")


def hidden(text: str) -> str | None:
    """The first character that hides something, as `U+200B`; None where there is none.

    Joiners are fine in scripts that join letters and in emoji, variation selectors after what they vary, and
    tags in a flag.
    """
    flags = [range(*flag.span()) for flag in _FLAG.finditer(text)]
    for found in _HIDDEN.finditer(text):
        place, character = found.start(), found.group()
        before = text[place - 1] if place else ""
        if any(place in flag for flag in flags):
            continue
        if character in _MARKS:
            continue
        if character in _JOINERS and _joins(before):
            continue
        if (
            "\ufe00" <= character <= "\ufe0f"
            and before
            and not before.isspace()
            and not _HIDDEN.match(before)
        ):
            continue
        return f"U+{ord(character):04X}"
    return None


def revealed(text: str) -> str:
    """`text` as a reader takes it in: compatibility forms folded, and nothing hidden between its letters."""
    return _HIDDEN.sub("", unicodedata.normalize("NFKC", text))


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
