"""How a job ended, for people, Flower and metrics."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.tally import Grown

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended, in the words and numbers that people and Flower are shown. No message text."""

    outcome: Outcome
    job_id: str | None = None
    reason: str | None = None
    messages_read: int = 0
    candidates_made: int = 0
    candidates_settled: int = 0
    revision: int | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    detail: str | None = None
    model: str | None = None
    calls: int = 0
    cached_tokens: int = 0
    cost_microdollars: int | None = None
    waited_seconds: float | None = None
    """From when the work was due to the claim; None where nothing was claimed."""
    wait_seconds: float | None = None
    """How long nothing of the agent may start now."""
    grown: Grown | None = None
    set_aside: bool = False
    """Whether something was quarantined: a person may want to look."""

    @property
    def words(self) -> str:
        """The result as Flower shows it: the ending, what came of it, and what it cost."""
        counts = {
            "messages read": self.messages_read,
            "candidates made": self.candidates_made,
            "candidates settled": self.candidates_settled,
            "tokens": self.input_tokens + self.output_tokens,
        }
        parts = [f"{number:,} {what}" for what, number in counts.items() if number]
        if self.revision is not None:
            parts.append(f"revision {self.revision}")
        if self.wait_seconds:
            parts.append(f"again in {self.wait_seconds:,.0f} s")
        if detail := self.detail or (self.outcome.meaning if self.set_aside else None):
            parts.append(detail)
        if self.job_id:
            parts.append(f"job {self.job_id}")
        return ": ".join(filter(None, (self.outcome.value, "; ".join(parts))))
