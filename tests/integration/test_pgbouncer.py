"""Everything works behind PgBouncer in transaction mode, where each transaction may meet another connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, func, select, text

from takeaways.recall import NoteStatus, Recall
from takeaways.recall.standing import StandingNotes
from takeaways.schemas.database import Database
from takeaways.schemas.migrations import migrate
from takeaways.schemas.tables import agents
from takeaways.workers.testing import ScriptedModel
from tests.deployed import TIMEOUT_SECONDS, Deployment
from tests.pipeline import pipeline
from tests.secured import SecuredPostgres, as_text, pgbouncer, secured_postgres
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(240)
AGENTS = [f"agent-{number}" for number in range(6)]


@pytest.fixture(scope="module")
def direct(empty_postgresql: URL) -> SecuredPostgres:
    return secured_postgres(empty_postgresql)


@pytest.fixture(scope="module")
def pooled(direct: SecuredPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredPostgres]:
    """One connection for each role: whoever needs two at once would wait for itself."""
    with pgbouncer(direct, tmp_path_factory.mktemp("pgbouncer"), pool_size=1) as made:
        yield made


class Open:
    """A Redis without users."""

    def __init__(self, url: str) -> None:
        self._url = url

    def url(self, user: str) -> str:
        return self._url


def backends(direct: SecuredPostgres, role: str) -> int:
    """How many connections of a role the server has."""
    database = Database.open(direct.superuser)
    with database.read() as connection:
        asked = text("SELECT count(*) FROM pg_stat_activity WHERE usename = :role")
        found: int = connection.execute(asked, {"role": f"takeaways_{role}"}).scalar_one()
    database.dispose()
    return found


def test_workers_share_one_connection(
    pooled: SecuredPostgres, direct: SecuredPostgres, redis_url: str, tmp_path: Path
) -> None:
    """A hundred workers are a thousand connections, which PostgreSQL does not have: a pool in between does."""
    deployment = Deployment(Open(redis_url), as_text(pooled.url("work")), tmp_path)
    deployment.more["TAKEAWAYS_CONCURRENCY"] = "8"
    database = pooled.open("work")

    def learned() -> int:
        with database.read() as connection:
            found = select(func.count()).select_from(agents).where(agents.c.candidates_total > 0)
            return connection.execute(found).scalar_one()

    try:
        deployment.start("worker", "takeaways.workers.cli", "worker", "extraction")
        for agent_id in AGENTS:
            deployment.publish(agent_id)
        wait_until(lambda: learned() == len(AGENTS), timeout_seconds=TIMEOUT_SECONDS)
        connections = backends(direct, "work")
    finally:
        deployment.stop()
        database.dispose()

    assert connections == 1


def test_the_rest_works_there_too(pooled: SecuredPostgres, redis_url: str) -> None:
    """Migrating, consolidating, notes of many threads at once: none of it leaves anything on a connection."""
    owner, working, recalling = (pooled.open(role) for role in ("migrate", "work", "recall"))
    migrate(owner)
    with pipeline(working, redis_url, ScriptedModel()) as system:
        for number in range(5):
            system.producer.run_completed(
                agent_id="ada", room="kitchen", run_id=f"run-{number}",
                messages=[{"role": "user", "content": f"Staging uses port 944{number}."}],
            )  # fmt: skip
        system.take_in()
        system.flush()
    recall, notes = (
        Recall(recalling, timeout_seconds=30),
        StandingNotes(recalling, memory=True, timeout_seconds=30),
    )
    given, kept = [], []

    def ask(number: int) -> None:
        given.append(recall.note("ada", "kitchen", f"c{number % 2}"))
        kept.append(notes.call({"action": "add", "content": f"Fact {number}."}, agent_id="ada"))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for database in (owner, working, recalling):
        database.dispose()

    assert {note.status for note in given} == {NoteStatus.GIVEN}
    assert len({note.text for note in given}) == 1
    assert [answer["ok"] for answer in kept] == [True] * 6


def test_what_a_transaction_sets_is_gone_with_it(pooled: SecuredPostgres) -> None:
    """A time-out that stayed on the connection would end somebody else's statement."""
    impatient = pooled.open("work", statement_timeout_seconds=1.0)
    with impatient.write(lock_timeout_ms=500) as connection:
        shown = connection.execute(text("SELECT current_setting('lock_timeout')")).scalar_one()
    bare = Database.open(pooled.url("work")).engine
    with bare.connect() as connection:
        settings = text(
            "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')"
        )
        left = tuple(connection.execution_options(isolation_level="AUTOCOMMIT").execute(settings).one())
    impatient.dispose()
    bare.dispose()

    assert shown == "500ms"
    assert left == ("0", "30s")
