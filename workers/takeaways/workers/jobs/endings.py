"""What a fault of the model means: what the shared limiter is told, and how the job ends. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from takeaways.schemas.errors import (
    AnswerUnreadable,
    ModelFailed,
    ModelParked,
    ModelRejected,
    ModelUnavailable,
    TakeawaysError,
)
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.models.limiter import ENOUGH_OF_UNREADABLE, Fault, Trouble

BACK_OFF_SECONDS: Final = 15.0
BACK_OFF_MAX_SECONDS: Final = 3600.0
RETRY_AFTER_MAX_SECONDS: Final = 3600.0
"""A provider that asks for more is asked again after this long: the header may be nonsense, and asking costs little."""
SPREAD: Final = 0.1
"""Agents that wait for the same model come back within this share of the wait, not all at once; those whose calls
failed within as much again.
"""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ends. `parked_because` is what `status` says until the agent may start again."""

    outcome: Outcome
    detail: str | None = None
    wait_seconds: float | None = None
    pass_done: bool = False
    parked_because: str | None = None
    attempt_back: bool = False


def fault_of(error: TakeawaysError) -> Fault | None:
    """What the error says about the model itself; None where it says nothing."""
    if isinstance(error, ModelParked):
        return Fault(_capped(error.retry_after_seconds), parked=True)
    if isinstance(error, ModelFailed):
        return Fault()
    if isinstance(error, ModelUnavailable):
        return Fault(_capped(error.retry_after_seconds))
    if isinstance(error, AnswerUnreadable | ModelRejected):
        return Fault(enough=ENOUGH_OF_UNREADABLE)
    return None


def ending_after(error: TakeawaysError, *, trouble: Trouble, attempts: int, jitter: float) -> Ending:
    """How a job ends that was stopped by the model. `jitter` lies between 0 and 1.

    Whatever the provider is to blame for costs no attempt. A failure counts only where the model has answered
    somebody since this agent's last one: then the batch may be what fails. An answer that cannot be read, and a request
    that is rejected, count until so many agents meet with them that the model is to blame.
    """
    # Behind the agents that the limiter held off: the next to find out is another one.
    wait_seconds = trouble.wait_seconds * (1 + SPREAD * (1 + jitter))
    if isinstance(error, ModelParked):
        return Ending(Outcome.PARKED, str(error), wait_seconds, parked_because=str(error), attempt_back=True)
    if isinstance(error, ModelFailed):
        return Ending(Outcome.UNAVAILABLE, str(error), wait_seconds, attempt_back=trouble.again)
    if isinstance(error, ModelUnavailable):
        return Ending(Outcome.OVERLOADED, str(error), wait_seconds, attempt_back=True)
    wait_seconds = max(wait_seconds, back_off_seconds(attempts, jitter))
    outcome = Outcome.FAILED if isinstance(error, ModelRejected) else Outcome.UNREADABLE_ANSWER
    return Ending(outcome, str(error)[:2_000], wait_seconds, attempt_back=trouble.of_all)


def back_off_seconds(attempts: int, jitter: float) -> float:
    """How long to wait after so many attempts: doubling from 15 s, at most an hour, half of it by `jitter`."""
    return min(BACK_OFF_SECONDS * 2.0 ** (attempts - 1), BACK_OFF_MAX_SECONDS) * (0.5 + jitter / 2)


def _capped(seconds: float) -> float:
    return min(max(seconds, 0.0), RETRY_AFTER_MAX_SECONDS)
