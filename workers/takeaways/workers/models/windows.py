"""How large the window is that a step is measured by, and who said so."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import structlog

log = structlog.get_logger(__name__)

DEFAULT_WINDOW: Final = 32_000
"""For a model of which nobody says anything: every current one has it, and it is large enough to be of use."""
LEAST_WINDOW: Final = 1_000
MOST_WINDOW: Final = 20_000_000

_warned: set[str] = set()
_warning = threading.Lock()


class WindowSource(StrEnum):
    """Who said how large a window is; `status` shows it."""

    SETTINGS = "settings"
    EVENT = "event"
    PROVIDER = "provider"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Window:
    tokens: int
    source: WindowSource


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """What the operator set: for every model, or for some by name. A name goes first."""

    for_all: int | None = None
    by_name: Mapping[str, int] = field(default_factory=dict)

    def of(self, model: str | None) -> int | None:
        return self.by_name.get(model or "", self.for_all)


def plausible(reported: Any) -> int | None:
    """A window as it was reported, or None where that cannot be one: nothing, 0, negative, text, absurd."""
    if isinstance(reported, bool) or not isinstance(reported, int | float) or not math.isfinite(reported):
        return None
    return int(reported) if LEAST_WINDOW <= reported <= MOST_WINDOW else None


def resolve_window(
    model: str | None, reported: Any, *, told: Any = None, settings: WindowSettings | None = None
) -> Window:
    """What the settings say, else the event (`told`), else the provider (`reported`), else 32,000.

    That last one is warned of, once for each model.
    """
    if (chosen := (settings or WindowSettings()).of(model)) is not None:
        return Window(chosen, WindowSource.SETTINGS)
    for value, source in ((told, WindowSource.EVENT), (reported, WindowSource.PROVIDER)):
        if (tokens := plausible(value)) is not None:
            return Window(tokens, source)
    _warn_once(model or "(no name)")
    return Window(DEFAULT_WINDOW, WindowSource.DEFAULT)


def governing(working: Window, agents: Window | None) -> int:
    """The smaller of the working model's window and the agent's own, where that is known."""
    return min(working.tokens, agents.tokens) if agents else working.tokens


def _warn_once(model: str) -> None:
    with _warning:
        first = model not in _warned
        _warned.add(model)
    if first:
        log.warning(
            "nobody says how large this model's window is: a small one is taken; set TAKEAWAYS_WINDOW",
            model=model,
            window=DEFAULT_WINDOW,
        )
