"""Making text storable without losing the rest of it, and cutting it where no reader sees the seam.

PostgreSQL refuses NUL in text and no UTF-8 encoder accepts half a surrogate pair, so both
become U+FFFD. Other control characters except tab and newline become U+FFFD too, line
separators become a newline, and the result is in NFC. What only tells a terminal how to show
text (colours, links, cleared lines) goes. Ids are never mended: see `ids`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final

REPLACEMENT: Final = "\ufffd"

_PLAIN_ASCII: Final = bytes([0x09, 0x0A, *range(0x20, 0x7F)])
_LINE_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
# Sequences for terminals: with parameters (colours), links and titles, and of two characters.
_TERMINAL = re.compile(
    "\x1b(?:\\[[0-?]{0,64}[ -/]{0,8}[@-~]|\\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\\\)|[()*+][0-9A-Z])"
)
_UNSTORABLE = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
# Whatever one of the three would change. Looked for first, because hardly any text has it.
_SUSPECT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_ZWJ: Final = "\u200d"
_REGIONAL: Final = ("\U0001f1e6", "\U0001f1ff")
_STUCK_CATEGORIES: Final = frozenset({"Mn", "Mc", "Me"})
# What stays with the character before it although its category does not say so: ZWNJ and ZWJ, half-width
# voicing marks, Thai and Lao AM, emoji skin tones and tags, the later letters of a Hangul syllable.
_STUCK = re.compile(
    "[\u200c\u200d\uff9e\uff9f\u0e33\u0eb3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\u1160-\u11ff\ud7b0-\ud7fb]"
)
# What stays with the character after it: signs that a number or a letter is written under.
_HOLDS_NEXT = re.compile(
    "[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u0d4e\U000110bd\U000110cd\U000111c2\U000111c3"
    "\U0001193f\U00011941\U00011a3a\U00011a84-\U00011a89\U00011d46\U00011f02\u1100-\u115f\ua960-\ua97c]"
)
_VIRAMA: Final = 9  # the combining class of signs that join two consonants into one letter


def mend(text: str) -> str:
    """Return `text` as every store and wire can hold it. Idempotent; good text is returned as it is."""
    if text.encode("ascii").translate(None, _PLAIN_ASCII) if text.isascii() else _SUSPECT.search(text):
        text = _PAIR.sub(lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"), text)
        text = _TERMINAL.sub("", text)
        text = _UNSTORABLE.sub(REPLACEMENT, _LINE_BREAKS.sub("\n", text))
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def mend_json(value: Any) -> Any:
    """`mend` every string of a JSON value, keys included."""
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, list):
        return [mend_json(item) for item in value]
    if isinstance(value, dict):
        return {mend(str(key)): mend_json(item) for key, item in value.items()}
    return value


def one_line(text: str) -> str:
    """`mend`, with every run of white space as one space and none at the ends."""
    return " ".join(mend(text).split())


def utf8_length(text: str) -> int:
    """Bytes of mended text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def head(text: str, max_bytes: int) -> str:
    """Return the longest beginning of mended `text` that has at most `max_bytes` in UTF-8 and ends between
    two characters as people see them: no accent is cut off, no flag halved, no emoji family parted.
    """
    if utf8_length(text) <= max_bytes:
        return text
    fits = len(text[:max_bytes].encode("utf-8")[:max_bytes].decode("utf-8", "ignore"))
    return text[: seam(text, fits)]


def seam(text: str, at: int) -> int:
    """Return the last place at or before `at` where `text` can be cut without splitting a character as people
    see it. Where Unicode leaves a doubt the place is earlier, never later.
    """
    while 0 < at < len(text) and _are_one(text, at):
        at -= 1
    return at


def _are_one(text: str, at: int) -> bool:
    """Whether the code points on both sides of `at` belong to one character."""
    before, after = text[at - 1], text[at]
    if before < "\u0300" and after < "\u0300":
        return before == "\r" and after == "\n"
    if unicodedata.category(after) in _STUCK_CATEGORIES or _STUCK.match(after):
        return True
    if before == _ZWJ or unicodedata.combining(before) == _VIRAMA or _HOLDS_NEXT.match(before):
        return True
    if _REGIONAL[0] <= after <= _REGIONAL[1]:
        start = at
        while start > 0 and _REGIONAL[0] <= text[start - 1] <= _REGIONAL[1]:
            start -= 1
        return (at - start) % 2 == 1
    return "\uac00" <= before <= "\ud7a3" and "\u1160" <= after <= "\u11ff"
