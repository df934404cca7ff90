"""`MemoryModel`, the one seam between the pipeline and whatever reads the transcripts.

Raises: `ModelUnavailable` (ask again later), `CallAborted`, `ModelRefused`, `AnswerUnreadable`, `TooLong`. An
answer that is cut, empty or refused is never returned as if it were one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from takeaways.schemas.queues import Kind
from takeaways.workers.models.answers import ConsolidationAnswer, ExtractionAnswer
from takeaways.workers.models.requests import ConsolidationRequest, ExtractionRequest

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the calls behind one answer. `input_tokens` includes the cached ones."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    calls: int = 1


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    answer: T
    usage: Usage
    model: str


@dataclass(frozen=True, slots=True)
class Call:
    """The circumstances of one call: how long it may take, and the flag that calls it off (lease lost, shutdown)."""

    timeout_seconds: float = 300.0
    abort: threading.Event = field(default_factory=threading.Event)


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
        """The context window, in tokens."""
        ...

    def count_tokens(self, text: str) -> int:
        """Never less than the model would count."""
        ...

    def overhead_tokens(self, kind: Kind) -> int:
        """Tokens of the instructions and the schema that go with every request of this kind."""
        ...

    def extract(self, request: ExtractionRequest, call: Call) -> Answered[ExtractionAnswer]:
        """Read what is new in the rooms; answer with a summary and candidates for each."""
        ...

    def consolidate(self, request: ConsolidationRequest, call: Call) -> Answered[ConsolidationAnswer]:
        """Merge the candidates into the memory; answer with edits and an account of every candidate."""
        ...
