"""What a reader says about a file: what could not be read, and what was assumed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that a person may want to look at. `why` never quotes the file.

    `line` is None where the file is one JSON value; `record` then says where in it. `lost` tells what was
    left out from what was read under an assumption (a time without offset, say).
    """

    file: str
    line: int | None
    record: str
    why: str
    lost: bool = True

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.record}: {self.why}" if self.record else f"{where}: {self.why}"


Report = Callable[[Problem], None]


class Reporter:
    """Says where in one file a problem is; an assumption is told once a file, however often it is made."""

    def __init__(self, file: str, report: Report) -> None:
        self._file = file
        self._report = report
        self._told: set[str] = set()

    def lost(self, why: str, *, line: int | None = None, record: str = "") -> None:
        self._report(Problem(self._file, line, record, why))

    def assumed(self, why: str, *, line: int | None = None, record: str = "") -> None:
        if why not in self._told:
            self._told.add(why)
            self._report(Problem(self._file, line, record, why, lost=False))
