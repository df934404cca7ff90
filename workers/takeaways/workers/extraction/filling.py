"""Fitting a step by the provider's own count, where our estimate leaves much of it empty or falls short.

The estimate errs high, for some content by half and more: fuller steps send the instructions less often.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from takeaways.workers.extraction.segment import Planned
from takeaways.workers.models.requests import ExtractionRequest

NEAR: Final = 0.75
"""A plan below this share of its budget is not full because there is no more to read, or none that belongs with it."""
FULL: Final = 0.8
AIM: Final = 0.95
MOST: Final = 4.0


def filled(
    plan: Callable[[int], Planned],
    budget_tokens: int,
    step_tokens: int,
    exact: Callable[[ExtractionRequest], int | None],
) -> Planned:
    """What `plan` makes of the budget; or of another one, where by `exact` the step is over, or a fifth of it is empty.

    `exact` counts a whole request with its instructions, and is asked at most twice. Where it does not say, the
    estimate stands; a plan that is over `step_tokens` all the same is refused before it is sent.
    """
    planned = plan(budget_tokens)
    if not planned.request.rooms or planned.tokens < NEAR * budget_tokens:
        return planned
    true = exact(planned.request)
    if not true or FULL * step_tokens <= true <= step_tokens:
        return planned
    # Beside the budget stand the instructions, which stay as they are, at most as many as planned for.
    instructions, aim = step_tokens - budget_tokens, AIM * step_tokens
    share = min(MOST, aim / true, (aim - instructions) / max(1, true - instructions))
    other = plan(int(budget_tokens * share))
    if other.request == planned.request:
        return planned
    counted = exact(other.request)
    return other if counted and counted <= step_tokens else planned
