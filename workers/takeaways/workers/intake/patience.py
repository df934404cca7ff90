"""How long to wait after trouble: doubling with jitter, from nothing again after success. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

FIRST_SECONDS: Final = 0.1
MOST_SECONDS: Final = 5.0


@dataclass(slots=True)
class Patience:
    """Counts failures in a row. `random_unit` gives a number from 0 to 1."""

    first_seconds: float = FIRST_SECONDS
    most_seconds: float = MOST_SECONDS
    random_unit: Callable[[], float] = random.random
    failures: int = 0

    def failed(self) -> float:
        """Note a failure and return the seconds to wait."""
        self.failures += 1
        full_seconds = min(self.first_seconds * 2.0 ** min(self.failures - 1, 30), self.most_seconds)
        return full_seconds * (0.5 + self.random_unit() / 2)

    def succeeded(self) -> bool:
        """Note a success. Returns whether there were failures before it."""
        recovered, self.failures = self.failures > 0, 0
        return recovered
