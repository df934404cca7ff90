"""Putting into a secret's place what it was."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from takeaways.schemas.secrets.finding import find
from takeaways.schemas.secrets.spans import MASK, Found

_MASKS: Final = re.compile(re.escape(MASK) + r"[^\]\n]{1,80}\]")


def placeholder(kind: str) -> str:
    """What stands for a secret of this kind. It holds no quote and no backslash, so it can stand in JSON text."""
    return f"{MASK}{kind}]"


def mask(text: str) -> str:
    """`text` with every secret replaced by its kind; what is around it stays. Idempotent.

    A text without a secret is returned as the same object.
    """
    return masked_at(text, find(text))


def without_masks(text: str) -> str:
    """What is left of a masked text."""
    return _MASKS.sub("", text) if MASK in text else text


def masked_at(text: str, found: Iterable[Found]) -> str:
    """`text` with these places masked: in order, none overlapping another."""
    pieces: list[str] = []
    at = 0
    for one in found:
        pieces += (text[at : one.start], placeholder(one.kind))
        at = one.end
    return "".join((*pieces, text[at:])) if pieces else text
