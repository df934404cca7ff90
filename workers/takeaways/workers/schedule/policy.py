"""The numbers that the decision and the jobs go by. Every duration carries its unit."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from takeaways.schemas.ids import digest


@dataclass(frozen=True, slots=True)
class Policy:
    """Frozen thresholds. `hash` changes with those that a stored decision depends on."""

    runs_per_extraction: int = 5
    idle_seconds: float = 6 * 3600.0
    candidates_per_consolidation: int = 50
    rooms_summarised: int = 30

    lease_seconds: float = 60.0
    slice_seconds: float = 60.0
    call_seconds: float = 300.0
    max_attempts: int = 5
    quarantine_seconds: float = 24 * 3600.0
    daily_tokens: int | None = None
    """Tokens, sent and received, after which an agent's jobs stop until the next day (UTC)."""

    person_message_tokens: int = 8_000
    """Of one message, what is kept of what people said; the next three are for other speakers."""
    answer_message_tokens: int = 3_000
    agent_message_tokens: int = 2_000
    tool_message_tokens: int = 800

    raw_text_days: float | None = None
    """Days after its extraction that the text of a message is kept; None keeps it."""
    raw_text_quotes: bool = True
    """Whether quotes of such messages stay with the lessons."""

    hint_again_seconds: float = 30.0
    hint_again_max_seconds: float = 15 * 60.0

    @property
    def idle_ms(self) -> int:
        return round(self.idle_seconds * 1000)

    @property
    def lease_ms(self) -> int:
        return round(self.lease_seconds * 1000)

    def hint_wait_ms(self, hints: int) -> int:
        """How long after the `hints`-th unanswered hint somebody looks again: doubling, capped."""
        return round(
            min(self.hint_again_seconds * 2.0 ** max(hints - 1, 0), self.hint_again_max_seconds) * 1000
        )

    @property
    def hash(self) -> str:
        return digest(asdict(self))[:16]
