"""Labels with few values, whatever events bring."""

from __future__ import annotations

import threading
from typing import Final

MOST_MODELS: Final = 50
OTHER: Final = "other"
_seen: set[str] = set()
_lock = threading.Lock()


def model_label(name: str | None) -> str:
    """A model's name as a label. Names come from events: beyond fifty in a process they are all `other`."""
    if not name:
        return OTHER
    with _lock:
        if name not in _seen and len(_seen) < MOST_MODELS:
            _seen.add(name)
        return name if name in _seen else OTHER
