r"""Characters that JSON wrote as escapes, as they are read: `"\u7d50\u679c"` costs six times the tokens, and nobody can
quote it.
"""

from __future__ import annotations

from typing import Final

import regex

from takeaways.schemas.text import mend

_ESCAPES: Final = regex.compile(r"(?<!\\)(?P<before>(?:\\\\)*+)(?P<escapes>(?:\\u[0-9a-fA-F]{4})++)")
_LEAST: Final = 0xA0  # below it are quotes, backslashes and control characters, which must stay escaped


def unescaped(text: str) -> str:
    """`text` that begins like JSON, with its letters in place of their escapes. It stays JSON if it was."""
    if "\\u" not in text or text.lstrip()[:1] not in ("{", "["):
        return text
    return _ESCAPES.sub(_characters, text)


def _characters(found: regex.Match[str]) -> str:
    codes = [int(code, 16) for code in found["escapes"].split("\\u")[1:]]
    written = "".join(chr(code) if code >= _LEAST else f"\\u{code:04x}" for code in codes)
    return str(found["before"]) + mend(written)
