"""Every ending of a job has a name. Tables, logs, metrics, Flower and the command line use the same words."""

from __future__ import annotations

import logging
from enum import StrEnum


class Outcome(StrEnum):
    """How a job ended. `meaning` is the sentence for people; the two properties say what follows from it."""

    REMEMBERED = "remembered"
    NOTHING_TO_REMEMBER = "nothing_to_remember"
    NOTHING_DUE = "nothing_due"
    BUSY = "busy"
    CONTINUES = "continues"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    PARKED = "parked"
    DAILY_TOKENS = "daily_tokens"
    HANDED_OVER = "handed_over"
    INTERRUPTED = "interrupted"
    FENCED_OFF = "fenced_off"
    REFUSED = "refused"
    TOO_LONG = "too_long"
    UNREADABLE_ANSWER = "unreadable_answer"
    REFUSED_EDITS = "refused_edits"
    FAILED = "failed"
    QUARANTINED = "quarantined"

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]

    @property
    def is_success(self) -> bool:
        """Whether the work that was due is done, so that nothing of it is tried again."""
        return self in (Outcome.REMEMBERED, Outcome.NOTHING_TO_REMEMBER, Outcome.NOTHING_DUE)

    @property
    def is_tried_again(self) -> bool:
        """Whether something kept the job from its work, which therefore waits for another time."""
        return not self.is_success and self not in (Outcome.BUSY, Outcome.CONTINUES, Outcome.HANDED_OVER)

    @property
    def gives_attempt_back(self) -> bool:
        """Whether the ending says nothing against the batch, so that its attempt does not count."""
        return self in (
            Outcome.BUSY,
            Outcome.CONTINUES,
            Outcome.OVERLOADED,
            Outcome.PARKED,
            Outcome.DAILY_TOKENS,
            Outcome.HANDED_OVER,
            Outcome.INTERRUPTED,
            Outcome.FENCED_OFF,
        )


def level_of(outcome: Outcome, *, set_aside: bool) -> int:
    """How loud the log says it: errors are for now, warnings for when they repeat, the rest for who asks."""
    if outcome is Outcome.FAILED:
        return logging.ERROR
    if set_aside or outcome in _LOUDER:
        return logging.WARNING
    return logging.INFO


_LOUDER = frozenset(
    {
        Outcome.PARKED,
        Outcome.FENCED_OFF,
        Outcome.REFUSED,
        Outcome.TOO_LONG,
        Outcome.UNREADABLE_ANSWER,
        Outcome.REFUSED_EDITS,
        Outcome.QUARANTINED,
    }
)

_MEANINGS = {
    Outcome.REMEMBERED: "something new was stored: candidates, or a revision of the memory",
    Outcome.NOTHING_TO_REMEMBER: "everything was read and there was nothing lasting in it",
    Outcome.NOTHING_DUE: "the hint came late or twice; the work is already done",
    Outcome.BUSY: "another job holds the agent; that one, or the sweep, goes on",
    Outcome.CONTINUES: "the slice is over and its progress is stored; the rest is hinted again",
    Outcome.OVERLOADED: "the model is overloaded or limits its rate; the lease was given back until then",
    Outcome.UNAVAILABLE: "the model failed or could not be reached; the lease was given back until the next try",
    Outcome.PARKED: "a person has to act before the model can work: a key, a permission, a name, a limit, a window",
    Outcome.DAILY_TOKENS: "the agent's tokens of the day are used up; the rest waits for the next day (UTC)",
    Outcome.HANDED_OVER: "the batch is with the provider and its answer comes later (reserved; nothing ends so yet)",
    Outcome.INTERRUPTED: "the worker shuts down; the rest waits for another one",
    Outcome.FENCED_OFF: "the lease was lost, so the result was thrown away",
    Outcome.REFUSED: "the model declined to answer",
    Outcome.TOO_LONG: "the step does not fit the model's window, even halved",
    Outcome.UNREADABLE_ANSWER: "the model's answer was cut, empty or not of our schema",
    Outcome.REFUSED_EDITS: "the model's edits break a rule of the memory, so nothing was changed",
    Outcome.FAILED: "an error that is none of the others; the job's detail and the log name it",
    Outcome.QUARANTINED: "the batch failed as often as it may and is set aside, visibly; the rest goes on",
}
