"""Events on one Redis, hints on another: each keeps to its own, and the broker holds nothing that matters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import func, select

from takeaways.schemas.database import Database
from takeaways.schemas.queues import BROKER_PREFIX, STREAMS
from takeaways.schemas.tables import agents, inbox
from tests.deployed import TIMEOUT_SECONDS, Deployment
from tests.faults.servers import RedisServer, redis_binary
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(240)


@dataclass(frozen=True)
class Open:
    """A server without users that can be killed."""

    server: RedisServer

    def url(self, user: str) -> str:
        return self.server.url

    def keys(self) -> set[str]:
        with self.server.client() as client:
            return {key.decode() for key in client.scan_iter()}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[Open, Open]]:
    """The server of the events, and the broker."""
    binary = redis_binary("valkey")
    assert binary is not None
    with ExitStack() as stack:
        made = []
        for name in ("events", "broker"):
            server = RedisServer(binary, tmp_path / name)
            server.start()
            stack.callback(server.kill)
            made.append(Open(server))
        yield made[0], made[1]


def taken_in(database: Database, agent_id: str) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).where(inbox.c.agent_id == agent_id)) or 0


def read(database: Database, agent_id: str) -> int:
    with database.read() as connection:
        return connection.scalar(select(agents.c.messages_read).where(agents.c.agent_id == agent_id)) or 0


def test_a_broker_that_is_lost_loses_nothing(
    servers: tuple[Open, Open], sqlite_database: Database, tmp_path: Path
) -> None:
    """Hints can be kept on a Redis of their own that nobody backs up: what they were for is in the database."""
    events, broker = servers
    again = {"TAKEAWAYS_HINT_AGAIN_SECONDS": "1", "TAKEAWAYS_HINT_AGAIN_MAX_SECONDS": "2"}
    deployment = Deployment(events, str(sqlite_database.engine.url), tmp_path, broker, again)
    try:
        deployment.start("worker", "takeaways.workers.cli", "worker", "extraction")
        deployment.publish("before")
        wait_until(lambda: read(sqlite_database, "before") == 5, timeout_seconds=TIMEOUT_SECONDS)
        keys = events.keys(), broker.keys()

        broker.server.kill()
        broker.server.wipe()
        deployment.publish("meanwhile")
        wait_until(lambda: taken_in(sqlite_database, "meanwhile") == 5, timeout_seconds=TIMEOUT_SECONDS)
        broker.server.start()
        wait_until(lambda: read(sqlite_database, "meanwhile") == 5, timeout_seconds=TIMEOUT_SECONDS)
    finally:
        deployment.stop()

    assert {key for key in keys[0] if not key.startswith("takeaways:model:")} == set(STREAMS)
    assert keys[1]
    assert all(key.startswith(BROKER_PREFIX) for key in keys[1])
