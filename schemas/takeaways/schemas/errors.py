"""Errors, sorted by what the reader should do.

TakeawaysError
├── Permanent               never try again with the same input
│   ├── BadInput            a caller passed something that no rule admits
│   │   └── NotFound        a caller named something that there is not
│   ├── UnreadableMessage   an event that goes to the dead letters, whole
│   ├── EditRefused         a model's answer that breaks a rule of the memory
│   ├── ModelRefused        the model declined; the segment is set aside
│   ├── ModelRejected       the provider calls the request invalid; it counts as an attempt
│   ├── AnswerUnreadable    an answer that is empty or not of our schema; it counts as an attempt
│   │   └── AnswerCut       an answer that reached the output limit; a smaller step may do
│   ├── TooLong             the step does not fit the model's window; a smaller one may
│   ├── Misconfigured       settings or environment that cannot work
│   └── FencedOff           this worker lost its lease; its result is void
└── Transient               try again later
    ├── PublishFailed       Redis did not take an event within its time
    ├── StoreUnavailable    the database did not answer
    ├── CallAborted         the call was called off: lease lost, or the worker shuts down
    └── ModelUnavailable    the model did not answer; `retry_after_seconds` says when to ask again
        ├── ModelOverloaded rate limit or overload: nobody asks this model before then
        ├── ModelFailed     a fault of the server or the network: back off
        └── ModelParked     a person has to act (key, permission, model name, spend limit)

Whatever a model raises is also `FromModel`: it carries what the calls had cost by then.
"""

from __future__ import annotations

from enum import StrEnum

from takeaways.schemas.usage import NO_USAGE, Usage


class TakeawaysError(Exception):
    """Root of every error that we raise on purpose."""


class Permanent(TakeawaysError):
    """Trying again with the same input gives the same failure."""


class Transient(TakeawaysError):
    """Trying again later may work."""


class BadInput(Permanent, ValueError):
    """A caller passed a value that no rule admits; the text says which and why."""


class NotFound(BadInput):
    """There is nothing of the name that a caller gave; the text says what was looked for."""


class DeadLetterReason(StrEnum):
    """Why an entry of a stream was set aside. The same words stand in tables, logs and metrics."""

    NOT_JSON = "not_json"
    NOT_AN_EVENT = "not_an_event"
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_VERSION = "unknown_version"
    BAD_ID = "bad_id"
    BAD_FIELD = "bad_field"
    TOO_LARGE = "too_large"
    WRONG_STREAM = "wrong_stream"
    CONFLICTING_PAYLOAD = "conflicting_payload"
    REFUSED_BY_DATABASE = "refused_by_database"


class UnreadableMessage(Permanent):
    """An event that cannot be taken in. `reason` is a `DeadLetterReason`; the text never quotes a message."""

    def __init__(self, reason: DeadLetterReason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class EditRefused(Permanent):
    """A model's edits break a rule of the memory. `complaints` is one sentence per broken rule."""

    def __init__(self, complaints: tuple[str, ...]) -> None:
        super().__init__("; ".join(complaints))
        self.complaints = complaints


class FromModel(TakeawaysError):
    """What the call of a model ended with.

    `spent` is what the requests behind the call had cost by then, `request_id` the provider's name for the
    last of them, `stop_reason` its word for how that one stopped. All are set where the error is made.
    """

    spent: Usage = NO_USAGE
    request_id: str = ""
    stop_reason: str = ""


class ModelRefused(FromModel, Permanent):
    """The model declined to answer. `category` is the provider's word for why, where it gave one."""

    def __init__(self, category: str = "") -> None:
        super().__init__(f"the model refused{f' ({category})' if category else ''}")
        self.category = category


class ModelRejected(FromModel, Permanent):
    """The provider calls the request invalid. The same request will be rejected again."""


class AnswerUnreadable(FromModel, Permanent):
    """The answer was empty or not of our schema. The text says how, without quoting it."""


class AnswerCut(AnswerUnreadable):
    """The answer reached the output limit, also when it was given a larger one. Nothing of it is used."""


class TooLong(FromModel, Permanent):
    """The step does not fit the model's window. `limit_tokens` is what it takes, where that is known."""

    def __init__(self, message: str, limit_tokens: int | None = None) -> None:
        super().__init__(message)
        self.limit_tokens = limit_tokens


class Misconfigured(Permanent):
    """A setting or the environment cannot work; the text names it and says what to do."""


class FencedOff(Permanent):
    """The lease was lost, so nothing of this job may be committed."""


class PublishFailed(Transient):
    """Redis did not take the events within the time allowed. Publishing them again with the same ids is safe.

    `event_ids` are those that were sent and may not have arrived; of many, those behind them were not sent at all.
    """

    def __init__(self, message: str, event_ids: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.event_ids = event_ids


class StoreUnavailable(Transient):
    """The database did not answer."""


class CallAborted(FromModel, Transient):
    """The call was called off by its abort flag. Nothing was answered."""


class ModelUnavailable(FromModel, Transient):
    """The model did not answer. `retry_after_seconds` is the earliest sensible next try.

    `model` is the name of the model that it is about, where one is known.
    """

    def __init__(self, message: str, retry_after_seconds: float = 15.0, *, model: str = "") -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds
        self.model = model


class ModelOverloaded(ModelUnavailable):
    """A rate limit or an overload. Nobody should ask `model` before `retry_after_seconds` have passed.

    `limit_tokens` is how many tokens of input the provider takes in a minute, where it said so: a request that is
    larger is refused however long one waits.
    """

    limit_tokens: int | None = None


class ModelFailed(ModelUnavailable):
    """A fault of the server or of the network, or no answer within the deadline."""


class ParkedBecause(StrEnum):
    """What a person has to put right before a model answers again."""

    ADDRESS = "address"
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    UNKNOWN_MODEL = "unknown_model"
    SPEND_LIMIT = "spend_limit"


class ModelParked(ModelUnavailable):
    """`model` answers nobody until a person acts. `retry_after_seconds` is when to see whether somebody has."""

    def __init__(
        self, reason: ParkedBecause, message: str, retry_after_seconds: float = 300.0, *, model: str = ""
    ) -> None:
        super().__init__(message, retry_after_seconds, model=model)
        self.reason = reason
