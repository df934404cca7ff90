"""Which whole versions of a memory are kept. Their accounts always are, so any version can be made again. Pure.

Kept are the newest 30, those that a person made, the last of each day for 90 days, and the last of each month.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

NEWEST: Final = 30
DAYS: Final = 90
BY_CODE: Final = frozenset({"consolidation", "withdrawal"})
_DAY_MS: Final = 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Version:
    number: int
    made_at_ms: int
    made_by: str


def superfluous(versions: Iterable[Version], now_ms: int) -> list[int]:
    """The numbers of the versions whose whole text may go. Never that of the newest, nor of the oldest."""
    newest_first = sorted(versions, key=lambda version: -version.number)
    days: set[str] = set()
    months: set[str] = set()
    found: list[int] = []
    for place, version in enumerate(newest_first):
        day = f"{datetime.fromtimestamp(version.made_at_ms / 1000, UTC):%Y-%m-%d}"
        last_of_day = day not in days and version.made_at_ms >= now_ms - DAYS * _DAY_MS
        last_of_month = day[:7] not in months
        days.add(day)
        months.add(day[:7])
        at_an_end = place < NEWEST or place == len(newest_first) - 1
        if not (at_an_end or last_of_day or last_of_month or version.made_by not in BY_CODE):
            found.append(version.number)
    return sorted(found)
