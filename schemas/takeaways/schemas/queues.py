"""Names on Redis, in one place. Producers know names, never task code.

| name | what | lifetime |
| --- | --- | --- |
| `takeaways:runs`, `takeaways:compactions` | event streams | permanent; trimmed below the oldest pending |
| `extraction`, `consolidation` with the broker's prefix | queues of hints | until a worker takes one |
| `takeaways:model:{NAME}:…` | when the model NAME may be asked, and how much | minutes; see `ModelKeys` |

`docs/redis-and-tables.md` describes every key.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """The two kinds of job. Each has a pool, a Celery queue and a task of its own."""

    EXTRACTION = "extraction"
    CONSOLIDATION = "consolidation"

    @property
    def other(self) -> Kind:
        return Kind.CONSOLIDATION if self is Kind.EXTRACTION else Kind.EXTRACTION


RUNS_STREAM: Final = "takeaways:runs"
COMPACTIONS_STREAM: Final = "takeaways:compactions"
STREAMS: Final = (RUNS_STREAM, COMPACTIONS_STREAM)
STREAM_OF_POOL: Final = {Kind.EXTRACTION: RUNS_STREAM, Kind.CONSOLIDATION: COMPACTIONS_STREAM}

GROUP: Final = "takeaways"
FIELD: Final = "event"

BROKER_PREFIX: Final = "takeaways:celery:"
TASK_OF_KIND: Final = {Kind.EXTRACTION: "takeaways.extract", Kind.CONSOLIDATION: "takeaways.consolidate"}


@dataclass(frozen=True, slots=True)
class ModelKeys:
    """The keys of one model, in one slot of a cluster. Each expires; losing one costs a request that is refused.

    pause: nobody asks until it expires. rounds: pauses in a row without an answer. troubled: the agents whose
    calls failed meanwhile. probe: the one call that finds out whether it is over. flight: calls that run.
    bucket: tokens of the last minute.
    """

    pause: str
    rounds: str
    troubled: str
    probe: str
    flight: str
    bucket: str

    @classmethod
    def of(cls, model: str) -> ModelKeys:
        return cls(*(f"takeaways:model:{{{model}}}:{name}" for name in cls.__slots__))
