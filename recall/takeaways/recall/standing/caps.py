"""How long each note may be, and which of them are switched on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from takeaways.recall.standing.request import Target
from takeaways.schemas.errors import Misconfigured

MEMORY_CHARS: Final = 2_200
USER_CHARS: Final = 1_375

CapFor = Callable[[Target, str], int | None]
"""The cap of one agent's or one person's note; None for the usual one."""


@dataclass(frozen=True, slots=True)
class Caps:
    """Characters for each note; 0 switches a note off."""

    memory: int
    user: int

    def __getitem__(self, target: Target) -> int:
        return self.memory if target is Target.MEMORY else self.user

    @property
    def on(self) -> tuple[Target, ...]:
        """The notes that are switched on."""
        return tuple(target for target in Target if self[target])


def cap(value: object, name: str) -> int:
    """A cap from settings: a whole number of characters, or its digits. Raises `Misconfigured`."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise Misconfigured(f"{name} is a whole number of characters, 0 or more")
