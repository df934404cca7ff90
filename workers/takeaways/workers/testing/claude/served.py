"""The models that the server has, and how it counts their tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Count = Callable[[str], int]
EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")
THINKING: Final = ("adaptive", "between_tools", "disabled", "enabled")


def dense_count(text: str) -> int:
    """One token for each character beyond ASCII, one for two others: more than any model counts of ordinary text."""
    ascii_characters = len(text.encode("ascii", "ignore"))
    return (ascii_characters + 1) // 2 + len(text) - ascii_characters


@dataclass(frozen=True, slots=True)
class Served:
    """A model. `None` for a window is an API that does not say; `structured` is whether it takes our schemas."""

    name: str
    window: int | None = 1_000_000
    most_output: int | None = 128_000
    structured: bool = True
    thinking: tuple[str, ...] = ("adaptive", "disabled")
    efforts: tuple[str, ...] = ("low", "medium", "high")

    def info(self) -> dict[str, Any]:
        """As the Models API describes it."""
        no, yes = {"supported": False}, {"supported": True}
        return {
            "type": "model",
            "id": self.name,
            "display_name": self.name,
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": "active",
            "line": None,
            "max_input_tokens": self.window,
            "max_tokens": self.most_output,
            "capabilities": {
                "batch": no,
                "citations": no,
                "code_execution": no,
                "context_management": no,
                "effort": {"supported": bool(self.efforts)}
                | {name: yes if name in self.efforts else no for name in EFFORTS},
                "image_input": no,
                "pdf_input": no,
                "server_tools": no,
                "structured_outputs": yes if self.structured else no,
                "thinking": {
                    "supported": bool({"adaptive", "enabled"} & set(self.thinking)),
                    "types": {name: yes if name in self.thinking else no for name in THINKING},
                },
            },
        }


DEFAULT_MODELS: Final = tuple(map(Served, ("claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-5-5")))
