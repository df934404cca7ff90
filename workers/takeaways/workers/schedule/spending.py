"""The tokens of a day: what an agent has spent, what is left, and when the next day begins (UTC)."""

from __future__ import annotations

from typing import Final

_DAY_MS: Final = 24 * 3_600_000


def day_of(at_ms: int) -> int:
    """The day of an instant, counted since 1970 in UTC."""
    return at_ms // _DAY_MS


def day_ends_ms(day: int) -> int:
    """The instant at which the next day begins."""
    return (day + 1) * _DAY_MS


def spent_on(day: int, spent_day: int | None, spent_tokens: int) -> int:
    """What was spent on `day`, where `spent_tokens` belongs to `spent_day`."""
    return spent_tokens if spent_day == day else 0


def left_tokens(daily_tokens: int | None, spent_tokens: int) -> int | None:
    """What is left of a day; None where no limit is set."""
    return None if daily_tokens is None else max(daily_tokens - spent_tokens, 0)
