"""Upgrades, on both databases: an earlier version's data and events go forward, and its workers go on meanwhile.

Nothing has been released yet, so the version before this one and the one after it are made up. Both differ from
today's as real neighbours do: columns, a table and an index that one has and the other has not.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.schema import CreateIndex

from takeaways.recall import Recall
from takeaways.schemas.database import Database
from takeaways.schemas.errors import Misconfigured
from takeaways.schemas.migrations import migrate
from takeaways.schemas.queues import FIELD, RUNS_STREAM
from takeaways.schemas.tables import agents, inbox, jobs, kept_answers, messages, metadata
from takeaways.schemas.versions import NEWEST, require, version_of
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import Pipeline, pipeline
from tests.processes import CLI, environment_of
from tests.waiting import wait_until

EARLIER, NEXT, LATER = "0000", f"0002_from_{NEWEST}", "0003_from_0002"
# What an earlier version may not have had yet: columns with and without a default, their indexes, and a table.
NEW_COLUMNS = (
    (agents, agents.c.due_since_ms),
    (agents, agents.c.due_kind),
    (agents, agents.c.due_reason),
    (agents, agents.c.spent_tokens),
    (messages, messages.c.undated),
    (messages, messages.c.expired_ms),
    (jobs, jobs.c.written_tokens),
    (jobs, jobs.c.window),
)
NEW_INDEXES = [
    (table, index)
    for table in {table for table, _ in NEW_COLUMNS}
    for index in table.indexes
    if any(
        column.name in str(CreateIndex(index).compile(dialect=sqlite.dialect()))
        for of, column in NEW_COLUMNS
        if of is table
    )
]


def operations(connection: Connection) -> Operations:
    return Operations(MigrationContext.configure(connection))


def name_version(connection: Connection, version: str) -> None:
    connection.execute(text("UPDATE alembic_version SET version_num = :version"), {"version": version})


def take_back(connection: Connection) -> None:
    """The tables of the version before, with the data that it would have had."""
    op = operations(connection)
    for table, index in NEW_INDEXES:
        op.drop_index(index.name or "", table_name=table.name)
    for table, column in NEW_COLUMNS:
        op.drop_column(table.name, column.name)
    op.drop_table(kept_answers.name)
    name_version(connection, EARLIER)


def bring_forward(connection: Connection) -> None:
    """The migration from the version before to this one. It only adds."""
    op = operations(connection)
    for table, column in NEW_COLUMNS:
        op.add_column(table.name, column._copy())
    for _, index in NEW_INDEXES:
        index.create(connection)
    kept_answers.create(connection)
    name_version(connection, NEWEST)


def expand(connection: Connection) -> None:
    """The migration to the next version, which this one can still work with."""
    op = operations(connection)
    op.add_column("agents", sa.Column("language", sa.Text()))
    op.add_column("messages", sa.Column("channel", sa.String(16), nullable=False, server_default="chat"))
    op.add_column("jobs", sa.Column("region", sa.String(16), nullable=False, server_default="home"))
    op.create_index("ix_messages_channel", "messages", ["agent_id", "channel"])
    op.create_table(
        "reminders",
        sa.Column("agent_id", sa.String(255), primary_key=True),
        sa.Column("due_ms", sa.BigInteger),
    )
    connection.execute(text("UPDATE agents SET language = 'en' WHERE name IS NOT NULL"))
    name_version(connection, NEXT)


def contract(connection: Connection) -> None:
    """The migration after that, which takes away what this version still needs."""
    operations(connection).drop_column("rooms", "summary_job_id")
    name_version(connection, LATER)


@pytest.fixture
def system(database: Database, redis_url: str) -> Iterator[Pipeline]:
    with pipeline(database, redis_url, ScriptedModel()) as made:
        yield made


def put(redis_url: str, event: dict[str, Any]) -> None:
    envelope = {"specversion": "1.0", "source": "shop", "subject": "scout", **event}
    with redis.Redis.from_url(redis_url) as client:
        client.xadd(RUNS_STREAM, {FIELD: json.dumps(envelope)})


def publish(redis_url: str, number: int, said: str, **newer: Any) -> None:
    """A run as an early producer publishes it: only what the first version demanded. `newer` joins its data."""
    at = (datetime.now(UTC) - timedelta(minutes=60 - number)).isoformat()
    data = {
        "room": {"id": "quotes"},
        "run_id": f"run-{number}",
        "status": "succeeded",
        "messages": [{"role": "user", "content": said}, {"role": "assistant", "content": "Understood."}],
        **newer,
    }
    put(redis_url, {"type": "takeaways.run.completed.v1", "id": f"e{number}", "time": at, "data": data})


def texts(system: Pipeline) -> list[str]:
    return sorted(line.text for section in system.memory("scout").sections for line in section.lines)


def test_data_of_an_earlier_version_goes_forward(system: Pipeline, redis_url: str) -> None:
    """After an upgrade everything is there: what was remembered, what waited, and what conversations began with."""
    for number in range(5):
        publish(redis_url, number, f"Customer {number} pays in euros.")
    system.take_in()
    system.flush()
    with Recall(system.database) as recall:
        pinned = recall.note("scout", room_id="support", conversation_id="c-1")
    remembered = system.memory("scout")
    publish(redis_url, 5, "Customer 5 pays in dollars.")
    system.take_in()
    with system.database.write() as connection:
        take_back(connection)
        # What only the earlier version ever writes: a row that knows no newer column.
        connection.execute(
            text(
                "INSERT INTO messages (agent_id, room_id, message_id, arrival, state, role, author_id, author_kind,"
                " said_at_ms, parts) VALUES ('scout', 'quotes', 'by-hand', 13, 'stored', 'user', 'mara', 'person',"
                " 1772500000000, :parts)"
            ),
            {"parts": json.dumps([{"type": "text", "text": "Customer 6 pays in yen."}])},
        )
        connection.execute(text("UPDATE agents SET arrivals_total = 13, messages_total = messages_total + 1"))
    publish(redis_url, 7, "Customer 7 pays in francs.")  # on the wire during the upgrade

    with system.database.write() as connection:
        bring_forward(connection)
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    system.take_in()
    before_work = system.memory("scout")
    system.flush()

    assert differences == []
    assert before_work == remembered
    said = texts(system)
    for number, currency in ((0, "euros"), (4, "euros"), (5, "dollars"), (6, "yen"), (7, "francs")):
        assert sum(f"Customer {number} pays in {currency}." in one for one in said) == 1
    assert len(said) == 8
    assert system.unread("scout") == set()
    with Recall(system.database) as recall:
        assert recall.note("scout", room_id="support", conversation_id="c-1") == pinned


def test_an_older_worker_goes_on_after_the_tables_were_expanded(system: Pipeline, redis_url: str) -> None:
    """Migrate first, then bring the workers forward one by one: those still to come lose and damage nothing."""
    for number in range(5):
        publish(redis_url, number, f"Customer {number} pays in euros.", agent={"name": "Scout"})
    system.take_in()
    system.work()

    with system.database.write() as connection:
        expand(connection)
    # A newer producer is ahead of its time, and a newer worker has written what this one does not know.
    publish(redis_url, 5, "Customer 5 pays in yen.", channel="mail", room={"id": "quotes", "language": "ja"})
    with system.database.write() as connection:
        connection.execute(text("UPDATE agents SET language = 'ja' WHERE agent_id = 'scout'"))
        begun = {"reason": "asked", "upto": 10, "asked": 0, "mood": "good"}
        connection.execute(sa.update(agents).values(extraction_pass=begun))
        connection.execute(text("INSERT INTO reminders VALUES ('scout', 1772500000000)"))
    taken = system.take_in()
    system.flush()

    with system.database.read() as connection:
        require(connection)  # it may start again on them
    assert taken.unknown_fields == 2
    assert len(texts(system)) == 6
    with system.database.read() as connection:
        assert connection.execute(text("SELECT language FROM agents")).scalars().all() == ["ja"]
        assert set(connection.execute(text("SELECT channel FROM messages")).scalars()) == {"chat"}
        assert set(connection.execute(text("SELECT region FROM jobs")).scalars()) == {"home"}
        assert connection.execute(text("SELECT due_ms FROM reminders")).scalars().all() == [1772500000000]
    assert migrate(system.database) == NEXT  # the older program leaves a newer version as it is


def test_an_event_of_an_unknown_version_waits_as_a_dead_letter(system: Pipeline, redis_url: str) -> None:
    """A producer that was upgraded too early loses nothing: `dead-letters retry` takes its events in later."""
    event = {
        "type": "takeaways.run.completed.v2",
        "id": "early",
        "time": "2026-03-02T09:00:00Z",
        "data": {"anything": ["else"]},
    }
    put(redis_url, event)
    publish(redis_url, 1, "The next entry is taken in.")

    system.take_in()

    (letter,) = system.rows(metadata.tables["dead_letters"])
    assert (letter["reason"], letter["state"]) == ("unknown_version", "open")
    assert json.loads(letter["raw"]).items() >= event.items()
    assert [row["event_id"] for row in system.rows(inbox)] == ["e1"]


@pytest.mark.parametrize(
    ("command", "version", "advice"),
    [
        ("intake extraction", EARLIER, "run `takeaways migrate`"),
        ("worker extraction", LATER, "install a newer one"),
    ],
)
def test_tables_that_a_program_cannot_work_with_are_refused(
    postgresql_database: Database,
    redis_url: str,
    tmp_path: Path,
    command: str,
    version: str,
    advice: str,
) -> None:
    """It says which of the two to bring forward, and ends with the code that says: starting again does not help."""
    with postgresql_database.write() as connection:
        name_version(connection, version)

    done = subprocess.run(
        [*CLI, *command.split()],
        env=environment_of(postgresql_database, redis_url, tmp_path),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert done.returncode == 4
    assert advice in done.stderr
    assert "Traceback" not in done.stderr


def test_tables_that_are_too_new_are_left_alone(database: Database) -> None:
    """SQLite is migrated by whatever works with it; an older program must not touch what it does not know."""
    with database.write() as connection:
        contract(connection)

    with pytest.raises(Misconfigured, match="too old for them"):
        migrate(database)

    with database.read() as connection:
        assert version_of(connection) == LATER


def test_a_pool_works_on_while_the_tables_are_expanded(
    postgresql_database: Database, redis_url: str, tmp_path: Path
) -> None:
    """A rolling upgrade begins beside real workers, which must not stumble over columns that they do not know."""

    def read() -> int:
        with postgresql_database.read() as connection:
            return connection.scalar(sa.select(agents.c.messages_read)) or 0

    variables = environment_of(postgresql_database, redis_url, tmp_path)
    running = subprocess.Popen([*CLI, "worker", "extraction"], env=variables, stderr=subprocess.DEVNULL)
    try:
        for number in range(5):
            publish(redis_url, number, f"Customer {number} pays in euros.")
        wait_until(lambda: read() == 10, timeout_seconds=60)
        with postgresql_database.write() as connection:
            expand(connection)
        for number in range(5, 10):
            publish(redis_url, number, f"Customer {number} pays in yen.", channel="mail")
        wait_until(lambda: read() == 20, timeout_seconds=60)
    finally:
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
