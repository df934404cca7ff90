"""`MemoryModel`, the one seam between the pipeline and whatever reads the transcripts.

How a call can end, and what the pipeline does then:

| ending | means | the pipeline |
| --- | --- | --- |
| `Answered` | a whole answer of our schema | checks it against what was asked, and commits |
| `ModelOverloaded` | rate limit, overload | gives the lease back, lets no worker ask `model` before then; no attempt |
| `ModelParked` | key, permission, model name, spend limit | parks the jobs that need `model`, one status; no attempt |
| `ModelFailed` | 5xx, network, deadline | gives the lease back, backs off with jitter; no attempt |
| `CallAborted` | the abort flag was set | ends the job; no attempt |
| `TooLong` | the step does not fit | halves the step and asks again at once |
| `AnswerCut` | cut, also with the larger output limit | halves the step and asks again at once |
| `ModelRefused` | the model declined | sets the segment aside with the reason; the rest goes on |
| `AnswerUnreadable` | empty or not of our schema, also after a repair turn | counts an attempt |
| `ModelRejected` | the provider calls the request invalid | counts an attempt |

`ModelOverloaded`, `ModelParked` and `ModelFailed` are `ModelUnavailable`, `AnswerCut` is `AnswerUnreadable`;
all are `FromModel` and say in `spent` what the call cost. An answer that is cut, empty or refused is never
returned as if it were one. A model repairs and retries within one call at most once for each cause, and never
waits: waiting is the pipeline's, without the lease.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from takeaways.schemas.queues import Kind
from takeaways.schemas.usage import Usage
from takeaways.workers.models.answers import ConsolidationAnswer, ExtractionAnswer
from takeaways.workers.models.requests import ConsolidationRequest, ExtractionRequest

T = TypeVar("T")

__all__ = ["Answered", "Call", "MemoryModel", "Usage"]


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    """A whole answer. `request_id` and `stop_reason` are the provider's, of the last request behind it."""

    answer: T
    usage: Usage
    model: str
    request_id: str = ""
    stop_reason: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """The circumstances of one call: how long it may take in all, and the flag that calls it off.

    `abort` is set when the lease is lost or the worker shuts down. The request to the provider is then closed.
    Without `repairs` an answer that cannot be read is not asked for again.
    """

    timeout_seconds: float = 300.0
    abort: threading.Event = field(default_factory=threading.Event)
    repairs: bool = True


class MemoryModel(Protocol):
    @property
    def name(self) -> str:
        """The working model, as jobs record it."""
        ...

    @property
    def prompt_version(self) -> str:
        """Changes whenever the same request could get another answer."""
        ...

    @property
    def window(self) -> int:
        """The context window, in tokens. May ask the provider, once; raises `ModelUnavailable` and its kinds."""
        ...

    def count_tokens(self, text: str) -> int:
        """Never less than the model would count. Local and quick: segments are cut with it."""
        ...

    def overhead_tokens(self, kind: Kind) -> int:
        """Tokens of the instructions and the schema that go with every request of this kind; errs high."""
        ...

    def exact_tokens(self, request: ExtractionRequest, call: Call) -> int | None:
        """How many tokens the whole request takes, instructions included, by the provider's own count.

        None where it gives none, for whatever reason: then the estimate stands.
        """
        ...

    def extract(self, request: ExtractionRequest, call: Call) -> Answered[ExtractionAnswer]:
        """Read what is new in the rooms; answer with a summary and candidates for each."""
        ...

    def consolidate(self, request: ConsolidationRequest, call: Call) -> Answered[ConsolidationAnswer]:
        """Merge the candidates into the memory; answer with edits and an account of every candidate."""
        ...
