"""Entries that are no events, and a batch that kills whoever reads it: neither stops anything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import Redis
from sqlalchemy import select

from takeaways.schemas.database import Database
from takeaways.schemas.events import encode
from takeaways.schemas.queues import FIELD, RUNS_STREAM
from takeaways.schemas.tables import dead_letters, quarantines
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.testing import ScriptedModel
from tests import published
from tests.faults.history import read_history
from tests.faults.models import DEADLY
from tests.faults.poison import entries
from tests.faults.stage import Stage
from tests.pipeline import pipeline
from tests.waiting import wait_until

POLICY = Policy(lease_seconds=1.0, hint_again_seconds=1.0, hint_again_max_seconds=1.0)


def test_poison_is_kept_raw_and_stops_nothing(database: Database, redis_url: str) -> None:
    """One bad entry must not stop the next, nor vanish: somebody will want to know what it was."""
    with pipeline(database, redis_url, ScriptedModel()) as system, Redis.from_url(redis_url) as client:
        for number, payload in enumerate(entries()):
            client.xadd(RUNS_STREAM, {FIELD: payload})
            system.producer.publish(published.run(f"r{number}", "Good."))

        system.take_in()

        kept = [bytes(row["raw"]) for row in system.rows(dead_letters)]
        assert len(kept) == len(entries())
        assert all(any(payload in raw for raw in kept) for payload in entries() if len(payload) > 100)
        assert system.agent("ada")["runs_total"] == len(entries())


def test_text_that_no_database_takes_is_stored_mended(database: Database, redis_url: str) -> None:
    """NUL and half a surrogate pair come out of real programs; the rest of what was said is worth keeping."""
    with pipeline(database, redis_url, ScriptedModel()) as system, Redis.from_url(redis_url) as client:
        whole = published.run("r1", "Tea, not coffee.")
        broken = encode(whole).replace(b"Tea, not", rb"Tea\u0000, \ud83d not")
        client.xadd(RUNS_STREAM, {FIELD: broken})

        system.take_in()

        assert system.rows(dead_letters) == []
        [text] = published.texts(database).values()
        assert text.startswith("Tea")
        assert text.endswith("not coffee.")
        assert "\x00" not in text


@pytest.mark.timeout(180)
def test_a_batch_that_kills_its_workers_is_quarantined_and_the_others_go_on(tmp_path: Path) -> None:
    """Five processes die of one sentence; then it is set aside, visibly, and the agent goes on learning."""
    with Stage(
        tmp_path,
        postgresql=True,
        policy=POLICY,
        model="tests.faults.models:mortal",
        pool="prefork",
        concurrency=2,
    ) as stage:
        stage.publish([published.run(f"r{n}", DEADLY, agent="doomed", minutes=n) for n in range(5)])
        stage.publish(
            [published.run(f"o{n}", f"Tea is served at {n}.", agent="others", minutes=n) for n in range(5)]
        )
        stage.start_pools()

        wait_until(lambda: is_quarantined(stage.database), timeout_seconds=150)
        stage.publish(
            [
                published.run(f"n{n}", f"Lunch is served at {n}.", agent="doomed", minutes=9 + n)
                for n in range(5)
            ]
        )
        wait_until(lambda: lessons(stage.database, "doomed") == 5, timeout_seconds=60)
        wait_until(lambda: lessons(stage.database, "others") == 5, timeout_seconds=60)
        history = read_history(stage.database)

    [gap] = history.rows["quarantines"]
    assert gap["items"] == 5
    mine = history.of("jobs", "doomed")
    [quarantined] = [row for row in mine if row["outcome"] == Outcome.QUARANTINED]
    before = [
        row["outcome"] for row in mine if row["epoch"] < quarantined["epoch"] and row["kind"] == "extraction"
    ]
    assert before == [None] * 5
    assert len(history.of("candidates", "others")) == 5


def is_quarantined(database: Database) -> bool:
    with database.read() as connection:
        return connection.execute(select(quarantines.c.quarantine_id)).first() is not None


def lessons(database: Database, agent_id: str) -> int:
    return len(read_history(database).of("candidates", agent_id))
