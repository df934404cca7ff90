"""Foreign values as text that people can read: JSON where it is no text, bytes only named.

Nothing here raises on JSON, however deep or large its numbers are.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from takeaways.schemas.text import mend

MAX_LABEL_CHARS: Final = 1_000  # of ids, names, media types: more is no label
BYTES_KEYS: Final = ("data", "file_data", "blob", "bytes", "base64", "b64_json")
_MAX_SHOWN: Final = 60  # levels of one value shown as JSON
_MAX_INTEGER_BITS: Final = 4_096  # a longer number has more digits than Python writes out
_MIN_BYTES_CHARS: Final = 64  # base64 shorter than this is no file

DATA_URL: Final = re.compile(
    r"data:([\w.+-]{1,100}/[\w.+-]{1,100})?(?:;[^;,\s\"'<>]{0,100}){0,5};base64,"
    rf"([A-Za-z0-9+/=_-]{{{_MIN_BYTES_CHARS},}})",
    re.ASCII,
)
_BASE64: Final = re.compile(rf"[A-Za-z0-9+/=_\s-]{{{_MIN_BYTES_CHARS},}}")


def cleaned(said: str) -> str:
    """Mended text without the bytes of inline `data:` URLs."""
    return mend(DATA_URL.sub(_placeholder, said) if "base64," in said else said)


def written(value: Any) -> str:
    """Text as it is, nothing for null, and of all else its JSON."""
    if value is None:
        return ""
    return cleaned(value) if isinstance(value, str) else shown(value)


def shown(value: Any) -> str:
    """A JSON value as text that people can read; bytes in it and what is nested very deep are only named."""
    return mend(json.dumps(_presentable(value, 0), ensure_ascii=False))


def label(value: Any) -> str:
    """An id, name or media type: text of a bounded length."""
    said = value if isinstance(value, str) else "" if value is None else shown(value)
    return mend(said[:MAX_LABEL_CHARS])[:MAX_LABEL_CHARS]


def whole_number(value: Any) -> int | None:
    """The value where it is a sensible count, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def decoded_bytes(base64_text: str) -> int:
    """How many bytes base64 text stands for."""
    return len(base64_text) * 3 // 4 - base64_text[-2:].count("=")


def _placeholder(found: re.Match[str]) -> str:
    return f"[{found[1] or 'data'}, {decoded_bytes(found[2])} bytes]"


def _presentable(value: Any, level: int, key: str = "") -> Any:
    if isinstance(value, str):
        if key in BYTES_KEYS and len(value) >= _MIN_BYTES_CHARS and _BASE64.fullmatch(value):
            return f"[{decoded_bytes(value)} bytes]"
        return cleaned(value)
    if isinstance(value, bool | float) or value is None:
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= _MAX_INTEGER_BITS else "[a number of thousands of digits]"
    if level >= _MAX_SHOWN:
        return "[nested too deeply to show]"
    if isinstance(value, dict):
        return {mend(str(name)): _presentable(item, level + 1, str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_presentable(item, level + 1) for item in value]
    return f"[{type(value).__name__}]"
