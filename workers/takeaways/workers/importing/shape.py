"""What a shape of file is: how to recognise one of its records, and how its records become rooms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from takeaways.workers.importing.problems import Reporter
from takeaways.workers.importing.records import Record
from takeaways.workers.importing.rooms import Draft


@dataclass(frozen=True, slots=True)
class Context:
    """What a shape knows beside the records: whose conversations these are, and what the file is called."""

    agent_id: str
    title: str
    reporter: Reporter


@dataclass(frozen=True, slots=True)
class Shape:
    """`fits` looks at one record's value; `rooms` is given only records that fit."""

    name: str
    fits: Callable[[Any], bool]
    rooms: Callable[[Iterator[Record], Context], Iterator[Draft]]
