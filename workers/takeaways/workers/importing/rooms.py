"""What an imported conversation is: a room, its runs, and where the platform compacted it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from takeaways.schemas.events import Message

Status = Literal["succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """`compaction` is the number that the room's conversation had while the agent worked."""

    run_id: str
    messages: tuple[Message, ...]
    started_at: datetime | None
    ended_at: datetime
    status: Status
    compaction: int = 0


@dataclass(frozen=True, slots=True)
class ImportedCompaction:
    """The conversation got the number `compaction`; `last_message_id` is the last before the boundary."""

    compaction: int
    trigger: str | None
    tokens_before: int | None
    last_message_id: str | None
    compacted_at: datetime | None


@dataclass(frozen=True, slots=True)
class ImportedRoom:
    """`conversation_id` is None where the file knows of no running context."""

    room_id: str
    title: str
    runs: tuple[ImportedRun, ...]
    compactions: tuple[ImportedCompaction, ...] = ()
    conversation_id: str | None = None

    @property
    def message_count(self) -> int:
        return sum(len(run.messages) for run in self.runs)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Messages that will be one run, as a shape found them: ids may be missing or repeated."""

    messages: tuple[Message, ...]
    status: Status = "succeeded"
    compaction: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """A room as its shape found it.

    `name` sets it apart from the other rooms of its file, and is "" for the only one. `in_file_order` says
    that the file's order is the order of what was said; without it, times are.
    """

    name: str
    title: str
    stretches: tuple[Stretch, ...]
    compactions: tuple[ImportedCompaction, ...] = ()
    conversation_id: str | None = None
    in_file_order: bool = False
