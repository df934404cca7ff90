"""When a provider wants to be asked again, in whatever form it says so."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

MOST_SECONDS: Final = 3_600.0
"""A provider may ask for a day, or for nonsense; looking once an hour costs nobody anything."""
_RESETS: Final = (
    "anthropic-ratelimit-requests",
    "anthropic-ratelimit-input-tokens",
    "anthropic-ratelimit-output-tokens",
    "anthropic-ratelimit-tokens",
)


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds to wait as `retry-after-ms`, `retry-after` (seconds or a date) or an exhausted limit's reset say.

    Between 0 and an hour; None where the headers say nothing that can be read.
    """
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    if (milliseconds := _number(lowered.get("retry-after-ms"))) is not None:
        return _within(milliseconds / 1000)
    told = lowered.get("retry-after")
    if (seconds := _number(told)) is not None:
        return _within(seconds)
    if told and (at := _http_date(told)) is not None:
        return _within((at - now).total_seconds())
    resets = [_rfc3339(lowered.get(f"{name}-reset")) for name in _RESETS if _spent(lowered, name)]
    waits = [(at - now).total_seconds() for at in resets if at is not None]
    return _within(max(waits)) if waits else None


def _spent(headers: Mapping[str, str], name: str) -> bool:
    return _number(headers.get(f"{name}-remaining")) == 0


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _http_date(text: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _rfc3339(text: str | None) -> datetime | None:
    try:
        at = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _within(seconds: float) -> float:
    return min(max(seconds, 0.0), MOST_SECONDS)
