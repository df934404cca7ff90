"""Asking the model, within what it allows and what the agent may still spend today."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import select

from takeaways.schemas.database import assert_no_transaction, now_ms
from takeaways.schemas.errors import AnswerCut, FromModel, ModelRefused, TooLong, Transient
from takeaways.schemas.tables import agents
from takeaways.workers.models import Answered
from takeaways.workers.schedule.spending import day_ends_ms, day_of, left_tokens, spent_on

if TYPE_CHECKING:
    from takeaways.workers.jobs.job import Job

A = TypeVar("A")

_ANSWERS: Final = (AnswerCut, ModelRefused, TooLong)
"""Endings that show that the model is there and works."""
_LASTS_LONGER_SECONDS: Final = 30.0


class NotAdmitted(Transient):
    """The model may not be asked now; nothing was sent. `wait_seconds` is when to try again."""

    def __init__(self, model: str, wait_seconds: float) -> None:
        super().__init__(f"{model}: other calls go first")
        self.wait_seconds = wait_seconds


class OutOfTokens(Transient):
    """The step takes more than the agent may still spend today; nothing was sent."""

    def __init__(self, message: str, *, left: int, next_day_seconds: float) -> None:
        super().__init__(message)
        self.left = left
        self.next_day_seconds = next_day_seconds


@dataclass(frozen=True, slots=True)
class Today:
    """What an agent has spent on the day that it is (UTC), and how long the day still lasts."""

    spent_tokens: int
    ends_in_seconds: float


def ask_model(job: Job, tokens: int, call: Callable[[], Answered[A]]) -> Answered[A]:
    """Make one call of the model, whose step takes `tokens`. What a failed one cost is added to the job's tally.

    Raises what the model raises, `NotAdmitted` and `OutOfTokens`.
    """
    assert_no_transaction()
    model, limiter = job.model, job.services.limiter
    all_tokens = tokens + model.overhead_tokens(job.lease.kind)
    _check_today(job, all_tokens)
    call_id = uuid.uuid4().hex
    lasts_seconds = job.call.timeout_seconds + _LASTS_LONGER_SECONDS
    admission = limiter.admit(model.name, call_id, tokens=all_tokens, lasts_seconds=lasts_seconds)
    if admission.wait_seconds:
        raise NotAdmitted(model.name, admission.wait_seconds)
    # One bad answer says whether the model is well; a second one would say it again.
    job.call = replace(job.call, repairs=not admission.probe)
    answered = False
    try:
        result = call()
        answered = True
    except FromModel as error:
        answered = isinstance(error, _ANSWERS)
        job.tally.spent(error.spent, model.name)
        raise
    finally:
        limiter.ended(model.name, call_id, answered=answered)
    return result


def _check_today(job: Job, tokens: int) -> None:
    daily = job.services.policy.daily_tokens
    if daily is None:
        return
    today = _today(job)
    left = left_tokens(daily, today.spent_tokens) or 0
    if tokens <= left:
        return
    if today.spent_tokens == 0:
        why = (
            f"one step takes {tokens:,} tokens, more than TAKEAWAYS_DAILY_TOKENS ({daily:,}) allows for a day"
        )
    else:
        why = f"{today.spent_tokens:,} of {daily:,} tokens are used up today (TAKEAWAYS_DAILY_TOKENS)"
    raise OutOfTokens(why, left=left, next_day_seconds=today.ends_in_seconds)


def _today(job: Job) -> Today:
    with job.services.database.read() as connection:
        at_ms = now_ms(connection)
        row = connection.execute(
            select(agents.c.spent_day, agents.c.spent_tokens).where(agents.c.agent_id == job.lease.agent_id)
        ).one()
    day = day_of(at_ms)
    spent = spent_on(day, row.spent_day, row.spent_tokens) + job.tally.unrecorded_tokens
    return Today(spent, (day_ends_ms(day) - at_ms) / 1000)
