"""On PostgreSQL a lock that somebody keeps ends in an error with a name and another try, never in a wait for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError

from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.run import run_job
from takeaways.workers.leases import Claimed, Heartbeat, claim, heartbeat
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import Pipeline, pipeline
from tests.waiting import wait_until

CANCELLED = "57014"
POLICY = Policy(lease_seconds=60)


@pytest.fixture
def system(postgresql_database: Database, redis_url: str) -> Iterator[Pipeline]:
    """Two agents are due for extraction."""
    with pipeline(postgresql_database, redis_url, ScriptedModel(), POLICY) as made:
        for agent_id in ("ada", "bob"):
            for number in range(5):
                made.producer.run_completed(
                    agent_id=agent_id,
                    room="kitchen",
                    run_id=f"run-{number}",
                    messages=[{"role": "user", "content": f"Staging uses port 944{number}."}],
                )
        made.take_in()
        yield made


@contextmanager
def locked(database: Database, agent_id: str) -> Iterator[None]:
    """Somebody holds the agent's row: a session that was left open by hand, say."""
    with database.engine.connect() as connection, connection.begin():
        connection.execute(select(agents.c.agent_id).where(agents.c.agent_id == agent_id).with_for_update())
        yield


def lease_of(system: Pipeline, agent_id: str) -> int:
    return int(system.agent(agent_id)["lease_until_ms"])


def test_a_job_whose_agent_stays_locked_ends_busy_and_is_done_later(
    system: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row that somebody forgot costs one job a few seconds; no slot, no attempt, no memory."""
    monkeypatch.setattr(sys.modules[claim.__module__], "LOCK_TIMEOUT_MS", 200)

    with locked(system.database, "ada"):
        result = run_job(Kind.EXTRACTION, "ada", system.services)
    later = run_job(Kind.EXTRACTION, "ada", system.services)

    assert (result.outcome, "locked" in (result.detail or "")) == (Outcome.BUSY, True)
    assert later.outcome is Outcome.REMEMBERED
    assert system.agent("ada")["epoch"] == 1


def test_one_locked_agent_does_not_cost_the_others_their_leases(
    system: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All leases of a process are renewed in one statement: it must not stand still for one of them."""
    monkeypatch.setattr(heartbeat, "LOCK_TIMEOUT_MS", 200)
    beating = Heartbeat(system.database, lease_seconds=POLICY.lease_seconds)
    leases = {}
    for agent_id in ("ada", "bob"):
        taken = claim(
            system.database, agent_id, Kind.EXTRACTION, owner="me", job_id=f"job-{agent_id}", policy=POLICY
        )
        assert isinstance(taken, Claimed)
        leases[agent_id] = taken.lease
    before = {agent_id: lease_of(system, agent_id) for agent_id in leases}

    with (
        beating.watch(leases["ada"], deadline_seconds=60) as stuck,
        beating.watch(leases["bob"], deadline_seconds=60) as free,
        locked(system.database, "ada"),
    ):
        beating.beat()
        called_off = stuck.is_set(), free.is_set()
    beating.stop()

    assert called_off == (False, False)
    assert lease_of(system, "bob") > before["bob"]
    assert lease_of(system, "ada") == before["ada"]


def test_a_statement_that_takes_too_long_is_cancelled(postgresql_database: Database) -> None:
    """Whatever nobody thought of ends too: a thread of a pool is never lost to a statement."""
    impatient = Database.open(postgresql_database.engine.url, statement_timeout_seconds=0.2)

    with pytest.raises(DBAPIError) as refused, impatient.read() as connection:
        connection.execute(text("SELECT pg_sleep(30)"))
    impatient.dispose()

    assert getattr(refused.value.orig, "sqlstate", None) == CANCELLED


FROZEN = """
import sys
from sqlalchemy import text
from takeaways.schemas.database import Database
database = Database.open(sys.argv[1], idle_timeout_seconds=0.5)
try:
    with database.write() as connection:
        connection.execute(text("UPDATE agents SET name = 'frozen' WHERE agent_id = 'ada'"))
        print("holding", flush=True)
        sys.stdin.readline()
        connection.execute(text("SELECT 1"))
except Exception as error:
    print(type(error.orig).__name__, flush=True)
"""


def test_a_process_that_freezes_inside_a_transaction_loses_its_locks(system: Pipeline) -> None:
    """A paused virtual machine must not keep an agent from everybody until somebody wakes it up."""
    url = system.database.engine.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with subprocess.Popen(
        [sys.executable, "-c", FROZEN, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "holding\n"
        os.kill(process.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: run_job(Kind.EXTRACTION, "ada", system.services).outcome is Outcome.REMEMBERED)
        finally:
            os.kill(process.pid, signal.SIGCONT)
        said, _ = process.communicate("\n", timeout=20)

    assert said == "IdleInTransactionSessionTimeout\n"
    assert system.agent("ada")["name"] is None
