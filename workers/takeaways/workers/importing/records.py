"""The records of a file, one at a time: lines of JSON, the items of a JSON list, or one JSON object.

A line that a killed writer cut, with the next record glued to it, still gives the whole records in it.
"""

from __future__ import annotations

import codecs
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from takeaways.schemas.events import MAX_DEPTH as WIRE_DEPTH
from takeaways.workers.importing.problems import Reporter

LINES: Final = frozenset({".jsonl", ".ndjson"})
MAX_LINE_BYTES: Final = 64 * 1024 * 1024
MAX_DEPTH: Final = WIRE_DEPTH - 10  # a message stands some levels down in its event
_OBJECT = re.compile(r'\{\s*"')


@dataclass(frozen=True, slots=True)
class Record:
    """`number` counts records from 1. `alone` says that the file is this one object. `salvaged` ones came out
    of a damaged line and count only if they look like a record of their file's shape.
    """

    number: int
    value: Any
    line: int | None = None
    alone: bool = False
    salvaged: bool = False

    @property
    def name(self) -> str:
        return "" if self.line or self.alone else f"record {self.number}"


class _Unreadable(Exception):
    """Why a text is no record."""


def records_of(path: Path, reporter: Reporter) -> Iterator[Record]:
    """Yield what `path` holds and report what is damaged. Lines are read as they are asked for."""
    if path.suffix.lower() in LINES and not _is_one_value(path):
        yield from _lines(path, reporter)
        return
    try:
        value = _parse(path.read_bytes().removeprefix(codecs.BOM_UTF8))
    except _Unreadable as error:
        if _starts_with_a_record(path):
            yield from _lines(path, reporter)
        else:
            reporter.lost(str(error))
        return
    if isinstance(value, list):
        yield from (Record(number, item) for number, item in enumerate(value, start=1))
    else:
        yield Record(1, value, alone=True)


def _is_one_value(path: Path) -> bool:
    """Whether a file that is called lines begins like one value written over several lines."""
    with path.open("rb") as file:
        first = next((line for line in file if line.strip()), b"").removeprefix(codecs.BOM_UTF8).strip()
    return first in (b"[", b"{", b"[{")


def _starts_with_a_record(path: Path) -> bool:
    with path.open("rb") as file:
        first = file.readline(MAX_LINE_BYTES)
        if not file.read(1):
            return False
    try:
        return isinstance(_parse(first.removeprefix(codecs.BOM_UTF8)), dict)
    except _Unreadable:
        return False


def _lines(path: Path, reporter: Reporter) -> Iterator[Record]:
    number = 0
    with path.open("rb") as file:
        for line, raw in _bounded_lines(file):
            if raw is None:
                reporter.lost(f"a line of over {MAX_LINE_BYTES} bytes is not read", line=line)
                continue
            raw = raw.removeprefix(codecs.BOM_UTF8) if line == 1 else raw
            if not raw.strip():
                continue
            try:
                found = [_parse(raw)]
            except _Unreadable as error:
                found = list(_salvage(raw.decode("utf-8", "replace")))
                reporter.lost(f"{error}; a whole record that stands in the line is kept", line=line)
                for value in found:
                    number += 1
                    yield Record(number, value, line, salvaged=True)
                continue
            number += 1
            yield Record(number, found[0], line)


def _bounded_lines(file: Any) -> Iterator[tuple[int, bytes | None]]:
    line = 0
    while raw := file.readline(MAX_LINE_BYTES + 1):
        line += 1
        if len(raw) > MAX_LINE_BYTES:
            while raw and not raw.endswith(b"\n"):
                raw = file.readline(MAX_LINE_BYTES)
            yield line, None
        else:
            yield line, raw


def _salvage(text: str) -> Iterator[dict[str, Any]]:
    """Find the whole objects in a damaged line, in time that grows with its length, not with its square."""
    work, at = 8 * len(text) + 1_000_000, 0
    while work > 0 and (start := _OBJECT.search(text, at)):
        at = start.start()
        try:
            value, at = _DECODER.raw_decode(text, at)
        except json.JSONDecodeError as error:
            work -= error.pos - at
            at += 1
        except (RecursionError, ValueError):
            work -= len(text) - at
            at += 1
        else:
            if not _too_deep(value):
                yield value


def _parse(raw: bytes) -> Any:
    try:
        value = _DECODER.decode(raw.decode(json.detect_encoding(raw)))
    except UnicodeDecodeError as error:
        raise _Unreadable(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise _Unreadable(f"no JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise _Unreadable("nested too deeply") from None
    except ValueError:
        raise _Unreadable("a number in it has thousands of digits") from None
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and _too_deep(value):
        raise _Unreadable(f"nested over {MAX_DEPTH} levels deep")
    return value


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for holder in level
            if isinstance(holder, dict | list)
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
        if not level:
            return False
    return True


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


# NaN and numbers beyond a double are no JSON for other readers, so they become null.
_DECODER: Final = json.JSONDecoder(parse_constant=lambda _name: None, parse_float=_finite)
