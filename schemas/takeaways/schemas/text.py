"""Making text storable without losing the rest of it.

PostgreSQL refuses NUL in text and no UTF-8 encoder accepts half a surrogate pair, so both
become U+FFFD. Other control characters except tab and newline become U+FFFD too, line
separators become a newline, and the result is in NFC. Ids are never mended: see `ids`.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

_LINE_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_UNSTORABLE = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
REPLACEMENT = "\ufffd"


def mend(text: str) -> str:
    """Return `text` as every store and wire can hold it. Idempotent; already good text is returned as it is."""
    if text.isascii() and text.isprintable():
        return text
    text = _PAIR.sub(lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"), text)
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
