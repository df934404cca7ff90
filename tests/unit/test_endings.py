"""What a fault of the model means for the limiter, the agent and its attempts, as tables."""

from __future__ import annotations

import pytest

from takeaways.schemas.errors import (
    AnswerUnreadable,
    ModelFailed,
    ModelOverloaded,
    ModelParked,
    ModelRefused,
    ModelRejected,
    ModelUnavailable,
    ParkedBecause,
    TakeawaysError,
)
from takeaways.workers.jobs.endings import back_off_seconds, ending_after, fault_of
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.models.limiter import Fault, Trouble

KEY = ModelParked(ParkedBecause.AUTHENTICATION, "the key is refused", 300.0)


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (ModelOverloaded("busy", 40), Fault(least_seconds=40)),
        (ModelOverloaded("busy", 1e9), Fault(least_seconds=3600)),
        (ModelOverloaded("busy", -1), Fault()),
        (ModelUnavailable("away", 20), Fault(least_seconds=20)),
        (ModelFailed("500", 15), Fault()),
        (KEY, Fault(least_seconds=300, parked=True)),
        (AnswerUnreadable("no JSON"), Fault(enough=3)),
        (ModelRejected("400"), Fault(enough=3)),
        (ModelRefused("bio"), None),
    ],
)
def test_what_the_limiter_is_told(error: TakeawaysError, fault: Fault | None) -> None:
    """A limit is everybody's at once; one bad answer is the batch's own until others get them too."""
    assert fault_of(error) == fault


@pytest.mark.parametrize(
    ("error", "again", "outcome", "attempt_back", "parked"),
    [
        (ModelOverloaded("busy", 40), False, Outcome.OVERLOADED, True, None),
        (ModelFailed("500"), True, Outcome.UNAVAILABLE, True, None),
        (ModelFailed("500"), False, Outcome.UNAVAILABLE, False, None),
        (KEY, False, Outcome.PARKED, True, "the key is refused"),
        (AnswerUnreadable("no JSON"), True, Outcome.UNREADABLE_ANSWER, False, None),
        (ModelRejected("400"), True, Outcome.FAILED, False, None),
    ],
)
def test_how_the_job_ends(
    error: TakeawaysError, again: bool, outcome: Outcome, attempt_back: bool, parked: str | None
) -> None:
    """Only what speaks against the batch uses up its attempts."""
    ending = ending_after(error, trouble=Trouble(100.0, again), attempts=1, jitter=0.5)

    assert (ending.outcome, ending.parked_because) == (outcome, parked)
    assert (ending.attempt_back or outcome.gives_attempt_back) is attempt_back
    assert ending.wait_seconds is not None
    assert 100 < ending.wait_seconds <= 120


@pytest.mark.parametrize("error", [AnswerUnreadable("no JSON"), ModelRejected("400")])
def test_what_happens_to_every_agent_costs_none_of_them_an_attempt(error: TakeawaysError) -> None:
    """A gateway that was changed for the worse must not set aside what a whole fleet has to read."""
    ending = ending_after(error, trouble=Trouble(100.0, again=True, of_all=True), attempts=1, jitter=0.5)

    assert ending.attempt_back


def test_the_back_off_of_a_bad_answer_doubles_up_to_an_hour() -> None:
    """A batch that cannot be read is tried less and less often, and never given up within minutes."""
    assert [back_off_seconds(attempts, 1.0) for attempts in (1, 2, 3, 4, 20)] == [15, 30, 60, 120, 3600]
    assert back_off_seconds(3, 0.0) == 30
