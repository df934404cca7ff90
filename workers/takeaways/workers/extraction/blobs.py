"""Bytes that were written as text: base64 and hexadecimal digits, on one line or wrapped.

Nobody says them and no model reads them; whole, they would be all that is kept of the message around them.
"""

from __future__ import annotations

from typing import Final

import regex

from takeaways.schemas.readable import decoded_bytes

_LEAST: Final = 200
_RUN: Final = regex.compile(
    rf"(?<![A-Za-z0-9+/=_-])(?:(?:[A-Za-z0-9+/]{{60,120}}(?:\r?\n[ \t]*+|\\r?\\n|\\n)){{4,}}+[A-Za-z0-9+/]{{0,120}}+|"
    rf"[A-Za-z0-9+/_-]{{{_LEAST},}}+)={{0,2}}"
)
_HEXADECIMAL: Final = regex.compile(r"[0-9a-fA-F]+")
_BREAKS: Final = regex.compile(r"\\r|\\n|\s")
_UPPER: Final = regex.compile(r"[A-Z]")
_SHARE: Final = 0.1


def without_blobs(text: str) -> str:
    """`text` with a short placeholder for each long run of bytes."""
    return _RUN.sub(_placeholder, text) if len(text) >= _LEAST else text


def _placeholder(found: regex.Match[str]) -> str:
    run = _BREAKS.sub("", found.group())
    if len(run) < _LEAST or len(set(run)) < 3:
        return found.group()
    if _HEXADECIMAL.fullmatch(run) and not run.isalpha():
        return f"[data, {len(run) // 2:,} bytes]"
    # A long path or a name in capitals and small letters has few capitals; random bytes have four in ten.
    if len(_UPPER.findall(run)) < _SHARE * len(run):
        return found.group()
    return f"[data, {decoded_bytes(run):,} bytes]"
