"""Values that stand near a name for a password without "is" or "=": behind a dash or a bracket, in the next cell, in
markup, or before the name ("hunter2 is the password").

So little says that they are secrets that they must look like one themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from takeaways.schemas.secrets.values import NO_VALUE, TELLS_OF_IT, looks_chosen

_WORDS: Final = r"(?:[ \t]+[\w./@&'’-]{1,40}){0,6}?"
_BEHIND: Final = re.compile(
    rf"(?:[ \t]{{1,4}}|(?P<rest>[\w-]{{0,12}}){_WORDS}[\"'`*_]{{0,3}}[ \t]{{0,4}}"
    r"(?:[:：(|,]|->|=>|→|⇒|—|–|-(?=[ \t]))[ \t]{0,4}(?:\r?\n[ \t]{0,8})?)[\"'`*_(|]{0,3}[ \t]?"
    r"(?P<secret>[^\s\"'`<>()\[\]{}|,;\\]{6,100})"
)
# <password>x</password>, <b>password</b>: x, {"name": "DB_PASSWORD", "value": "x"}
_IN_MARKUP: Final = re.compile(
    r"[\w.-]{0,40}(?:"
    r"(?:[ \t][^<>\n]{0,100})?>\s{0,3}(?P<element>[^<>\s]{1,300})\s{0,3}</"
    r"|(?:</\w{1,10}>|[*_]{1,2}){1,2}[ \t]{0,2}[:=](?:</\w{1,10}>|[*_]{1,2})?\s{0,2}(?P<bold>[^\s<>*`]{4,100})"
    r"|:(?:</\w{1,10}>|[*_]{1,2})[ \t]{0,2}`?(?P<colon>[^\s<>*`]{4,100})"
    r"|\\{0,6}[\"']?[\s,{]{0,12}\\{0,6}[\"']?(?:value|default)\\{0,6}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,6}[\"']?"
    r"(?P<value>[^\s\"'\\,}]{4,300})"
    r"|:[ \t]{0,4}[|>][+-]?[ \t]*\n[ \t]{1,12}(?P<block>[^\s]{4,300})"
    r")",
    re.IGNORECASE,
)
_BEFORE: Final = re.compile(
    r"(?<![^\s\"'`(])(?P<secret>[^\s\"'`,;:()<>\[\]]{6,100})[\"'`]?[ \t]+"
    r"(?:is|was|as|ist|war|als|es|est|era|comme|como)"
    r"(?:[ \t]+(?:the|my|our|your|a|its|their|new|old|das|mein|la|le|mi|ma|el|of|for|[\w-]{1,20})){0,4}?[ \t]+$"
)
_WHAT_FOR: Final = re.compile(
    r"[ \t_-](?:hash\w*|manager|policy|field|reset|flow|encoder|encoding|strategy|scheme)", re.I
)
_LONGEST: Final = 200
_ENDS_A_CELL: Final = re.compile(r"[\"'`*]{0,2}[ \t]{0,20}(?:[|\t;,]|\r?\n)")
_SEPARATORS: Final = ("|", "\t", ";", ",")
_MOST_ROWS: Final = 100


def behind(text: str, at: int) -> Iterator[tuple[int, int]]:
    """The place of a value behind the name that ends at `at`."""
    found = _BEHIND.match(text, at)
    if found and looks_chosen(found["secret"]) and not (found["rest"] or "").lower().endswith(TELLS_OF_IT):
        begin = found.start("secret")
        yield begin, begin + len(found["secret"].rstrip(".,:;*_"))


def before(text: str, at: int, end: int) -> Iterator[tuple[int, int]]:
    """The place of a value that is said to be what the name from `at` to `end` names."""
    if _WHAT_FOR.match(text, end):
        return
    line = text.rfind("\n", max(0, at - _LONGEST), at) + 1
    found = _BEFORE.search(text, max(line, at - _LONGEST), at)
    if found and looks_chosen(found["secret"]):
        yield found.span("secret")


def in_markup(text: str, at: int) -> Iterator[tuple[int, int]]:
    """The place of a value that markup puts beside the name that ends at `at`."""
    found = _IN_MARKUP.match(text, at)
    if found and found.lastgroup:
        value = found[found.lastgroup].rstrip(".,;")
        if not NO_VALUE.fullmatch(value):
            begin = found.start(found.lastgroup)
            yield begin, begin + len(value)


def in_column(text: str, at: int, end: int) -> Iterator[tuple[int, int]]:
    """The places of the values below the name from `at` to `end`, where it heads a column of a table."""
    begin = text.rfind("\n", max(0, at - _LONGEST), at) + 1
    stop = text.find("\n", end, end + _LONGEST)
    if stop < 0 or at - begin > _LONGEST:
        return
    head = text[begin:stop]
    separator = next((one for one in _SEPARATORS if one in head), "")
    if not separator or not _ENDS_A_CELL.match(text, end):
        return
    column, columns = text.count(separator, begin, at), head.count(separator)
    for _ in range(_MOST_ROWS):
        begin, stop = stop + 1, text.find("\n", stop + 1, stop + 1 + 5 * _LONGEST)
        row = text[begin : stop if stop >= 0 else begin + 5 * _LONGEST]
        if row.count(separator) != columns:
            return
        cell = row.split(separator)[column]
        value = cell.strip(" \t\r\"'`*")
        if value.lower().endswith(text[at:end].lower()):
            return  # another table begins
        if looks_chosen(value, least=4):
            place = (
                begin + len(separator.join(row.split(separator)[:column])) + (column > 0) + cell.find(value)
            )
            yield place, place + len(value)
        if stop < 0:
            return
