"""What a storm left behind, read once from the database and from Redis: plain values for the checker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import redis
from sqlalchemy import select

from takeaways.recall.store import load_memory
from takeaways.schemas import tables
from takeaways.schemas.database import Database
from takeaways.schemas.events import Event
from takeaways.schemas.memories import Memory
from takeaways.schemas.queues import BROKER_PREFIX, GROUP, STREAMS, Kind

Row = Mapping[str, Any]
_TABLES: Final = (
    "inbox",
    "agents",
    "rooms",
    "runs",
    "messages",
    "candidates",
    "revisions",
    "jobs",
    "quarantines",
    "dead_letters",
)


@dataclass(frozen=True, slots=True)
class History:
    """The tables, the memory of each agent, and what is still in Redis."""

    rows: Mapping[str, tuple[Row, ...]]
    memories: Mapping[str, Memory]
    pending: Mapping[str, int] = field(default_factory=dict)
    queued: Mapping[str, int] = field(default_factory=dict)

    def of(self, table: str, agent_id: str) -> list[Row]:
        return [row for row in self.rows[table] if row["agent_id"] == agent_id]

    def only(self, prefix: str) -> History:
        """What concerns the agents whose ids begin so; Redis as it is."""
        rows = {
            name: tuple(row for row in found if str(row["agent_id"] or "").startswith(prefix))
            for name, found in self.rows.items()
        }
        memories = {name: memory for name, memory in self.memories.items() if name.startswith(prefix)}
        return History(rows, memories, self.pending, self.queued)

    @property
    def agent_ids(self) -> list[str]:
        return sorted(row["agent_id"] for row in self.rows["agents"])


def read_history(database: Database, client: redis.Redis | None = None) -> History:
    """Read everything. Nothing may work on it meanwhile."""
    with database.read() as connection:
        rows = {
            name: tuple(dict(row) for row in connection.execute(select(getattr(tables, name))).mappings())
            for name in _TABLES
        }
        memories = {
            row["agent_id"]: load_memory(connection, row["agent_id"]).memory for row in rows["agents"]
        }
    if client is None:
        return History(rows, memories)
    return History(rows, memories, *read_redis(client))


def read_redis(client: redis.Redis) -> tuple[dict[str, int], dict[str, int]]:
    """How many entries of each stream are not taken in, and how many hints wait in each queue."""
    pending = {stream: _pending(client, stream) for stream in STREAMS}
    queued = {kind.value: int(client.llen(f"{BROKER_PREFIX}{kind}")) for kind in Kind}
    return pending, queued


def _pending(client: redis.Redis, stream: str) -> int:
    """Entries that are delivered and not acknowledged, and those that nobody has read yet."""
    groups: Any = client.xinfo_groups(stream) if client.exists(stream) else []
    for group in groups:
        if group["name"] == GROUP.encode():
            unread: Any = client.xrange(stream, f"({group['last-delivered-id'].decode()}", "+")
            return int(group["pending"]) + len(unread)
    return int(client.xlen(stream))


@dataclass(frozen=True, slots=True)
class Known:
    """What the storm itself knows: what was acknowledged, and entries that are no events."""

    events: Mapping[str, Event]
    poison: int = 0
