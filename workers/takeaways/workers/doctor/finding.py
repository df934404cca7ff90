"""What was found about one thing, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from takeaways.workers.exits import Exit


class Health(StrEnum):
    """`away` is bad because something does not answer, `misconfigured` because it cannot work as it is set."""

    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"
    AWAY = "away"
    MISCONFIGURED = "misconfigured"


@dataclass(frozen=True, slots=True)
class Finding:
    """`found` is what is so; `advice` what to do, wherever it is not good."""

    part: str
    health: Health
    found: str
    advice: str | None = None


def exit_code(findings: Iterable[Finding]) -> Exit:
    """4 where a setting cannot work, 5 where something does not answer, 1 where something else is bad, else 0."""
    worst = {finding.health for finding in findings}
    if Health.MISCONFIGURED in worst:
        return Exit.MISCONFIGURED
    if Health.AWAY in worst:
        return Exit.UNAVAILABLE
    return Exit.FAILED if Health.BAD in worst else Exit.DONE
