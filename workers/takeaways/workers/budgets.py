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


def extraction_room(window: int, overhead: int) -> int:
    """What is left of a step for the transcript. Raises `WindowTooSmall` naming what takes the rest."""
    return _left(window, (("the instructions and the schema", overhead),))


def consolidation_room(window: int, overhead: int, memory: int) -> int:
    """What is left of a step for candidates beside `memory` tokens of memory. Raises `WindowTooSmall`."""
    return _left(window, (("the instructions and the schema", overhead), ("the memory", memory)))


def _left(window: int, fixed: tuple[tuple[str, int], ...]) -> int:
    left = step_tokens(window) - sum(tokens for _, tokens in fixed)
    if left < LEAST_ROOM_TOKENS:
        parts = " and ".join(f"{what} take {tokens:,} tokens" for what, tokens in fixed)
        raise WindowTooSmall(
            f"the model's window of {window:,} tokens is too small: a step may use half of it "
            f"({step_tokens(window):,}), {parts}, and the rest needs at least {LEAST_ROOM_TOKENS}; "
            "use a model with a larger window"
        )
    return left
