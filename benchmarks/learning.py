"""What the pipeline remembers of a conversation, with the turns that each line was made from.

The real pipeline on SQLite in this process: import, intake, flush. Only Redis is left out, which carries
events and hints and changes neither.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, select

from benchmarks.locomo import MemoryLine
from takeaways.recall.store import load_memory
from takeaways.schemas.database import Database
from takeaways.schemas.events import encode
from takeaways.schemas.memories import Candidate, Line, Memory
from takeaways.schemas.migrations import migrate
from takeaways.schemas.queues import FIELD, RUNS_STREAM, Kind
from takeaways.schemas.tables import candidates
from takeaways.workers.importing import Problem, events_of, read
from takeaways.workers.intake.entries import read_entry
from takeaways.workers.intake.transaction import take_in
from takeaways.workers.jobs.flush import flush
from takeaways.workers.leases.heartbeat import Heartbeat
from takeaways.workers.models.limiter import Unlimited
from takeaways.workers.models.seam import MemoryModel
from takeaways.workers.models.shelf import OneModel
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.text.plain import plain_line

AGENT: Final = "listener"


class NotLearned(Exception):
    """The pipeline did not take in or did not finish a conversation, so its memory cannot be scored."""


@dataclass(frozen=True, slots=True)
class Learned:
    """A memory of any size, and the candidates that it was made from, by id."""

    memory: Memory
    candidates: Mapping[str, Candidate]

    @property
    def newest_ms(self) -> int:
        """When the last thing that it holds was said."""
        return max((line.said_at_ms for section in self.memory.sections for line in section.lines), default=0)

    def lines(self, memory: Memory) -> list[MemoryLine]:
        """The lines of `memory`, a part of this one, each with the turns of the candidate that worded it."""
        return [
            MemoryLine(line.text, self._turns(line)) for section in memory.sections for line in section.lines
        ]

    def _turns(self, line: Line) -> frozenset[str]:
        rests_on = (self.candidates[candidate_id] for candidate_id in line.candidates)
        worded = min((one for one in rests_on if plain_line(one.text) == line.text), key=_said_order)
        turns = frozenset(evidence.message_id for evidence in worded.evidence)
        if len(turns) > 2:
            raise NotLearned(f"line {line.id} is made from {len(turns)} turns; two are the most that count")
        return turns


def learned_from(conversation: Path, model: MemoryModel, home: Path) -> Learned:
    """Import `conversation` into a new database in `home`, and flush: all is extracted and consolidated."""
    database = Database.open(f"sqlite:///{home / 'takeaways.db'}")
    migrate(database)
    services = Services(database=database, model=model)
    try:
        take_in_file(conversation, services)
        (flushed,) = flush(services, [AGENT])
        if flushed.unread or flushed.waiting:
            raise NotLearned(f"{flushed.unread} messages are unread, {flushed.waiting} candidates wait")
        with database.read() as connection:
            return Learned(load_memory(connection, AGENT).memory, candidates_of(connection))
    finally:
        services.heartbeat.stop()
        database.dispose()


@dataclass(frozen=True, slots=True)
class _NoHints:
    """Nobody waits to be told: the flush runs the jobs itself."""

    def hint(self, kind: Kind, agent_id: str, reason: str) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Services:
    """What jobs need, in this process."""

    database: Database
    model: MemoryModel
    policy: Policy = field(default_factory=Policy)
    owner: str = "benchmark"
    hints: _NoHints = field(default_factory=_NoHints)
    drain: threading.Event = field(default_factory=threading.Event)
    limiter: Unlimited = field(default_factory=Unlimited)
    heartbeat: Heartbeat = field(init=False)

    @property
    def models(self) -> OneModel:
        return OneModel(self.model)

    def __post_init__(self) -> None:
        beat = Heartbeat(self.database, lease_seconds=self.policy.lease_seconds)
        object.__setattr__(self, "heartbeat", beat)


def take_in_file(conversation: Path, services: Services) -> None:
    problems: list[Problem] = []
    rooms = read(conversation, agent_id=AGENT, report=problems.append)
    events = [event for room in rooms for event in events_of(room, AGENT, published_at=datetime.now(UTC))]
    entries = [
        read_entry(RUNS_STREAM, f"1-{number}", {FIELD.encode(): encode(event)})
        for number, event in enumerate(events)
    ]
    unread = sum(entry.reason is not None for entry in entries) + sum(problem.lost for problem in problems)
    if unread:
        raise NotLearned(f"{unread} events or records of {conversation.name} cannot be read")
    take_in(services.database, entries, policy=services.policy)


def candidates_of(connection: Connection) -> dict[str, Candidate]:
    """Every candidate there is, whatever became of it, by id."""
    rows = connection.execute(select(candidates).where(candidates.c.agent_id == AGENT)).mappings()
    return {one.id: one for one in (_candidate(dict(row)) for row in rows)}


def _candidate(row: dict[str, object]) -> Candidate:
    fields = {name: row[name] for name in ("room_id", "kind", "topic", "text", "said_at_ms", "evidence")}
    return Candidate.model_validate({"id": row["candidate_id"], **fields})


def _said_order(candidate: Candidate) -> tuple[int, str]:
    return candidate.said_at_ms, candidate.id
