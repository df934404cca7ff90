"""Numbers of payment cards, by checksum and by what stands around them.

One in ten numbers has a good checksum by chance. So the first digits must be those of a card network, the
groups those that people write, and what is called an id, a time or an order is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from takeaways.schemas.secrets.spans import Found

_RUN: Final = re.compile(
    r"(?<![\w.+])(?<![A-Za-z0-9][-/])\d(?:[ \u00a0-]?\d){12,80}(?![\w])(?!-[A-Za-z0-9])", re.ASCII
)
_GROUP: Final = re.compile(r"\d+")
_ENOUGH: Final = re.compile(r"\d(?:[ \u00a0-]?\d){12}", re.ASCII)
_CARD: Final = re.compile(
    r"card|visa|master|amex|american express|discover|diners|jcb|maestro|credit|debit|\bpan\b|karte|carte|tarjeta|"
    r"cart[ãa]o|карт|カード|卡",
    re.IGNORECASE,
)
_OTHER: Final = re.compile(
    r"(?:(?:^|[^a-z])(?:id|ids|seq|sequence|ts|time|timestamp|epoch|order|ticket|invoice|ref|reference|tracking|uuid|"
    r"hash|ms|nonce|event|message|msg|run|trace|span|build|version|serial|sku|isbn|ean|gtin|offset|cursor|"
    r"position|size|bytes|count|row|no|nr|number|phone|tel|fax|iban|account)|_id|[a-z]Id)[\s\"':=#._-]{0,6}$",
    re.IGNORECASE,
)
_COUNTRY: Final = re.compile(r"\+\d{1,3}[ -]?$")  # of a telephone number
_AROUND: Final = 40
# Digits of other scripts, dashes and spaces as ASCII has them, each in its place.
_ASCII: Final = str.maketrans(
    {chr(zero + digit): str(digit) for zero in (0x660, 0x6F0, 0x966, 0xFF10) for digit in range(10)}
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\uff0d", "-")
    | dict.fromkeys("\u2007\u2009\u202f\u3000", " ")
)
_LENGTHS: Final = (
    (re.compile(r"4"), (13, 16, 19)),
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),
    (re.compile(r"3[47]"), (15,)),
    (re.compile(r"6011|64[4-9]|65|62"), (16, 17, 18, 19)),
    (re.compile(r"30[0-5]|36|38|39"), (14, 16)),
    (re.compile(r"35(?:2[89]|[3-8])"), (16, 19)),
)
_GROUPINGS: Final = frozenset({(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (6, 13)})
_SURE_LENGTHS: Final = (15, 16)


def cards(text: str) -> Iterator[Found]:
    """Every card number, each of several in a row."""
    if not text.isascii():
        text = text.translate(_ASCII)
    if _ENOUGH.search(text) is None:
        return
    for run in _RUN.finditer(text):
        groups = [(at.start(), at.end()) for at in _GROUP.finditer(text, run.start(), run.end())]
        first = 0
        while first < len(groups):
            size = next((n for n in (1, 5, 4, 3, 2) if _is_card(text, groups[first : first + n], n)), 0)
            if size:
                yield Found(groups[first][0], groups[first + size - 1][1], "card number")
            first += size or 1


def _is_card(text: str, groups: list[tuple[int, int]], size: int) -> bool:
    sizes = tuple(end - start for start, end in groups)
    if len(groups) != size or not 13 <= sum(sizes) <= 19 or (size > 1 and sizes not in _GROUPINGS):
        return False
    number = "".join(text[start:end] for start, end in groups)
    if not _of_a_network(number) or not _luhn(number) or len(set(number)) == 1:
        return False
    before = text[max(0, groups[0][0] - _AROUND) : groups[0][0]]
    if _CARD.search(before) or _CARD.search(text[groups[-1][1] : groups[-1][1] + _AROUND]):
        return True
    if size > 1:
        return _COUNTRY.search(before) is None
    return (
        len(number) in _SURE_LENGTHS
        and not before.endswith(("/", "=", "#", "_", "."))
        and not _OTHER.search(before)
    )


def _of_a_network(number: str) -> bool:
    return any(start.match(number) and len(number) in lengths for start, lengths in _LENGTHS)


def _luhn(number: str) -> bool:
    doubled = (int(digit) * (2 if place % 2 else 1) for place, digit in enumerate(reversed(number)))
    return sum(digit - 9 if digit > 9 else digit for digit in doubled) % 10 == 0
