"""Dates that mean something only on the day they are said, as dates that stay true.

"Yesterday" becomes the day before the message was said, on the clock of whoever said it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Final

import regex

from takeaways.schemas.memories import Lesson

_NUMBERS: Final = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_DAYS_ELSEWHERE: Final = {
    "vorgestern": -2, "gestern": -1, "heute": 0, "übermorgen": 2, "anteayer": -2, "ayer": -1, "hoy": 0,
    "avant-hier": -2, "aujourd'hui": 0, "demain": 1, "ieri": -1, "oggi": 0, "domani": 1, "вчера": -1,
    "сегодня": 0, "завтра": 1, "昨日": -1, "今日": 0, "明日": 1, "昨天": -1, "今天": 0, "明天": 1,
    "어제": -1, "오늘": 0, "내일": 1,
}  # fmt: skip


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_YEARS: Final = range(1900, 9000)

_RECURS: Final = regex.compile(
    r"\b(?:always|never|each|every|daily|weekly|monthly|whenever|from now on|immer|niemals|jede[nrsm]?|toujours|"
    r"jamais|chaque|siempre|nunca|cada|всегда|никогда|каждый)\b|毎|每|항상|매(?:일|주|월)",
    regex.IGNORECASE,
)
_DONE_AGAIN: Final = frozenset({Lesson.RULE, Lesson.CORRECTION, Lesson.PREFERENCE, Lesson.PROCEDURE})


@dataclass(frozen=True, slots=True)
class _When:
    """A resolved date, and the preposition it takes where the speaker used none."""

    text: str
    preposition: str = ""


_Resolve = Callable[["regex.Match[str]", date], _When]


def day_of(said_at_ms: int, offset_minutes: int) -> date:
    """The calendar day on the clock of whoever said it; the calendar's first or last one where it showed none."""
    try:
        return (_EPOCH + timedelta(milliseconds=said_at_ms, minutes=offset_minutes)).date()
    except OverflowError:
        return date.min if said_at_ms < 0 else date.max


def made_absolute(text: str, said: date, kind: Lesson = Lesson.FACT) -> str:
    """`text` with its relative dates as absolute ones. Times of day and durations stay as they are.

    So do all of them where the clock was not set: some programs write the year 1 for no time, or 9999. So does what is
    to be done again and again ("every Friday, send last week's numbers"), and code: a command with
    `--since yesterday` is another one with a date.
    """
    if "`" in text or (kind in _DONE_AGAIN and _RECURS.search(text)):
        return text
    if said.year not in _YEARS:
        return text
    for pattern, resolve in _RULES:
        text = pattern.sub(partial(_resolved, resolve, said), text)
    return text


def _resolved(resolve: _Resolve, said: date, found: regex.Match[str]) -> str:
    return _put(found, resolve(found, said))


def _put(found: regex.Match[str], when: _When) -> str:
    lead = found.groupdict().get("lead") or ""
    possessive = found.string[found.end() : found.end() + 2] in ("'s", "’s")
    if lead.strip().lower() in ("", "on", "in") and when.preposition and not possessive:
        lead = f"{when.preposition} "
    put = lead + when.text
    return put[:1].upper() + put[1:] if found.group()[:1].isupper() else put


def _month(said: date, shift: int) -> str:
    index = said.year * 12 + said.month - 1 + shift
    return f"{_MONTHS[index % 12]} {index // 12}"


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _days(shift: int) -> _Resolve:
    return lambda _found, said: _When((said + timedelta(days=shift)).isoformat(), "on")


def _period(found: regex.Match[str], said: date) -> _When:
    """Last, this or next week, weekend, month, year or weekday."""
    shift = {"last": -1, "this": 0, "next": 1}[found["which"].lower()]
    match found["unit"].lower():
        case "week":
            return _When(f"the week of {(_monday(said) + timedelta(weeks=shift)).isoformat()}", "in")
        case "weekend":
            saturday = _monday(said) + timedelta(days=5, weeks=shift)
            return _When(f"the weekend of {saturday.isoformat()}", "on")
        case "month":
            return _When(_month(said, shift), "in")
        case "year":
            return _When(str(said.year + shift), "in")
        case "night":
            return _When((said + timedelta(days=shift)).isoformat(), "on")
        case weekday:
            ahead = (_WEEKDAYS.index(weekday) - said.weekday()) % 7
            days = {-1: ahead - 7, 0: ahead, 1: ahead or 7}[shift]
            return _When((said + timedelta(days=days)).isoformat(), "on")


def _ago(found: regex.Match[str], said: date) -> _When:
    count = found["count"].lower()
    number = int(count) if count.isdigit() else _NUMBERS[count]
    match found["unit"].lower():
        case "day":
            return _When((said - timedelta(days=number)).isoformat(), "on")
        case "week":
            return _When(f"the week of {_monday(said - timedelta(weeks=number)).isoformat()}", "in")
        case "month":
            return _When(_month(said, -number), "in")
        case _:
            return _When(str(said.year - number), "in")


def _some_ago(found: regex.Match[str], said: date) -> _When:
    """The speaker gave no number, so neither do we."""
    unit = found["unit"].lower()
    day = {"day": said.isoformat(), "week": said.isoformat(), "month": _month(said, 0)}.get(
        unit, str(said.year)
    )
    return _When(f"some {unit}s before {day}")


def _rule(pattern: str, resolve: _Resolve) -> tuple[regex.Pattern[str], _Resolve]:
    lead = r"(?P<lead>\b(?:on|in|since|until|till|by|from|before|after|of|for|starting)\s+)?"
    return regex.compile(lead + pattern, regex.IGNORECASE), resolve


def _elsewhere(word: str, shift: int) -> tuple[regex.Pattern[str], _Resolve]:
    spaced = not regex.match(r"[\p{Script=Han}\p{Script=Hangul}]", word)
    pattern = rf"(?<!\p{{L}}){word}(?!\p{{L}})" if spaced else word
    return regex.compile(pattern, regex.IGNORECASE), lambda _f, said: _When(
        (said + timedelta(days=shift)).isoformat()
    )


_PART_OF_DAY: Final = r"(?: (?:morning|afternoon|evening|night))?"
_RULES: Final = (
    _rule(r"\bthe day before yesterday\b", _days(-2)),
    _rule(r"\bthe day after tomorrow\b", _days(2)),
    _rule(rf"\byesterday{_PART_OF_DAY}\b", _days(-1)),
    _rule(rf"\btomorrow{_PART_OF_DAY}\b", _days(1)),
    _rule(r"\b(?:earlier today|today|tonight|this (?:morning|afternoon|evening))\b", _days(0)),
    _rule(
        r"(?<!\bthe )\b(?P<which>last|this|next) (?P<unit>week(?!-)|weekend|month|year|night|"
        + "|".join(_WEEKDAYS)
        + r")\b",
        _period,
    ),
    _rule(
        rf"\b(?P<count>\d{{1,2}}|{'|'.join(_NUMBERS)}) (?P<unit>day|week|month|year)s?"
        r" (?:ago|earlier|back)\b",
        _ago,
    ),
    _rule(
        r"\b(?:a few|a couple(?: of)?|several|some) (?P<unit>day|week|month|year)s (?:ago|back)\b", _some_ago
    ),
    *(_elsewhere(word, shift) for word, shift in _DAYS_ELSEWHERE.items()),
)
