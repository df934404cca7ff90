"""One entry is one line: what becomes of content before it is kept, and how long a note is.

Idempotent: an entry that is read back and written again is the same entry.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from takeaways.recall.standing.codes import Code, Refused

# No cap comes near this. Longer content is refused before anything looks into it.
MOST_CHARACTERS: Final = 100_000

_BREAKS: Final = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x85\u2028\u2029"
_BULLET = re.compile(r"(?:[-*](?: |$))+")
_BLANK: Final = " \u2800\u200e\u200f\u061c"
"""Characters that an entry may hold and that alone show nothing."""
_MARKER = re.compile(r"═{10}|</?\s*(?:standing-notes|agent-memory)\b", re.IGNORECASE)


def entry(content: object, *, cap: int) -> str:
    """`content` as the line that is kept. Raises `Refused` for what cannot be one."""
    if content is None:
        raise Refused(Code.EMPTY_CONTENT, "There is no content. Say in `content` what to keep.")
    if not isinstance(content, str):
        raise Refused(Code.INVALID_ARGUMENT, f"`content` is text, not {type(content).__name__}.")
    if len(content) > max(MOST_CHARACTERS, 10 * cap):
        raise Refused(
            Code.ENTRY_TOO_LARGE,
            f"The content has {len(content)} characters; all entries together have room for {cap}. "
            "It can never fit: keep the one fact that matters, in a few words.",
            over_by=len(content) - cap,
        )
    check_characters(content)
    line = canonical(content)
    if not line.strip(_BLANK):
        raise Refused(
            Code.EMPTY_CONTENT,
            "The content is empty. To delete an entry use the action `remove` with `old_text`.",
        )
    if _MARKER.search(line):
        raise Refused(
            Code.RESERVED_MARKER,
            "The content looks like the frame that notes are shown in. Leave the frame out.",
        )
    return line


def canonical(content: str) -> str:
    """NFC, one line, one space where white space was, no byte order mark and no bullet in front."""
    line = " ".join(unicodedata.normalize("NFC", content.removeprefix("\ufeff")).split())
    bullet = _BULLET.match(line)
    return line[bullet.end() :] if bullet else line


def check_characters(content: str) -> None:
    """Raise `Refused` for what no store or no wire can hold. Line breaks are white space and are fine."""
    for place, character in enumerate(content):
        if character not in _BREAKS and unicodedata.category(character) in ("Cc", "Cs"):
            raise Refused(
                Code.INVALID_CHARACTERS,
                f"The content has a control character or half a surrogate pair: U+{ord(character):04X} at "
                f"{place}. Leave it out.",
                offset=place,
            )


def is_marker(line: str) -> bool:
    """Whether a line poses as the frame that notes are shown in."""
    return _MARKER.search(line) is not None


def size(entries: Iterable[str]) -> int:
    """The length of a note in characters (code points), with a line break between entries."""
    return len("\n".join(entries))
