"""What a step may put into a model. `window` is in tokens, as is everything here.

One step takes half of the window, instructions and schema included; the other half is for the runtime's own
prompt and the answer. In a consolidation the memory takes at most half of the step.
"""

from __future__ import annotations

from typing import Final

from takeaways.schemas.errors import Permanent

LEAST_ROOM_TOKENS: Final = 256
"""Less than this holds no message worth reading beside its header."""


class WindowTooSmall(Permanent):
    """The fixed part of a step leaves no useful room in the model's window. Asking again changes nothing."""


def step_tokens(window: int) -> int:
    """The most that one extraction or consolidation puts into the model."""
    return window // 2


def memory_tokens(window: int) -> int:
    """The most that the memory takes in a consolidation."""
    return window // 4


def extraction_tokens(window: int, overhead: int) -> int:
    """What is left of a step for the transcript. Raises `WindowTooSmall` naming what takes the rest."""
    return step_tokens(window) - _fixed(window, ("the instructions and the schema", overhead))


def consolidation_tokens(window: int, overhead: int) -> int:
    """What is left of a step for the memory and the candidates together.

    Raises `WindowTooSmall` when a memory that fills its share would leave no room for a candidate.
    """
    fixed = ("the instructions and the schema", overhead)
    _fixed(window, fixed, ("the share of the memory", memory_tokens(window)))
    return step_tokens(window) - overhead


def _fixed(window: int, *parts: tuple[str, int]) -> int:
    total = sum(tokens for _, tokens in parts)
    if step_tokens(window) - total < LEAST_ROOM_TOKENS:
        taken = " and ".join(f"{what} ({tokens:,})" for what, tokens in parts)
        raise WindowTooSmall(
            f"the model's window of {window:,} tokens is too small: a step may use half of it "
            f"({step_tokens(window):,}), {taken} leave less than the {LEAST_ROOM_TOKENS} that are needed "
            "for the rest; use a model with a larger window"
        )
    return total
