"""The rule for ids, and how one id is made from several.

An id is 1 to 255 code points without control characters or surrogates. It is opaque and
compared exactly; a bad one is refused, never mended, because mending could make two equal.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

MAX_ID_LENGTH = 255
ID_PATTERN = "^[^\\u0000-\\u001f\\u007f-\\u009f]+$"  # for JSON Schemas: no control characters


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
                found = f"U+{ord(character):04X} at {place}"
                return f"an id has no control characters or surrogates, this one has {found}"
    return None


def _checked(value: Any) -> Any:
    if problem := why_bad(value):
        raise PydanticCustomError("bad_id", "{problem}", {"problem": problem})
    return value


# The lengths stand here for the JSON Schema made of it; `_checked` runs before and says what is wrong.
Id = Annotated[
    str,
    BeforeValidator(_checked),
    Field(min_length=1, max_length=MAX_ID_LENGTH, json_schema_extra={"pattern": ID_PATTERN}),
]


def digest(*parts: Any) -> str:
    """SHA-256 in hex over the canonical JSON of `parts`; a lone surrogate in them is escaped, not refused."""
    canonical = json.dumps(parts, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def derived(prefix: str, *parts: Any) -> str:
    """An idempotent id: the same parts give the same id, other parts another (128 bits of SHA-256)."""
    return f"{prefix}:{digest(*parts)[:32]}"


def message_id(run_id: str, ordinal: int) -> str:
    """The id of a message that came without one: the run's and its place in the whole run, from 0.

    Producers stamp it before they split a run, readers give it to what nobody stamped. Where it would be
    longer than an id may be, a digest stands in its place.
    """
    readable = f"{run_id}#{ordinal}"
    return readable if len(readable) <= MAX_ID_LENGTH else derived("message", run_id, ordinal)
