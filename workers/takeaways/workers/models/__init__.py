"""The one seam to a model: what it is asked (`requests`), what it answers (`answers`), what it is (`MemoryModel`)."""

from __future__ import annotations

from takeaways.workers.models.answers import ConsolidationAnswer, ExtractionAnswer
from takeaways.workers.models.requests import ConsolidationRequest, ExtractionRequest
from takeaways.workers.models.seam import Answered, Call, MemoryModel, Usage

__all__ = [
    "Answered",
    "Call",
    "ConsolidationAnswer",
    "ConsolidationRequest",
    "ExtractionAnswer",
    "ExtractionRequest",
    "MemoryModel",
    "Usage",
]
