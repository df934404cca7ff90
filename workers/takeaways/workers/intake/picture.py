"""What the database knows that a batch is about: working copies of rows, which the plan then changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from takeaways.workers.intake.messages import IncomingMessage

STORED = "stored"
AWAITED = "awaited"
DELETED = "deleted"

RoomKey = tuple[str, str]
RunKey = tuple[str, str]
MessageKey = tuple[str, str, str]


@dataclass(slots=True)
class AgentCopy:
    """An agent's locked row and what a batch adds to it. Counters hold the increase."""

    row: Mapping[str, Any]
    arrivals: int = 0
    became_unread: int = 0
    left_unread: int = 0
    runs: int = 0
    compactions: int = 0
    last_success_ms: int | None = None
    name: str | None = None
    model: str | None = None
    model_window: int | None = None
    model_at_ms: int | None = None
    touched: bool = False
    withdrawn: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.last_success_ms = self.row["last_success_ms"]
        self.name = self.row["name"]
        self.model = self.row["model"]
        self.model_window = self.row["model_window"]
        self.model_at_ms = self.row["model_at_ms"]

    @property
    def generation(self) -> int:
        generation: int = self.row["generation"]
        return generation

    @property
    def deleted_at_ms(self) -> int | None:
        deleted_at_ms: int | None = self.row["deleted_at_ms"]
        return deleted_at_ms

    def next_arrival(self) -> int:
        self.arrivals += 1
        arrival: int = self.row["arrivals_total"] + self.arrivals
        return arrival

    def withdraw(self, room_id: str, message_id: str, because: str) -> None:
        self.withdrawn.setdefault(because, []).append((room_id, message_id))


@dataclass(slots=True)
class RoomCopy:
    """A room's row. `fresh` rows are inserted, `changed` ones updated."""

    agent_id: str
    room_id: str
    generation: int = 1
    deleted_at_ms: int | None = None
    title: str | None = None
    last_activity_ms: int | None = None
    conversation_id: str | None = None
    compaction: int = 0
    compaction_counted: int | None = None
    boundary_message_id: str | None = None
    fresh: bool = False
    changed: bool = False


@dataclass(slots=True)
class MessageCopy:
    """A message's row. Without its own event yet, after an edit or deletion that came first, `arrival` is 0.

    `told` is the event's message where one in this batch brought it; `rewritten` says that its content or
    state is new.
    """

    agent_id: str
    room_id: str
    message_id: str
    arrival: int
    revision: int
    state: str
    read_by: str | None = None
    quarantine_id: str | None = None
    parts: str | None = None
    told: IncomingMessage | None = None
    said_at_ms: int = 0
    offset_minutes: int = 0
    undated: bool = False
    fresh: bool = False
    rewritten: bool = False

    @property
    def is_unread(self) -> bool:
        return self.state == STORED and self.read_by is None and self.quarantine_id is None


@dataclass(slots=True)
class Picture:
    """Everything that planning looks at. `runs` holds the end of each run that is known, by its id."""

    now_ms: int
    agents: dict[str, AgentCopy] = field(default_factory=dict)
    rooms: dict[RoomKey, RoomCopy] = field(default_factory=dict)
    runs: dict[RunKey, int] = field(default_factory=dict)
    messages: dict[MessageKey, MessageCopy] = field(default_factory=dict)
    erased_persons: dict[str, dict[str, int]] = field(default_factory=dict)
    last_person_erased_ms: dict[str, int] = field(default_factory=dict)
