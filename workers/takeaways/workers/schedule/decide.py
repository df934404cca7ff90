"""The decision: what is due for an agent, why, or when it will be. Pure; everybody asks it.

Extraction is due after enough successful runs since the last one; consolidation when the agent has been
idle, a room was compacted, or many candidates wait. A pass that was begun goes on before anything new of its
kind. When both are due extraction goes first, but a consolidation that has waited through one goes next.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from takeaways.schemas.queues import Kind
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.spending import day_ends_ms, day_of, left_tokens, spent_on
from takeaways.workers.schedule.state import AgentState


class Reason(StrEnum):
    """Why a job is due. Stored with the job; logs, metrics and pages use the same words."""

    UNDERWAY = "underway"
    ASKED = "asked"
    RUNS = "runs"
    QUARANTINE_RETRY = "quarantine_retry"
    COMPACTED = "compacted"
    MANY_CANDIDATES = "many_candidates"
    IDLE = "idle"


class Hold(StrEnum):
    """Why nothing may start although something is due."""

    LEASED = "leased"
    NOT_YET = "not_yet"
    PARKED = "parked"
    DAILY_TOKENS = "daily_tokens"


LONGEST_WAIT_MS: Final = 25 * 3_600_000
"""Nothing that is due is put off for longer. What seems to be was put off while the database's clock ran ahead."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """One kind's side of the decision: the reason it is due, or the instant it will be if nothing else comes."""

    due: Reason | None = None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """`next` may be claimed now, for `reason`; or nothing may, because of `hold` or because nothing is due.

    `wake_at_ms` is when somebody must look again; None when only an event can change the answer.
    """

    next: Kind | None
    reason: Reason | None
    hold: Hold | None
    wake_at_ms: int | None
    extraction: Outlook
    consolidation: Outlook

    def outlook(self, kind: Kind) -> Outlook:
        return self.extraction if kind is Kind.EXTRACTION else self.consolidation


def decide(state: AgentState, policy: Policy, now_ms: int) -> Decision:
    """Decide for one agent at `now_ms` (the database's clock)."""
    if state.lease_remaining_ms > LONGEST_WAIT_MS:
        state = replace(state, lease_remaining_ms=0)
    extraction = _extraction(state, policy, now_ms)
    consolidation = _consolidation(state, policy, now_ms)
    chosen = _choose(state, extraction, consolidation)
    if chosen is None:
        waits = [outlook.at_ms for outlook in (extraction, consolidation) if outlook.at_ms is not None]
        if state.lease_remaining_ms > 0:
            return Decision(
                None, None, Hold.LEASED, now_ms + state.lease_remaining_ms, extraction, consolidation
            )
        return Decision(None, None, None, min(waits, default=None), extraction, consolidation)
    hold, until_ms = _held(state, policy, now_ms)
    if hold is not None:
        return Decision(None, None, hold, until_ms, extraction, consolidation)
    reason = (extraction if chosen is Kind.EXTRACTION else consolidation).due
    return Decision(chosen, reason, None, now_ms, extraction, consolidation)


def _extraction(state: AgentState, policy: Policy, now_ms: int) -> Outlook:
    if state.extraction_underway:
        return Outlook(Reason.UNDERWAY)
    if state.extractions_asked > 0:
        return Outlook(Reason.ASKED)
    if state.runs_waiting >= policy.runs_per_extraction:
        return Outlook(Reason.RUNS)
    return _at(state.extraction_retry_ms, Reason.QUARANTINE_RETRY, now_ms)


def _consolidation(state: AgentState, policy: Policy, now_ms: int) -> Outlook:
    if state.consolidation_underway:
        return Outlook(Reason.UNDERWAY)
    if state.consolidations_asked > 0:
        return Outlook(Reason.ASKED)
    if state.compactions_waiting > 0:
        return Outlook(Reason.COMPACTED)
    if state.candidates_waiting >= policy.candidates_per_consolidation:
        return Outlook(Reason.MANY_CANDIDATES)
    retry = _at(state.consolidation_retry_ms, Reason.QUARANTINE_RETRY, now_ms)
    if state.last_success_ms is None or state.last_success_ms <= (state.idle_served_ms or 0):
        return retry
    idle = _at(state.last_success_ms + policy.idle_ms, Reason.IDLE, now_ms)
    return min(
        idle, retry, key=lambda outlook: (outlook.due is None, outlook.at_ms is None, outlook.at_ms or 0)
    )


def _at(at_ms: int | None, reason: Reason, now_ms: int) -> Outlook:
    if at_ms is None:
        return Outlook()
    return Outlook(reason) if at_ms <= now_ms else Outlook(at_ms=at_ms)


def _choose(state: AgentState, extraction: Outlook, consolidation: Outlook) -> Kind | None:
    if consolidation.due and (state.consolidation_waited or not extraction.due):
        return Kind.CONSOLIDATION
    return Kind.EXTRACTION if extraction.due else None


def _held(state: AgentState, policy: Policy, now_ms: int) -> tuple[Hold | None, int | None]:
    if state.lease_remaining_ms > 0:
        return Hold.LEASED, now_ms + state.lease_remaining_ms
    if state.not_before_ms is not None and now_ms < state.not_before_ms <= now_ms + LONGEST_WAIT_MS:
        return (Hold.PARKED if state.parked_because else Hold.NOT_YET), state.not_before_ms
    today = day_of(now_ms)
    if left_tokens(policy.daily_tokens, spent_on(today, state.spent_day, state.spent_tokens)) == 0:
        return Hold.DAILY_TOKENS, day_ends_ms(today)
    return None, None
