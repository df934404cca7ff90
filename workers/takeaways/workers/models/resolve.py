"""Which model works for an agent: the one set for this kind of job, else the agent's own, else the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from takeaways.schemas.queues import Kind


@dataclass(frozen=True, slots=True)
class AgentModel:
    """What the agent's latest run said about its model. Both are None where no run said anything."""

    name: str | None = None
    window: int | None = None


@dataclass(frozen=True, slots=True)
class WorkingModels:
    """The operator's choice: a model for everything, and others for one kind of job."""

    default: str
    by_kind: Mapping[Kind, str] = field(default_factory=dict)


def working_name(kind: Kind, choice: WorkingModels, agent: AgentModel, served: Callable[[str], bool]) -> str:
    """The name of the model that works. `served` says whether the default's provider has a model of a name.

    A model that was set for a kind of job is meant for every agent: that is why somebody sets one.
    """
    if (chosen := choice.by_kind.get(kind)) is not None:
        return chosen
    if agent.name and agent.name != choice.default and served(agent.name):
        return agent.name
    return choice.default
