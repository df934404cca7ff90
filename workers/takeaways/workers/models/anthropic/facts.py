"""What the Models API says about a model, as far as it matters to us."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from takeaways.workers.models.windows import plausible

_EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True, slots=True)
class Facts:
    """None is "nobody says". `thinking` has the values of `thinking.type` that the model takes.

    A model of which nothing is known is asked for the least that every server understands.
    """

    window: int | None = None
    most_output: int | None = None
    structured: bool | None = None
    thinking: frozenset[str] | None = None
    efforts: frozenset[str] | None = None
    known: bool = False

    @classmethod
    def of(cls, info: Any) -> Facts:
        """From a `ModelInfo`, of which gateways fill in only a part."""
        capabilities = getattr(info, "capabilities", None)
        types = getattr(getattr(capabilities, "thinking", None), "types", None)
        effort = getattr(capabilities, "effort", None)
        return cls(
            window=plausible(getattr(info, "max_input_tokens", None)),
            most_output=plausible(getattr(info, "max_tokens", None)),
            structured=_supported(getattr(capabilities, "structured_outputs", None)),
            thinking=_those(types, ("adaptive", "between_tools", "disabled", "enabled")),
            efforts=_those(effort, _EFFORTS) if _supported(effort) is not None else None,
            known=True,
        )


def _supported(capability: Any) -> bool | None:
    supported = getattr(capability, "supported", None)
    return supported if isinstance(supported, bool) else None


def _those(holder: Any, names: tuple[str, ...]) -> frozenset[str] | None:
    if holder is None:
        return None
    return frozenset(name for name in names if _supported(getattr(holder, name, None)))
