"""What `status` says. Each row is a state of an agent and the sentence for it."""

from __future__ import annotations

import pytest

from takeaways.schemas.queues import Kind
from takeaways.workers.cli.amounts import count, span_ms
from takeaways.workers.cli.words import waits_for
from takeaways.workers.schedule.decide import decide
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.state import AgentState

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
POLICY = Policy(daily_tokens=50_000)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            AgentState(),
            (
                "0 of 5 runs since the last extraction; "
                "consolidation 6 h after the next run or after 50 more candidates"
            ),
        ),
        (
            AgentState(
                runs_waiting=3,
                candidates_waiting=3,
                last_success_ms=NOW_MS - HOUR_MS - 48 * MINUTE_MS,
            ),
            "3 of 5 runs since the last extraction; consolidation in 4 h 12 min or after 47 more candidates",
        ),
        (
            AgentState(runs_waiting=1, unread=12, candidates_waiting=49, last_success_ms=NOW_MS),
            (
                "1 of 5 runs since the last extraction, 12 messages unread; "
                "consolidation in 6 h or after 1 more candidate"
            ),
        ),
        (
            AgentState(runs_waiting=7, last_success_ms=NOW_MS),
            "extraction is due after 7 runs; consolidation in 6 h or after 50 more candidates",
        ),
        (
            AgentState(candidates_waiting=50, last_success_ms=NOW_MS),
            "0 of 5 runs since the last extraction; consolidation is due: 50 candidates waiting",
        ),
        (
            AgentState(consolidation_retry_ms=NOW_MS - 1),
            (
                "0 of 5 runs since the last extraction; "
                "consolidation is due: what was set aside is tried again"
            ),
        ),
        (
            AgentState(compactions_waiting=1),
            "0 of 5 runs since the last extraction; consolidation is due: a room was compacted",
        ),
        (
            AgentState(last_success_ms=NOW_MS - 7 * HOUR_MS),
            "0 of 5 runs since the last extraction; consolidation is due: no run for 6 h",
        ),
        (
            AgentState(extractions_asked=1, consolidations_asked=1),
            "extraction was asked for; consolidation was asked for",
        ),
        (
            AgentState(extraction_underway=True, consolidation_underway=True),
            (
                "extraction goes on with what is left of its pass; "
                "consolidation goes on with what is left of its pass"
            ),
        ),
        (
            AgentState(runs_waiting=5, lease_remaining_ms=42_000, lease_kind=Kind.EXTRACTION),
            (
                "extraction is running (its lease ends in 42 s); "
                "consolidation 6 h after the next run or after 50 more candidates"
            ),
        ),
        (
            AgentState(runs_waiting=5, not_before_ms=NOW_MS + 90_000, parked_because="rate limit"),
            (
                "extraction is due after 5 runs; "
                "consolidation 6 h after the next run or after 50 more candidates; "
                "nothing starts for 1 min 30 s (rate limit)"
            ),
        ),
        (
            AgentState(runs_waiting=5, spent_day=NOW_MS // (24 * HOUR_MS), spent_tokens=51_000),
            (
                "extraction is due after 5 runs; "
                "consolidation 6 h after the next run or after 50 more candidates; "
                f"nothing starts for {span_ms(24 * HOUR_MS - NOW_MS % (24 * HOUR_MS))}: "
                "51,000 of 50,000 tokens are used up today (TAKEAWAYS_DAILY_TOKENS)"
            ),
        ),
        (
            AgentState(extraction_retry_ms=NOW_MS + HOUR_MS),
            (
                "0 of 5 runs since the last extraction, what was set aside is tried again in 1 h; "
                "consolidation 6 h after the next run or after 50 more candidates"
            ),
        ),
    ],
)
def test_an_agent_waits_for(state: AgentState, words: str) -> None:
    """A person reads what happens next and when, and need not know the tables."""
    decision = decide(state, POLICY, NOW_MS)

    assert waits_for(state, decision, POLICY, NOW_MS) == words


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0, "1 s"),
        (1, "1 s"),
        (999, "1 s"),
        (1_001, "2 s"),
        (60_000, "1 min"),
        (61_000, "1 min 1 s"),
        (3_599_000, "59 min 59 s"),
        (3_600_000, "1 h"),
        (4 * HOUR_MS + 12 * MINUTE_MS + 59_000, "4 h 12 min"),
        (26 * HOUR_MS, "1 d 2 h"),
        (-5_000, "1 s"),
    ],
)
def test_a_duration_has_at_most_two_units(milliseconds: int, words: str) -> None:
    """A wait can be taken in at a glance, and none is ever said to be 0."""
    assert span_ms(milliseconds) == words


def test_counts_agree_with_their_nouns() -> None:
    """`1 run`, `7 runs`, and thousands can be read."""
    assert [count(1, "run"), count(7, "run"), count(2, "batch"), count(12_345, "message")] == [
        "1 run",
        "7 runs",
        "2 batches",
        "12,345 messages",
    ]
