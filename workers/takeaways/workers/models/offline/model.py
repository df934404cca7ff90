"""`OfflineModel`: a memory model without a model. No key, no network, no download.

It quotes; it does not reason. It finds sentences by their wording, shortens them and compares their words,
and the same request always gets the same answer.
"""

from __future__ import annotations

from typing import Final, TypeVar

from pydantic import BaseModel

from takeaways.schemas.errors import CallAborted
from takeaways.schemas.queues import Kind
from takeaways.workers.models.answers import ConsolidationAnswer, ExtractionAnswer
from takeaways.workers.models.offline.embeddings import Embeddings
from takeaways.workers.models.offline.merging import merge
from takeaways.workers.models.offline.reading import read_room
from takeaways.workers.models.requests import ConsolidationRequest, ExtractionRequest
from takeaways.workers.models.seam import Answered, Call, Usage
from takeaways.workers.models.tokens import estimate

NAME: Final = "offline"
NAME_WITH_EMBEDDINGS: Final = "offline+local"
PROMPT_VERSION: Final = "rules-1"
DEFAULT_WINDOW: Final = 200_000

_A = TypeVar("_A", bound=BaseModel)


class OfflineModel:
    """Rules by default; with `embeddings=True` sentence embeddings have a say too (the extra `[local]`).

    Raises `Misconfigured` when the extra is asked for and not installed.
    """

    def __init__(self, *, embeddings: bool = False, window: int = DEFAULT_WINDOW) -> None:
        self._embeddings = Embeddings() if embeddings else None
        self._window = window

    @property
    def name(self) -> str:
        """`offline` or `offline+local`, as settings name it."""
        return NAME_WITH_EMBEDDINGS if self._embeddings else NAME

    @property
    def prompt_version(self) -> str:
        """The version of the rules."""
        return PROMPT_VERSION

    @property
    def window(self) -> int:
        """What a step is measured against; the rules themselves know no limit."""
        return self._window

    def count_tokens(self, text: str) -> int:
        """As a language model would count, on the high side."""
        return estimate(text)

    def overhead_tokens(self, kind: Kind) -> int:
        """Nothing goes with a request: the instructions are code."""
        return 0

    def exact_tokens(self, request: ExtractionRequest, call: Call) -> int | None:
        """The estimate is all there is."""
        return None

    def extract(self, request: ExtractionRequest, call: Call) -> Answered[ExtractionAnswer]:
        """The lessons that the rooms state in so many words, and a summary of each."""
        _check(call)
        answer = ExtractionAnswer(rooms=tuple(read_room(part, self._embeddings) for part in request.rooms))
        texts = (span.text for part in request.rooms for excerpt in part.excerpts for span in excerpt.spans)
        summaries = (part.previous_summary for part in request.rooms)
        return self._answered(answer, sum(map(estimate, (*texts, *summaries))))

    def consolidate(self, request: ConsolidationRequest, call: Call) -> Answered[ConsolidationAnswer]:
        """Edits that bring the candidates in, by the words that they share with the memory."""
        _check(call)
        answer = merge(request, self._embeddings.same if self._embeddings else None)
        lines = (line.text for section in request.sections for line in section.lines)
        return self._answered(answer, sum(map(estimate, (*lines, *(c.text for c in request.candidates)))))

    def _answered(self, answer: _A, input_tokens: int) -> Answered[_A]:
        usage = Usage(input_tokens=input_tokens, output_tokens=estimate(answer.model_dump_json()))
        return Answered(answer, usage, self.name)


def _check(call: Call) -> None:
    if call.abort.is_set():
        raise CallAborted("the call was called off before it began")
