"""The whole pipeline in one process, step by step: what the workers do, when a test says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select, update

from takeaways.producers import Producer
from takeaways.recall.store import load_memory
from takeaways.schemas.database import Database
from takeaways.schemas.memories import Memory
from takeaways.schemas.queues import STREAMS, Kind
from takeaways.schemas.tables import agents, candidates, messages, system
from takeaways.workers.intake.reader import StreamReader, connect_reader
from takeaways.workers.intake.taken import TakenIn
from takeaways.workers.intake.transaction import take_in
from takeaways.workers.jobs.flush import Flushed, flush
from takeaways.workers.jobs.result import JobResult
from takeaways.workers.jobs.run import run_job
from takeaways.workers.leases import Heartbeat
from takeaways.workers.models import MemoryModel
from takeaways.workers.models.limiter import Limiter, Unlimited
from takeaways.workers.models.shelf import OneModel
from takeaways.workers.schedule.boot import current_boot
from takeaways.workers.schedule.decide import Decision, decide
from takeaways.workers.schedule.moment import moment
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.state import AgentState


class NoHints:
    """Hints go nowhere: the test itself decides when a job runs."""

    def hint(self, kind: Kind, agent_id: str, reason: str) -> None:
        return


@dataclass
class Services:
    database: Database
    policy: Policy
    model: MemoryModel
    heartbeat: Heartbeat
    owner: str = "test"
    hints: NoHints = field(default_factory=NoHints)
    drain: threading.Event = field(default_factory=threading.Event)
    limiter: Limiter = field(default_factory=Unlimited)

    @property
    def models(self) -> OneModel:
        return OneModel(self.model)


class Pipeline:
    """Publish with `producer`, then `take_in`, then `work`. `advance` moves the database's clock."""

    def __init__(self, database: Database, redis_url: str, model: MemoryModel, policy: Policy) -> None:
        self.database = database
        self.redis_url = redis_url
        self.policy = policy
        current_boot(database, pinned=None, fresh=False)
        self.producer = Producer(redis_url, source="tests")
        self.services = Services(
            database, policy, model, Heartbeat(database, lease_seconds=policy.lease_seconds)
        )

    def another_worker(self, owner: str, **changes: Any) -> Services:
        """The services of another worker on the same database."""
        values = {**vars(self.services), "owner": owner, "drain": threading.Event(), **changes}
        return Services(**values)

    def take_in(self) -> TakenIn:
        """Take in whatever waits in the streams."""
        total = TakenIn()
        with connect_reader(self.redis_url) as client:
            for stream in STREAMS:
                reader = StreamReader(client, stream)
                while entries := reader.read(block_seconds=0):
                    taken = take_in(self.database, entries, policy=self.policy)
                    reader.acknowledge(taken.done)
                    total = total.plus(taken)
        return total

    def decision(self, agent_id: str) -> Decision:
        with self.database.read() as connection:
            row = connection.execute(select(agents).where(agents.c.agent_id == agent_id)).mappings().one()
            at = moment(connection)
            return decide(AgentState.of(dict(row), at), self.policy, at.now_ms)

    def work(self) -> list[JobResult]:
        """Run every job that is due, as hints would, until none is."""
        results: list[JobResult] = []
        busy = True
        while busy:
            busy = False
            for agent_id in self.agent_ids():
                due = self.decision(agent_id).next
                if due is not None:
                    results.append(run_job(due, agent_id, self.services))
                    busy = True
        return results

    def flush(
        self,
        agent_ids: Sequence[str] | None = None,
        *,
        kinds: Sequence[Kind] = (Kind.EXTRACTION, Kind.CONSOLIDATION),
    ) -> tuple[Flushed, ...]:
        return flush(self.services, agent_ids, kinds=kinds)

    def agent_ids(self) -> list[str]:
        with self.database.read() as connection:
            return list(connection.execute(select(agents.c.agent_id).order_by(agents.c.agent_id)).scalars())

    def agent(self, agent_id: str) -> Any:
        with self.database.read() as connection:
            return connection.execute(select(agents).where(agents.c.agent_id == agent_id)).mappings().one()

    def memory(self, agent_id: str) -> Memory:
        with self.database.read() as connection:
            return load_memory(connection, agent_id).memory

    def rows(self, table: Any) -> list[Any]:
        with self.database.read() as connection:
            return list(connection.execute(select(table)).mappings())

    def unread(self, agent_id: str) -> set[str]:
        return {
            row["message_id"]
            for row in self.rows(messages)
            if row["agent_id"] == agent_id and not row["read_by"]
        }

    def lessons(self, agent_id: str) -> set[tuple[str, str, int]]:
        """(text, message, said at) of every candidate that stands."""
        return {
            (row["text"], row["evidence"][0]["message_id"], row["said_at_ms"])
            for row in self.rows(candidates)
            if row["agent_id"] == agent_id and row["state"] != "withdrawn"
        }

    def advance(self, *, hours: float) -> None:
        """Move the database's clock on, as all the code sees it."""
        with self.database.write() as connection:
            offset = system.c.clock_offset_ms + round(hours * 3_600_000)
            connection.execute(update(system).values(clock_offset_ms=offset))

    def close(self) -> None:
        self.services.heartbeat.stop()
        self.producer.close()


@contextmanager
def pipeline(
    database: Database, redis_url: str, model: MemoryModel, policy: Policy | None = None
) -> Iterator[Pipeline]:
    made = Pipeline(database, redis_url, model, policy or Policy())
    try:
        yield made
    finally:
        made.close()
