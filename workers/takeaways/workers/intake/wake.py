"""When somebody must look at an agent again, after a batch changed its row. Pure.

A hint is due only on the step from not due to due: what was due before has had its hint, and the sweep
repeats it should it be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from takeaways.workers.intake.taken import Hint
from takeaways.workers.schedule.decide import LONGEST_WAIT_MS, Decision
from takeaways.workers.schedule.due import NOT_DUE, Due, due_after
from takeaways.workers.schedule.policy import Policy


@dataclass(frozen=True, slots=True)
class Wake:
    """The agent's timer, and the hint to publish after the commit."""

    wake_at_ms: int | None
    hints: int
    hint: Hint | None = None
    left_for: str | None = None
    left_until_ms: int | None = None
    due: Due = NOT_DUE


def wake_after(
    row: Mapping[str, Any], before: Decision, after: Decision, policy: Policy, now_ms: int
) -> Wake:
    """What follows from `after` where `before` was what held for the row as it was."""
    if after.next is None or after.reason is None:
        return Wake(after.wake_at_ms, 0)
    due = due_after(row, after, now_ms)
    looked_at = row["wake_at_ms"] is None or row["wake_at_ms"] <= now_ms + LONGEST_WAIT_MS
    if after.next is before.next and looked_at:
        wake_at_ms = now_ms if row["wake_at_ms"] is None else row["wake_at_ms"]
        return Wake(wake_at_ms, row["hints"], None, row["left_for"], row["left_until_ms"], due)
    hint = Hint(after.next, row["agent_id"], after.reason.value)
    return Wake(now_ms + policy.hint_wait_ms(1), 1, hint, due=due)
