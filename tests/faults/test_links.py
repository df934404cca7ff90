"""A link that is cut and healed: real workers go on within the seconds that docs/faults.md promises."""

from __future__ import annotations

import logging
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from kombu.common import ignore_errors
from kombu.simple import SimpleQueue
from sqlalchemy import select

from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents
from takeaways.workers.pools.broker import make_app
from takeaways.workers.pools.hints import celery_publisher
from takeaways.workers.settings import Settings
from tests import published
from tests.faults.catalogue import START_SECONDS
from tests.faults.link import Link, Mode
from tests.faults.stage import Stage
from tests.waiting import wait_until

RUNS = 5
BOUND_SECONDS = 10.0


def extracted_after_seconds(stage: Stage, agent_id: str) -> float:
    """Publish what makes an extraction due, and wait until it has been done."""
    began = time.monotonic()
    stage.publish([published.run(f"{agent_id}-{n}", f"Fact {n}.", agent=agent_id) for n in range(RUNS)])
    wait_until(lambda: messages_read(stage.database, agent_id) == RUNS, timeout_seconds=100)
    return time.monotonic() - began


def messages_read(database: Database, agent_id: str) -> int:
    with database.read() as connection:
        read = select(agents.c.messages_read).where(agents.c.agent_id == agent_id)
        return connection.execute(read).scalar_one_or_none() or 0


def cut(link: Link, mode: Mode, seconds: float) -> None:
    link.set(mode)
    time.sleep(seconds)
    link.set(Mode.PASS)


@pytest.mark.timeout(300)
def test_work_goes_on_within_ten_seconds_of_a_link_being_healed(tmp_path: Path) -> None:
    """A dead router, a slow network, a firewall that was restarted: nobody has to start a worker again."""
    with Stage(tmp_path, postgresql=True) as stage:
        stage.start_pool(Kind.EXTRACTION)
        start_seconds = extracted_after_seconds(stage, "start")

        took = {}
        for name, link, mode, seconds in (
            ("the broker swallows", stage.link, Mode.SWALLOW, 4.0),
            ("the broker is slow", stage.link, Mode.DELAY, 2.0),
            ("the broker refuses", stage.link, Mode.REFUSE, 1.5),
            ("the database is slow", stage.database_link, Mode.DELAY, 2.0),
            ("the database refuses", stage.database_link, Mode.REFUSE, 1.5),
        ):
            cut(link, mode, seconds)
            took[name] = extracted_after_seconds(stage, name)

    # On a machine on which a process takes longer to start than it should, everything does.
    bound_seconds = BOUND_SECONDS * max(1.0, start_seconds / START_SECONDS)
    assert {name: seconds for name, seconds in took.items() if seconds > bound_seconds} == {}


def test_a_connection_to_postgresql_is_given_up_when_its_network_is_dead(
    postgresql_database: Database,
) -> None:
    """The kernel is told to notice: libpq by itself would wait for an answer for good."""
    there = postgresql_database.engine.url
    with Link(str(next(Path(str(there.query["host"])).glob(".s.PGSQL.[0-9]*[0-9]")))) as link:
        database = Database.open(there.set(host="127.0.0.1", port=link.port, query={}))
        with database.read() as connection:
            driver: Any = connection.connection.driver_connection
            with socket.socket(fileno=os.dup(driver.fileno())) as tcp:
                probes = tcp.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                idle_seconds = tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
                unanswered_ms = tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        database.dispose()

    assert probes
    assert idle_seconds < BOUND_SECONDS
    assert 0 < unanswered_ms < BOUND_SECONDS * 1000


def test_hints_whose_connection_was_lost_are_let_go_of_quietly(redis_url: str, tmp_path: Path) -> None:
    """A worker that ends over them takes every job that it has in hand with it."""
    with Link(("127.0.0.1", urlsplit(redis_url).port or 0)) as link:
        reached = f"redis://127.0.0.1:{link.port}/0"
        app: Any = make_app(Settings(home=tmp_path, redis_url=reached))
        publish = celery_publisher(app)
        for agent_id in ("ada", "bob", "eve"):
            publish(Kind.EXTRACTION, agent_id, "runs")
        connection = app.connection_for_read()
        queues = [SimpleQueue(connection.channel(), Kind.EXTRACTION.value) for _ in range(3)]
        hints: list[Any] = [queue.get(timeout=30) for queue in queues]

        link.set(Mode.REFUSE)
        # What Celery does when it notices, and which errors it bears.
        with suppress(Exception):
            connection.collect(socket_timeout=1)
        hints[0].ack_log_error(logging.getLogger(__name__), connection.connection_errors)
        for hint in hints:
            ignore_errors(connection, hint.channel.close)
        for hint in hints[1:]:
            hint.ack_log_error(logging.getLogger(__name__), connection.connection_errors)
