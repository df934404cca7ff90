"""The table of shapes, in the order in which a file is held against them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from takeaways.workers.importing import (
    claude_code,
    locomo,
    longmemeval,
    message_list,
    swe_agent,
    tau_bench,
    team_chat,
)
from takeaways.workers.importing.shape import Shape

SHAPES: Final = (
    Shape("Claude Code session", claude_code.fits, claude_code.rooms),
    Shape("tau-bench results", tau_bench.fits, tau_bench.rooms),
    Shape("SWE-agent trajectory", swe_agent.fits, swe_agent.rooms),
    Shape("LoCoMo conversation", locomo.fits, locomo.rooms),
    Shape("LongMemEval steps", longmemeval.fits, longmemeval.rooms),
    Shape("team chat", team_chat.fits_file, team_chat.rooms_of_file),
    Shape("team chat message", team_chat.fits, team_chat.rooms),
    Shape("chat message", message_list.fits, message_list.rooms),
    Shape(
        "conversation of chat messages", message_list.fits_conversation, message_list.rooms_of_conversations
    ),
)


def shape_of(values: Iterable[Any]) -> Shape | None:
    """Return the shape of the first value that has one."""
    return next((shape for value in values for shape in SHAPES if shape.fits(value)), None)
