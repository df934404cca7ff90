"""What an agent waits for, in words. Pure: the decision and the state go in, sentences come out."""

from __future__ import annotations

from takeaways.schemas.queues import Kind
from takeaways.workers.cli.amounts import count, span_ms
from takeaways.workers.schedule.decide import Decision, Hold, Outlook, Reason
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.state import AgentState


def waits_for(state: AgentState, decision: Decision, policy: Policy, now_ms: int) -> str:
    """One sentence: what runs or is due, and when the rest will be. `now_ms` is the database's clock."""
    extraction = _extraction(state, decision.extraction, policy, now_ms)
    consolidation = _consolidation(state, decision.consolidation, policy, now_ms)
    parts = [extraction, consolidation]
    if decision.hold is Hold.LEASED and state.lease_kind is not None:
        running = f"{state.lease_kind} is running (its lease ends in {span_ms(state.lease_remaining_ms)})"
        parts = [running, consolidation if state.lease_kind is Kind.EXTRACTION else extraction]
    elif decision.hold is Hold.DAILY_TOKENS and decision.wake_at_ms is not None:
        wait = span_ms(decision.wake_at_ms - now_ms)
        parts.append(
            f"nothing starts for {wait}: {state.spent_tokens:,} of {policy.daily_tokens or 0:,} tokens are used up "
            "today (TAKEAWAYS_DAILY_TOKENS)"
        )
    elif decision.hold is not None and state.not_before_ms is not None:
        why = f" ({state.parked_because})" if state.parked_because else ""
        parts.append(f"nothing starts for {span_ms(state.not_before_ms - now_ms)}{why}")
    return "; ".join(parts)


def _extraction(state: AgentState, outlook: Outlook, policy: Policy, now_ms: int) -> str:
    match outlook.due:
        case Reason.UNDERWAY:
            return "extraction goes on with what is left of its pass"
        case Reason.ASKED:
            return "extraction was asked for"
        case Reason.RUNS:
            return f"extraction is due after {count(state.runs_waiting, 'run')}"
        case Reason.QUARANTINE_RETRY:
            return "extraction is due: what was set aside is tried again"
    words = f"{state.runs_waiting} of {count(policy.runs_per_extraction, 'run')} since the last extraction"
    if state.unread:
        words += f", {count(state.unread, 'message')} unread"
    if outlook.at_ms is not None:
        words += f", what was set aside is tried again in {span_ms(outlook.at_ms - now_ms)}"
    return words


def _consolidation(state: AgentState, outlook: Outlook, policy: Policy, now_ms: int) -> str:
    match outlook.due:
        case Reason.UNDERWAY:
            return "consolidation goes on with what is left of its pass"
        case Reason.ASKED:
            return "consolidation was asked for"
        case Reason.COMPACTED:
            return "consolidation is due: a room was compacted"
        case Reason.MANY_CANDIDATES:
            return f"consolidation is due: {count(state.candidates_waiting, 'candidate')} waiting"
        case Reason.QUARANTINE_RETRY:
            return "consolidation is due: what was set aside is tried again"
        case Reason.IDLE:
            return f"consolidation is due: no run for {span_ms(policy.idle_ms)}"
    more = policy.candidates_per_consolidation - state.candidates_waiting
    if outlook.at_ms is not None:
        wait = span_ms(outlook.at_ms - now_ms)
        return f"consolidation in {wait} or after {count(more, 'more candidate')}"
    return (
        f"consolidation {span_ms(policy.idle_ms)} after the next run or after {count(more, 'more candidate')}"
    )
