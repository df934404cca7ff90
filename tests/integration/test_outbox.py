"""The outbox: an event exists exactly when the service's own transaction does, and counts once."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import MetaData, text
from sqlalchemy.orm import Session

from takeaways.producers import BadInput, Limits, Misconfigured, PublishFailed
from takeaways.producers.outbox import Outbox, Relay
from takeaways.schemas.database import Database
from takeaways.schemas.queues import COMPACTIONS_STREAM, RUNS_STREAM
from takeaways.schemas.tables import dead_letters, inbox, runs
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import pipeline
from tests.waiting import wait_until

OUTBOX = Outbox(MetaData(), source="shop")

# A service and its relay, each as a process of its own that dies at the worst moment.
SCRIPT = textwrap.dedent(
    """
    import os, sys
    from sqlalchemy import MetaData, create_engine, event
    from sqlalchemy.orm import Session
    from takeaways.producers.outbox import Outbox, Relay

    what, database_url, redis_url = sys.argv[1:]
    engine = create_engine(database_url)
    outbox = Outbox(MetaData(), source="shop")
    if what == "service":
        with Session(engine) as session, session.begin():
            outbox.within(session).run_completed(agent_id="scout", room="quotes", run_id="r1")
        os._exit(9)

    @event.listens_for(engine, "before_cursor_execute")
    def die_before_deleting(connection, cursor, statement, *more):
        if statement.startswith("DELETE"):
            os._exit(9)

    Relay(outbox, engine, redis_url).once()
    """
)


@pytest.fixture
def service(database: Database) -> Database:
    """The database of a service, which has its own way of making tables."""
    OUTBOX.table.metadata.create_all(database.engine)
    with database.engine.begin() as connection:
        connection.execute(text("CREATE TABLE orders (number INTEGER)"))
    return database


def write(database: Database, run_id: str, *said: str) -> str:
    with Session(database.engine) as session, session.begin():
        session.execute(text("INSERT INTO orders VALUES (1)"))
        return OUTBOX.within(session).run_completed(
            agent_id="scout",
            room="quotes",
            run_id=run_id,
            messages=[{"role": "user", "content": one} for one in said],
        )


def waiting(database: Database) -> int:
    with database.engine.connect() as connection:
        return OUTBOX.waiting(connection)


def published(redis_url: str) -> int:
    with Redis.from_url(redis_url) as redis:
        return int(redis.xlen(RUNS_STREAM))


def crash(what: str, database: Database, redis_url: str) -> None:
    url = database.engine.url.render_as_string(hide_password=False)
    ended = subprocess.run([sys.executable, "-c", SCRIPT, what, url, redis_url], env={**os.environ})
    assert ended.returncode == 9


def test_an_event_is_there_exactly_when_its_transaction_is(service: Database, redis_url: str) -> None:
    """Publishing before the commit tells of what may never happen; publishing after it may never happen."""
    relay = Relay(OUTBOX, service.engine, redis_url)
    with Session(service.engine) as session:
        OUTBOX.within(session).run_completed(agent_id="scout", room="quotes", run_id="rolled-back")
        session.rollback()
    with service.engine.begin() as connection:
        OUTBOX.within(connection).run_completed(agent_id="scout", room="quotes", run_id="r1")
        assert published(redis_url) == 0

    assert relay.once() == 1
    assert relay.once() == 0
    assert (waiting(service), published(redis_url)) == (0, 1)
    relay.close()


def test_a_service_and_a_relay_that_die_in_between_lose_and_double_nothing(
    service: Database, redis_url: str
) -> None:
    """After every crash the event is published at least once, and counts once."""
    crash("service", service, redis_url)
    assert (waiting(service), published(redis_url)) == (1, 0)

    crash("relay", service, redis_url)
    assert (waiting(service), published(redis_url)) == (1, 1)

    relay = Relay(OUTBOX, service.engine, redis_url)
    relay.once()
    relay.close()
    assert (waiting(service), published(redis_url)) == (0, 2)
    with pipeline(service, redis_url, ScriptedModel()) as system:
        system.take_in()
        assert [row["run_id"] for row in system.rows(runs)] == ["r1"]
        assert len(system.rows(inbox)) == 1
        assert system.agent("scout")["runs_total"] == 1


def test_two_relays_at_once_do_no_harm(service: Database, redis_url: str) -> None:
    """A rolling restart of the service runs two for a while."""
    expected = {write(service, f"r{number}", f"Fact {number}.") for number in range(40)}
    relays = [Relay(OUTBOX, service.engine, redis_url) for _ in range(2)]
    stop = threading.Event()
    threads = [
        threading.Thread(target=relay.run, args=(stop,), kwargs={"look_seconds": 0.01}) for relay in relays
    ]

    for thread in threads:
        thread.start()
    wait_until(lambda: waiting(service) == 0)
    stop.set()
    for thread in threads:
        thread.join()

    with pipeline(service, redis_url, ScriptedModel()) as system:
        system.take_in()
        assert {row["event_id"] for row in system.rows(inbox)} == expected
        assert system.agent("scout")["runs_total"] == 40
    for relay in relays:
        relay.close()


def test_without_redis_events_wait_in_the_outbox(sqlite_database: Database, valkey: Any) -> None:
    """The service goes on; the relay says what is wrong and catches up later."""
    OUTBOX.table.metadata.create_all(sqlite_database.engine)
    with sqlite_database.engine.begin() as connection:
        OUTBOX.within(connection).run_completed(agent_id="scout", room="quotes", run_id="r1")
    away = Relay(OUTBOX, sqlite_database.engine, "redis://127.0.0.1:1/0", timeout_seconds=0.2)

    with pytest.raises(PublishFailed):
        away.once()

    assert waiting(sqlite_database) == 1
    valkey.flush()
    back = Relay(OUTBOX, sqlite_database.engine, valkey.url)
    assert back.once() == 1
    for relay in (away, back):
        relay.close()


def test_a_stream_that_redis_refuses_holds_up_no_other(sqlite_database: Database, redis_url: str) -> None:
    """A user that may not write one stream: the events of the other were published over and over, and none got by."""
    OUTBOX.table.metadata.create_all(sqlite_database.engine)
    with sqlite_database.engine.begin() as connection:
        into = OUTBOX.within(connection)
        for number in range(4):
            into.room_compacted(agent_id="scout", room="quotes", conversation="c", compaction=number + 1)
            into.run_completed(agent_id="scout", room="quotes", run_id=f"r{number}")
    relay = Relay(OUTBOX, sqlite_database.engine, redis_url)
    with Redis.from_url(redis_url) as redis:
        redis.set(COMPACTIONS_STREAM, "another program's")

        for _ in range(2):
            with pytest.raises(Misconfigured):
                relay.once(limit=2)
        assert (waiting(sqlite_database), published(redis_url)) == (4, 4)

        redis.delete(COMPACTIONS_STREAM)
        while relay.once(limit=3):
            pass
        assert (waiting(sqlite_database), redis.xlen(COMPACTIONS_STREAM)) == (0, 4)
    relay.close()


def test_what_cannot_be_published_is_refused_in_front_of_the_caller(service: Database) -> None:
    """A bad event in the table would stand in the way of all that follow."""
    with (
        service.engine.begin() as connection,
        pytest.raises(BadInput, match="agent_id"),
    ):
        OUTBOX.within(connection).run_completed(agent_id="", room="quotes", run_id="r1")

    assert waiting(service) == 0


def test_a_large_event_is_split_when_it_is_written(sqlite_database: Database, redis_url: str) -> None:
    """It travels as the producer would have sent it: several entries, whose messages arrive once each."""
    small = Outbox(MetaData(), source="shop", limits=Limits(message_bytes=1_024, entry_bytes=8 * 1_024))
    small.table.metadata.create_all(sqlite_database.engine)
    said = [{"role": "user", "content": f"{number} " + "x" * 800} for number in range(30)]
    with sqlite_database.engine.begin() as connection:
        small.within(connection).run_completed(agent_id="scout", room="quotes", run_id="r1", messages=said)
        entries = small.waiting(connection)

    relay = Relay(small, sqlite_database.engine, redis_url)
    relay.once()
    relay.close()

    with pipeline(sqlite_database, redis_url, ScriptedModel()) as system:
        system.take_in()
        assert entries > 1
        assert system.agent("scout")["messages_total"] == 30
        assert system.agent("scout")["runs_total"] == 1
        assert system.rows(dead_letters) == []


def test_only_the_outbox_needs_sqlalchemy() -> None:
    """A service that publishes without an outbox installs no database library."""
    script = (
        "import sys, takeaways.producers, takeaways.producers.testing; assert 'sqlalchemy' not in sys.modules"
    )

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=Path.cwd())

    assert ran.stderr == ""
