"""Times as files write them. A time without an offset is taken as UTC, and that is said."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from takeaways.workers.importing.problems import Reporter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_SPOKEN = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})\s*(?P<half>[ap])\.?m\.?\s+on\s+"
    r"(?P<day>\d{1,2})\s+(?P<month>[a-z]+),?\s+(?P<year>\d{4})",
    re.IGNORECASE,
)
NAIVE = "times without an offset were taken as UTC"


def moment(value: Any, reporter: Reporter, *, line: int | None = None, record: str = "") -> datetime | None:
    """Read ISO 8601, seconds, milliseconds, micro- or nanoseconds since 1970, or `1:56 pm on 8 May, 2023`.

    Returns None where there is no time, or none that can be read; the latter is reported.
    """
    if value is None or value == "" or isinstance(value, bool):
        return None
    found = (
        _of_number(value)
        if isinstance(value, int | float)
        else _of_text(value)
        if isinstance(value, str)
        else None
    )
    if found is None:
        reporter.assumed(
            "a time could not be read; the message was kept without it", line=line, record=record
        )
    elif found.tzinfo is None:
        reporter.assumed(NAIVE, line=line, record=record)
        found = found.replace(tzinfo=UTC)
    return found


def _of_number(value: float) -> datetime | None:
    # Seconds reach 1e11 in the year 5138, milliseconds in 1973: the size tells the unit.
    per_second = next((unit for unit in (1, 10**3, 10**6, 10**9) if abs(value) < 10**11 * unit), None)
    if per_second is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=round(value * 10**6 / per_second))
    except OverflowError:
        return None


def _of_text(value: str) -> datetime | None:
    value = value.strip()
    try:
        found = datetime.fromisoformat(value)
        # An instant that leaves the calendar when it is moved to UTC fits no database.
        return found if found.tzinfo is None or found.astimezone(UTC) else None
    except (ValueError, OverflowError):
        pass
    try:
        return (
            _of_number(float(value))
            if value.isascii() and value.replace(".", "", 1).isdigit()
            else _spoken(value)
        )
    except ValueError:
        return None


def _spoken(value: str) -> datetime | None:
    found = _SPOKEN.fullmatch(value)
    if found is None or found["month"].lower() not in _MONTHS or not 1 <= int(found["hour"]) <= 12:
        return None
    hour = int(found["hour"]) % 12 + (12 if found["half"].lower() == "p" else 0)
    month = _MONTHS.index(found["month"].lower()) + 1
    return datetime(int(found["year"]), month, int(found["day"]), hour, int(found["minute"]))  # noqa: DTZ001 - the caller adds the offset
