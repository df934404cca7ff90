"""The values of a lease: who holds an agent, and the pass that is being worked on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from takeaways.schemas.queues import Kind
from takeaways.workers.models.resolve import AgentModel
from takeaways.workers.schedule.decide import Reason


@dataclass(frozen=True, slots=True)
class Pass:
    """One extraction or consolidation of an agent, over as many slices as it takes.

    `upto` is its horizon: the last arrival (extraction) or candidate place (consolidation) that was there when
    it began. The other numbers are the marks to set when it ends; what comes in meanwhile counts toward the
    next pass. `quarantine_id` names the batch that is tried alone.
    """

    reason: Reason
    upto: int
    asked: int
    runs: int = 0
    compactions: int = 0
    last_success_ms: int | None = None
    quarantine_id: str | None = None

    @classmethod
    def stored(cls, value: dict[str, Any]) -> Self:
        """Read what `to_json` wrote. What a newer worker stored beside it is ignored."""
        known = {field.name: value[field.name] for field in fields(cls) if field.name in value}
        return cls(**{**known, "reason": Reason(value["reason"])})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one agent. (agent, generation, epoch) is the fence: every commit names it.

    `attempts` counts the claims of what is tried now, this one included; `exhausted` says that it has been
    tried as often as it may and is to be set aside. `agent` is what the latest run said about its model.
    """

    agent_id: str
    generation: int
    epoch: int
    owner: str
    kind: Kind
    job_id: str
    work: Pass
    attempts: int
    exhausted: bool
    agent: AgentModel
