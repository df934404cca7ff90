"""How a call of the tool `memory` can end. The same words stand in answers, logs and tests."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from takeaways.schemas.errors import Permanent


class Code(StrEnum):
    """The endings: first those that are fine, then those that changed nothing and say why."""

    ADDED = "added"
    REPLACED = "replaced"
    REMOVED = "removed"
    APPLIED = "applied"
    UNCHANGED = "unchanged"

    EMPTY_CONTENT = "empty_content"
    INVALID_ARGUMENT = "invalid_argument"
    INVALID_CHARACTERS = "invalid_characters"
    INVISIBLE_UNICODE = "invisible_unicode"
    RESERVED_MARKER = "reserved_marker"
    BLOCKED = "blocked"
    SECRET_DETECTED = "secret_detected"  # noqa: S105 - the name of an ending
    SCAN_FAILED = "scan_failed"
    OVER_BUDGET = "over_budget"
    ENTRY_TOO_LARGE = "entry_too_large"
    MISSING_OLD_TEXT = "missing_old_text"
    NO_MATCH = "no_match"
    AMBIGUOUS_MATCH = "ambiguous_match"
    WOULD_EMPTY_STORE = "would_empty_store"
    MISSING_ACTION = "missing_action"
    UNKNOWN_ACTION = "unknown_action"
    INVALID_TARGET = "invalid_target"
    NO_USER = "no_user"
    DISABLED = "disabled"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    STOP = "stop"

    CONFLICT = "conflict"
    UNAVAILABLE = "unavailable"
    CORRUPT_STORE = "corrupt_store"

    @property
    def is_fine(self) -> bool:
        return self in _FINE

    @property
    def is_retryable(self) -> bool:
        """Whether the very same call may succeed later."""
        return self in (Code.CONFLICT, Code.UNAVAILABLE)


_FINE: Final = frozenset({Code.ADDED, Code.REPLACED, Code.REMOVED, Code.APPLIED, Code.UNCHANGED})


class Refused(Permanent):
    """A change that a rule forbids; nothing was written. `facts` go into the answer beside the text."""

    def __init__(self, code: Code, error: str, **facts: Any) -> None:
        super().__init__(error)
        self.code = code
        self.error = error
        self.facts = facts
