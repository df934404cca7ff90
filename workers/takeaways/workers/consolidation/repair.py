"""Asking once more with what was wrong, within the same room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from takeaways.workers.consolidation.render import repair_text
from takeaways.workers.models.answers import ConsolidationAnswer
from takeaways.workers.models.requests import ConsolidationRequest, Repair

SHARE: Final = 1 / 16
"""Of a step's tokens, so much is left free for the complaints."""
_MOST_COMPLAINTS: Final = 20


def repairing(
    request: ConsolidationRequest,
    answer: ConsolidationAnswer,
    complaints: tuple[str, ...],
    tokens: int,
    count: Callable[[str], int],
) -> ConsolidationRequest | None:
    """The request with the complaints about `answer`, which is shown too where `tokens` have room for it.

    None where not even the complaints fit.
    """
    told = complaints[:_MOST_COMPLAINTS]
    for shown in (Repair(told, answer), Repair(told)):
        if count(repair_text(shown)) <= tokens:
            return replace(request, repair=shown)
    return None
