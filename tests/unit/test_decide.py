"""The decision as a table, and what must hold for every state."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeaways.schemas.queues import Kind
from takeaways.workers.schedule.decide import Decision, Hold, Reason, decide
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.state import AgentState

HOUR_MS = 3_600_000
NOW = 1_000 * HOUR_MS
TODAY = NOW // (24 * HOUR_MS)
POLICY = Policy(daily_tokens=10_000)
EXTRACTION, CONSOLIDATION = Kind.EXTRACTION, Kind.CONSOLIDATION


@pytest.mark.parametrize(
    ("state", "kind", "reason"),
    [
        pytest.param(AgentState(), None, None, id="an agent that did nothing waits for nothing"),
        pytest.param(AgentState(runs_waiting=4, unread=9), None, None, id="four runs are not enough"),
        pytest.param(AgentState(runs_waiting=5), EXTRACTION, Reason.RUNS, id="five runs are"),
        pytest.param(AgentState(unread=500), None, None, id="unread messages alone wait their turn"),
        pytest.param(AgentState(extractions_asked=1), EXTRACTION, Reason.ASKED, id="asked for"),
        pytest.param(
            AgentState(compactions_waiting=1), CONSOLIDATION, Reason.COMPACTED, id="a compaction consolidates"
        ),
        pytest.param(AgentState(candidates_waiting=49), None, None, id="49 candidates are not many"),
        pytest.param(AgentState(candidates_waiting=50), CONSOLIDATION, Reason.MANY_CANDIDATES, id="50 are"),
        pytest.param(
            AgentState(last_success_ms=NOW - 6 * HOUR_MS), CONSOLIDATION, Reason.IDLE, id="idle for six hours"
        ),
        pytest.param(
            AgentState(last_success_ms=NOW - 6 * HOUR_MS + 1), None, None, id="a millisecond too early"
        ),
        pytest.param(
            AgentState(last_success_ms=NOW - 9 * HOUR_MS, idle_served_ms=NOW - 9 * HOUR_MS),
            None,
            None,
            id="an idle time is served once",
        ),
        pytest.param(
            AgentState(last_success_ms=NOW - 7 * HOUR_MS, idle_served_ms=NOW - 9 * HOUR_MS),
            CONSOLIDATION,
            Reason.IDLE,
            id="a later run begins another",
        ),
        pytest.param(
            AgentState(runs_waiting=5, compactions_waiting=1),
            EXTRACTION,
            Reason.RUNS,
            id="both due: extraction first",
        ),
        pytest.param(
            AgentState(runs_waiting=5, compactions_waiting=1, consolidation_waited=True),
            CONSOLIDATION,
            Reason.COMPACTED,
            id="a consolidation that waited through one goes next",
        ),
        pytest.param(
            AgentState(runs_waiting=5, consolidation_waited=True),
            EXTRACTION,
            Reason.RUNS,
            id="waited, but nothing is due",
        ),
        pytest.param(
            AgentState(extraction_underway=True),
            EXTRACTION,
            Reason.UNDERWAY,
            id="a pass goes on over its slices",
        ),
        pytest.param(
            AgentState(consolidation_underway=True),
            CONSOLIDATION,
            Reason.UNDERWAY,
            id="so does the other kind",
        ),
        pytest.param(
            AgentState(extraction_retry_ms=NOW), EXTRACTION, Reason.QUARANTINE_RETRY, id="cooled down"
        ),
        pytest.param(AgentState(extraction_retry_ms=NOW + 1), None, None, id="not yet cooled down"),
        pytest.param(
            AgentState(consolidation_retry_ms=NOW),
            CONSOLIDATION,
            Reason.QUARANTINE_RETRY,
            id="candidates too",
        ),
    ],
)
def test_the_decision_is_a_table(state: AgentState, kind: Kind | None, reason: Reason | None) -> None:
    """What starts when is the promise that users plan by."""
    decision = decide(state, POLICY, NOW)

    assert (decision.next, decision.reason) == (kind, reason)


@pytest.mark.parametrize(
    ("state", "hold", "wake_at_ms"),
    [
        (AgentState(runs_waiting=5, lease_remaining_ms=700), Hold.LEASED, NOW + 700),
        (AgentState(runs_waiting=5, not_before_ms=NOW + 900), Hold.NOT_YET, NOW + 900),
        (
            AgentState(runs_waiting=5, not_before_ms=NOW + 900, parked_because="no key"),
            Hold.PARKED,
            NOW + 900,
        ),
        (AgentState(lease_remaining_ms=700), Hold.LEASED, NOW + 700),
        (
            AgentState(runs_waiting=5, spent_day=TODAY, spent_tokens=10_000),
            Hold.DAILY_TOKENS,
            (TODAY + 1) * 24 * HOUR_MS,
        ),
    ],
)
def test_what_is_held_back_says_why_and_until_when(state: AgentState, hold: Hold, wake_at_ms: int) -> None:
    """A job that may not start now has a name for it and a time to look again."""
    decision = decide(state, POLICY, NOW)

    assert (decision.next, decision.hold, decision.wake_at_ms) == (None, hold, wake_at_ms)


@pytest.mark.parametrize(
    ("spent_day", "spent_tokens", "limit"),
    [(TODAY, 9_999, 10_000), (TODAY - 1, 10_000, 10_000), (None, 0, 10_000), (TODAY, 10_000_000, None)],
)
def test_tokens_of_another_day_stop_nothing(
    spent_day: int | None, spent_tokens: int, limit: int | None
) -> None:
    """The stop ends at midnight by itself, and where nobody set a limit there is none."""
    state = AgentState(runs_waiting=5, spent_day=spent_day, spent_tokens=spent_tokens)

    assert decide(state, Policy(daily_tokens=limit), NOW).next is EXTRACTION


def test_waiting_for_the_idle_time_sets_the_timer() -> None:
    """The six hours fire without any event, so the row must say when."""
    decision = decide(AgentState(last_success_ms=NOW - HOUR_MS), POLICY, NOW)

    assert decision.wake_at_ms == NOW + 5 * HOUR_MS
    assert decision.consolidation.at_ms == NOW + 5 * HOUR_MS


counts = st.integers(0, 60)
instants = st.none() | st.integers(0, 2 * NOW)
states = st.builds(
    AgentState,
    runs_waiting=counts,
    unread=counts,
    extractions_asked=st.integers(0, 2),
    compactions_waiting=st.integers(0, 2),
    candidates_waiting=counts,
    consolidations_asked=st.integers(0, 2),
    last_success_ms=instants,
    idle_served_ms=instants,
    extraction_underway=st.booleans(),
    consolidation_underway=st.booleans(),
    consolidation_waited=st.booleans(),
    lease_remaining_ms=st.integers(0, 60_000),
    not_before_ms=instants,
    spent_day=st.none() | st.integers(0, 2 * TODAY),
    spent_tokens=st.integers(0, 20_000),
    extraction_retry_ms=instants,
    consolidation_retry_ms=instants,
)
moments = st.integers(0, 2 * NOW)


def something_is_due(decision: Decision) -> bool:
    return decision.extraction.due is not None or decision.consolidation.due is not None


@given(states, moments)
def test_it_always_says_why_or_when(state: AgentState, now_ms: int) -> None:
    """Status can explain every agent, and no agent that has work can fall asleep for good."""
    decision = decide(state, POLICY, now_ms)

    assert (decision.next is None) == (decision.reason is None)
    assert decision.next is None or decision.hold is None
    if something_is_due(decision):
        assert decision.next is not None or decision.hold is not None
        assert decision.wake_at_ms is not None


@given(states, moments)
def test_a_timer_never_fires_too_early(state: AgentState, now_ms: int) -> None:
    """Waking up before anything can have changed would be polling."""
    decision = decide(state, POLICY, now_ms)

    if decision.next is None and decision.wake_at_ms is not None:
        assert decision.wake_at_ms > now_ms


@given(states, moments, st.integers(0, NOW))
def test_what_is_due_stays_due_as_time_goes_by(state: AgentState, now_ms: int, later_ms: int) -> None:
    """Waiting alone never takes work back."""
    early, late = decide(state, POLICY, now_ms), decide(state, POLICY, now_ms + later_ms)

    for kind in Kind:
        if early.outlook(kind).due is not None:
            assert late.outlook(kind).due is not None


@given(states, moments)
def test_when_the_timer_fires_something_is_due(state: AgentState, now_ms: int) -> None:
    """An announced time is kept: at `wake_at_ms`, with the lease free, the decision is another one."""
    decision = decide(state, POLICY, now_ms)
    if decision.next is not None or decision.wake_at_ms is None:
        return

    free = dataclasses.replace(state, lease_remaining_ms=0)
    then = decide(free, POLICY, decision.wake_at_ms)

    assert then.next is not None or decision.hold is not None


@given(states, moments)
def test_a_held_agent_gets_no_second_job(state: AgentState, now_ms: int) -> None:
    """One job per agent at a time."""
    held = dataclasses.replace(state, lease_remaining_ms=max(state.lease_remaining_ms, 1))

    assert decide(held, POLICY, now_ms).next is None


@pytest.mark.parametrize(
    "state",
    [
        AgentState(runs_waiting=5, not_before_ms=NOW + 26 * HOUR_MS),
        AgentState(runs_waiting=5, not_before_ms=NOW + 26 * HOUR_MS, parked_because="the key is refused"),
        AgentState(runs_waiting=5, lease_remaining_ms=26 * HOUR_MS, lease_kind=CONSOLIDATION),
    ],
)
def test_what_a_clock_that_ran_ahead_put_off_is_due(state: AgentState) -> None:
    """Nothing is put off for more than a day, so a longer wait comes from a clock that was set right since."""
    assert decide(state, POLICY, NOW).next is EXTRACTION
