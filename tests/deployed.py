"""A small deployment on servers that are set up as deploy/ has them: each process is the user that it is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from sqlalchemy import Column, select

from takeaways.producers import Producer
from takeaways.schemas.database import Database
from takeaways.schemas.tables import agents
from takeaways.workers.cli import main
from tests.secured import ROOT, SecuredRedis
from tests.waiting import wait_until

TIMEOUT_SECONDS: Final = 60.0
FLOWER: Final = ("celery", "--quiet", "-A", "takeaways.workers.app", "flower")


class Server(Protocol):
    def url(self, user: str) -> str:
        """The address of a Redis for a process that is `user` on it."""
        ...


@dataclass
class Deployment:
    """Processes and commands of ours. `broker` is the server of the hints, where it is another one."""

    redis: Server
    database_url: str
    folder: Path
    broker: Server | None = None
    more: dict[str, str] = field(default_factory=dict)
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def settings(self, user: str) -> dict[str, str]:
        """The variables of a process that is `user` on Redis."""
        return {
            "TAKEAWAYS_HOME": str(self.folder),
            "TAKEAWAYS_REDIS_URL": self.redis.url(user),
            "TAKEAWAYS_BROKER_URL": (self.broker or self.redis).url(user),
            "TAKEAWAYS_DATABASE_URL": self.database_url,
            "TAKEAWAYS_CONCURRENCY": "2",
            "TAKEAWAYS_METRICS": "false",
            "TAKEAWAYS_MODEL_CALLS_AT_ONCE": "10",
            "TAKEAWAYS_MODEL_TOKENS_A_MINUTE": "100000000",
            "FLOWER_BASIC_AUTH": "operator:correct-horse",
            "FLOWER_PORT": "0",
            "FLOWER_DB": str(self.folder / "flower.db"),
            **self.more,
        }

    def start(self, user: str, *argv: str) -> None:
        """Start a module as a process of its own."""
        rest = {name: text for name, text in os.environ.items() if not name.startswith("TAKEAWAYS_")}
        self.running.append(
            subprocess.Popen([sys.executable, "-m", *argv], env={**rest, **self.settings(user)}, cwd=ROOT)
        )

    def start_pools(self) -> None:
        for kind in ("extraction", "consolidation"):
            self.start("worker", "takeaways.workers.cli", "worker", kind)

    def start_flower(self, broker: SecuredRedis) -> None:
        """Start Flower, and wait until it hears the workers."""
        self.start("flower", *FLOWER, f"--conf={ROOT / 'deploy' / 'flower' / 'flowerconfig.py'}")
        wait_until(lambda: _listens(broker, "flower"), timeout_seconds=TIMEOUT_SECONDS)

    def publish(self, agent_id: str) -> None:
        """Five runs and a compaction: enough for one extraction and one consolidation."""
        with Producer(self.redis.url("producer")) as producer:
            for number in range(5):
                producer.run_completed(
                    agent_id=agent_id,
                    room="quotes",
                    run_id=f"r{number}",
                    messages=[{"role": "user", "content": f"Quotes over ${number}0k always need sign-off."}],
                )
            producer.room_compacted(agent_id=agent_id, room="quotes", conversation="c1", compaction=1)

    def wait_until_remembered(self, agent_id: str) -> None:
        """Wait for the extraction and the memory that comes of it.

        The streams have readers of their own: the compaction may be served before there is anything to merge, so the
        room is compacted once more.
        """
        database = Database.open(self.database_url)

        def reached(column: Column[int], least: int) -> bool:
            with database.read() as connection:
                found = connection.scalar(select(column).where(agents.c.agent_id == agent_id))
            return (found or 0) >= least

        try:
            wait_until(lambda: reached(agents.c.messages_read, 5), timeout_seconds=TIMEOUT_SECONDS)
            with Producer(self.redis.url("producer")) as producer:
                producer.room_compacted(agent_id=agent_id, room="quotes", conversation="c1", compaction=2)
            wait_until(lambda: reached(agents.c.revision, 1), timeout_seconds=TIMEOUT_SECONDS)
        finally:
            database.dispose()

    @contextmanager
    def as_user(self, user: str) -> Iterator[None]:
        """The environment of this process, as that of a process of `user`."""
        before = dict(os.environ)
        os.environ.update(self.settings(user))
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    def command(self, user: str, *argv: str) -> int:
        """Run one of our commands in this process; its exit code."""
        with self.as_user(user):
            try:
                main(argv)
            except SystemExit as ended:
                return ended.code if isinstance(ended.code, int) else 0
        return 0

    def stop(self) -> None:
        for process in self.running:
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            process.wait(TIMEOUT_SECONDS)
        self.running.clear()


def _listens(server: SecuredRedis, user: str) -> bool:
    with server.client("admin", decode_responses=True) as admin:
        clients: Any = admin.client_list()
    return any(client["user"] == user and int(client["psub"]) for client in clients)
