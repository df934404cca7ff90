"""Since when an agent waits for a worker, and what for. Written with every decision, for metrics alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from takeaways.workers.schedule.decide import Decision


class Due(NamedTuple):
    """The columns of `agents` that begin with `due_`, in their order. All are None where nothing may start."""

    since_ms: int | None = None
    kind: str | None = None
    reason: str | None = None

    def columns(self) -> dict[str, int | str | None]:
        return dict(zip(COLUMNS, self, strict=True))


COLUMNS: Final = ("due_since_ms", "due_kind", "due_reason")
NOT_DUE: Final = Due()


def due_after(row: Mapping[str, Any], decision: Decision, at_ms: int) -> Due:
    """What holds after `decision` where `row` is as it was. What was due already is due since then.

    `at_ms` is when it became due otherwise.
    """
    if decision.next is None or decision.reason is None:
        return NOT_DUE
    since_ms = row["due_since_ms"] if row["due_kind"] == decision.next.value else None
    return Due(at_ms if since_ms is None else since_ms, decision.next.value, decision.reason.value)
