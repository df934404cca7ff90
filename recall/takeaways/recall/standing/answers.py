"""What the tool answers: the same fields for every ending, so that a model and a program both can read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from takeaways.recall.standing.codes import Code, Refused
from takeaways.recall.standing.guard import Scan, shown
from takeaways.recall.standing.render import usage
from takeaways.recall.standing.request import Target
from takeaways.recall.standing.rules import Change
from takeaways.recall.standing.store import Held
from takeaways.recall.standing.text import size

PREVIEW_CHARS: Final = 80
# The model needs to see the entries to mend these.
_SHOWS_ENTRIES: Final = frozenset(
    {
        Code.OVER_BUDGET,
        Code.ENTRY_TOO_LARGE,
        Code.MISSING_OLD_TEXT,
        Code.NO_MATCH,
        Code.AMBIGUOUS_MATCH,
        Code.WOULD_EMPTY_STORE,
    }
)
_QUOTES: Final = ("removed_entry", "replaced_entry")
STOPPED: Final = (
    "Changing the notes has failed too often in this turn. Stop trying: go on with what the user asked for."
)


def done(
    target: Target, change: Change, held: Held, cap: int, scan: Scan, *, changed: bool
) -> dict[str, Any]:
    """The answer to a change; `held` is the note after it. The entries are not repeated."""
    facts = {
        name: shown([value], scan)[0].replace("entry 1", "entry") if name in _QUOTES else value
        for name, value in change.facts.items()
    }
    return {
        "ok": True,
        "code": change.code,
        "message": change.message,
        **_state(target, held, cap),
        "changed": changed,
        **facts,
    }


def refused(target: Target, why: Refused, held: Held | None, cap: int, scan: Scan) -> dict[str, Any]:
    """The answer to a change that was not made; `held` is the note as it is, where it could be read."""
    facts = dict(why.facts)
    entries: list[str] = []
    if held is not None and (why.code in _SHOWS_ENTRIES):
        entries = shown(held.entries, scan)
        if "matches" in facts:
            facts["matches"] = _previews(entries, facts["matches"])
        facts["current_entries"] = entries
    return {
        "ok": False,
        "code": why.code,
        "error": why.error,
        **({"target": target} if held is None else _state(target, held, cap)),
        "changed": False,
        "retryable": why.code.is_retryable,
        **facts,
    }


def stopped(target: Target, held: Held | None, cap: int) -> dict[str, Any]:
    """The last word in a turn, without advice and without entries."""
    return {
        "ok": False,
        "code": Code.STOP,
        "error": STOPPED,
        **({"target": target} if held is None else _state(target, held, cap)),
        "changed": False,
        "retryable": False,
        "done": True,
    }


def _state(target: Target, held: Held, cap: int) -> dict[str, Any]:
    return {
        "target": target,
        "usage": usage(held.entries, cap),
        "used": size(held.entries),
        "limit": cap,
        "version": held.version,
        "entry_count": len(held.entries),
    }


def _previews(entries: Sequence[str], places: Sequence[int]) -> list[str]:
    chosen = [entries[place] for place in places]
    return [line if len(line) <= PREVIEW_CHARS else line[: PREVIEW_CHARS - 1] + "…" for line in chosen]
