"""Giving the lease back: decide under the row's lock, and set when somebody must look again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, update
from sqlalchemy.engine import RowMapping

from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents
from takeaways.workers.faults import fault_point
from takeaways.workers.leases.lease import Lease
from takeaways.workers.schedule.decide import Decision, decide
from takeaways.workers.schedule.due import due_after
from takeaways.workers.schedule.moment import moment
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.state import AgentState


def release(
    connection: Connection,
    row: RowMapping,
    lease: Lease,
    *,
    policy: Policy,
    attempt_back: bool,
    values: dict[str, Any],
) -> Decision:
    """Free the agent inside a `fenced` transaction, set `values` with it, and say what is due next.

    `attempt_back` gives back the attempt that the claim counted. When something is due at once, the caller hints
    after the commit; `wake_at_ms` makes the sweep repeat that hint should it get lost.
    """
    ends_extraction = lease.kind is Kind.EXTRACTION and values.get("extraction_pass", lease) is None
    values = {"owner": None, "owner_kind": None, "lease_until_ms": None, "lease_boot": None, **values}
    if attempt_back:
        values["attempts"] = max(row["attempts"] - 1, 0)
    at = moment(connection)
    state, at_ms = AgentState.of({**row, **values}, at), at.now_ms
    decision = decide(state, policy, at_ms)
    if ends_extraction:
        # A consolidation that was due while this extraction went first goes next.
        waited = decision.consolidation.due is not None
        values["consolidation_waited"] = waited
        decision = decide(replace(state, consolidation_waited=waited), policy, at_ms)
    hinted = decision.next is not None
    values["wake_at_ms"] = at_ms + policy.hint_wait_ms(1) if hinted else decision.wake_at_ms
    values["hints"] = 1 if hinted else 0
    values |= due_after(dict(row), decision, at_ms).columns()
    connection.execute(update(agents).where(agents.c.agent_id == lease.agent_id).values(values))
    fault_point("in_release")
    return decision
