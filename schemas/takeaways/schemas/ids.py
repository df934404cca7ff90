"""The rule for ids, and how one id is made from several.

An id is 1 to 255 code points without control characters or surrogates. It is opaque and
compared exactly; a bad one is refused, never mended, because mending could make two equal.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator, StringConstraints
from pydantic_core import PydanticCustomError

MAX_ID_LENGTH = 255


def why_bad(value: object) -> str | None:
    """Return what is wrong with an id, or None. The answer does not repeat the id."""
    if not isinstance(value, str):
        return f"an id is text, not {type(value).__name__}"
    if not value:
        return "an id is not empty"
    if len(value) > MAX_ID_LENGTH:
        return f"an id has at most {MAX_ID_LENGTH} code points, this one has {len(value)}"
    if not (value.isascii() and value.isprintable()):
        for place, character in enumerate(value):
            if unicodedata.category(character) in ("Cc", "Cs"):
                return f"an id has no control characters or surrogates, this one has U+{ord(character):04X} at {place}"
    return None


def _checked(value: str) -> str:
    if problem := why_bad(value):
        raise PydanticCustomError("bad_id", "{problem}", {"problem": problem})
    return value


Id = Annotated[str, StringConstraints(strict=True), AfterValidator(_checked)]


def digest(*parts: Any) -> str:
    """SHA-256 in hex over the canonical JSON of `parts`; a lone surrogate in them is escaped, not refused."""
    canonical = json.dumps(parts, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def derived(prefix: str, *parts: Any) -> str:
    """An idempotent id: the same parts give the same id, other parts another (128 bits of SHA-256)."""
    return f"{prefix}:{digest(*parts)[:32]}"
