"""Half a window for a step, half of that for the memory."""

from __future__ import annotations

import pytest

from takeaways.schemas.errors import Permanent
from takeaways.workers.jobs.budgets import (
    WindowTooSmall,
    consolidation_tokens,
    extraction_tokens,
    memory_tokens,
    step_tokens,
)


def test_a_step_takes_half_of_the_window_and_the_memory_half_of_the_step() -> None:
    """The other half stays free for the runtime's own prompt and the answer."""
    assert (step_tokens(200_000), memory_tokens(200_000)) == (100_000, 50_000)
    assert (step_tokens(32_001), memory_tokens(32_003)) == (16_000, 8_000)


def test_instructions_come_out_of_the_step_not_on_top_of_it() -> None:
    """The promise of half a window holds for all that is sent."""
    assert extraction_tokens(32_000, overhead=1_800) == 14_200
    assert consolidation_tokens(32_000, overhead=1_800) == 14_200


def test_a_window_that_the_instructions_fill_fails_at_once_and_names_them() -> None:
    """Otherwise a room shrinks to nothing for ever, or a negative budget is sent (MA-11)."""
    with pytest.raises(
        WindowTooSmall, match=r"window of 3,000 tokens.*instructions and the schema .1,800. leave less"
    ):
        extraction_tokens(3_000, overhead=1_800)

    assert issubclass(WindowTooSmall, Permanent)


def test_a_window_that_instructions_and_memory_share_without_rest_is_named_too() -> None:
    """Whoever reads the message must know that the memory takes its part of the step."""
    with pytest.raises(WindowTooSmall, match=r"the share of the memory .1,500. leave less"):
        consolidation_tokens(6_000, overhead=1_400)
