"""What a job has read, made and spent so far."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.models import Usage
from takeaways.workers.models.prices import Price, cost_microdollars

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Grown:
    """The memory before and after a consolidation: its lines, and the tokens that it takes afterwards."""

    lines_before: int
    lines_after: int
    tokens: int


@dataclass(slots=True)
class Tally:
    """What a job has read, made and spent so far."""

    messages_read: int = 0
    candidates_made: int = 0
    candidates_settled: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    cost_microdollars: int | None = 0
    revision: int | None = None
    model: str | None = None
    price: Price | None = None
    grown: Grown | None = None
    set_aside: Outcome | None = None
    recorded_tokens: int = 0

    def spent(self, usage: Usage, model: str) -> None:
        """Add what a call cost, whether it brought an answer or not. Without a price the sum is unknown."""
        self.model = model
        if not usage.calls:
            return
        self.calls += usage.calls
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cached_tokens += usage.cached_tokens
        self.written_tokens += usage.written_tokens
        cost = cost_microdollars(usage, self.price)
        known = cost is not None and self.cost_microdollars is not None
        self.cost_microdollars = (self.cost_microdollars or 0) + (cost or 0) if known else None

    def grew(self, lines_before: int, lines_after: int, tokens: int) -> None:
        """Note what a step made of the memory. Over several steps it is what it was before the first."""
        first = lines_before if self.grown is None else self.grown.lines_before
        self.grown = Grown(first, lines_after, tokens)

    @property
    def unrecorded_tokens(self) -> int:
        """What the agent's day does not yet count."""
        return self.input_tokens + self.output_tokens - self.recorded_tokens

    @property
    def stored_something(self) -> bool:
        return self.candidates_made > 0 or self.revision is not None
