"""A note as a text file, out and in."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass

from takeaways.recall.standing.codes import Code, Refused
from takeaways.recall.standing.guard import Scan, scanned
from takeaways.recall.standing.text import entry, size
from takeaways.schemas.errors import BadInput


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A line that was not taken over: its number, from 1, and the code that says why."""

    line: int
    code: Code


@dataclass(frozen=True, slots=True)
class Imported:
    """The entries of a text. `duplicates` counts lines that were there before in the same text."""

    entries: tuple[str, ...]
    duplicates: int
    left_out: tuple[LeftOut, ...]


def exported(entries: Sequence[str]) -> str:
    return "".join(f"- {line}\n" for line in entries)


def imported(text: str | bytes, *, cap: int, scan: Scan) -> Imported:
    """The lines of a text as entries, in their order. Raises `BadInput` for bytes that are not UTF-8."""
    if isinstance(text, bytes):
        try:
            text = text.removeprefix(codecs.BOM_UTF8).decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadInput(f"the text is not UTF-8 (byte {error.start})") from None
    entries: dict[str, None] = {}
    duplicates = 0
    left_out: list[LeftOut] = []
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        try:
            line = scanned(entry(raw, cap=cap), scan)
        except Refused as refused:
            if refused.code is not Code.EMPTY_CONTENT:
                left_out.append(LeftOut(number, refused.code))
            continue
        duplicates += line in entries
        entries.setdefault(line)
    return Imported(tuple(entries), duplicates, tuple(left_out))


def admit(before: Sequence[str], after: Sequence[str], cap: int, scan: Scan) -> None:
    """Raise `Refused` where a person's change breaks what a model's may not: the cap, and the checks."""
    if (wanted := size(after)) > cap and wanted >= size(before):
        raise Refused(
            Code.OVER_BUDGET,
            f"The text has {wanted} characters; the note has room for {cap}.",
            over_by=wanted - cap,
        )
    for line in after:
        scanned(line, scan)
    if after:
        scanned("\n".join(after), scan)
