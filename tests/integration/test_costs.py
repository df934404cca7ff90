"""The bill: by job, agent and day, as the command line shows it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.tables import agents, jobs, system
from takeaways.workers.cli import main
from takeaways.workers.jobs.costs import spent_lately

DAY_MS = 24 * 3_600_000


def job(database: Database, number: int, **columns: Any) -> None:
    """A job that ended well, so many days ago."""
    days_ago = columns.pop("days_ago", 0)
    with database.write() as connection:
        started_ms = now_ms(connection) - days_ago * DAY_MS
        values = {
            "job_id": f"j{number}",
            "agent_id": "scout",
            "generation": 1,
            "kind": "extraction",
            "epoch": number,
            "reason": "runs",
            "owner": "w",
            "started_ms": started_ms,
            "ended_ms": started_ms + 10,
            "outcome": "remembered",
            "model": "claude-haiku-5-5",
            "calls": 1,
            "input_tokens": 1_000,
            "cached_tokens": 600,
            "output_tokens": 100,
            "cost_microdollars": 150,
        }
        connection.execute(insert(jobs).values({**values, **columns}))


def test_the_bill_is_by_day_agent_and_model(database: Database) -> None:
    """Whoever pays wants to know for whom, when and with which model."""
    job(database, 1)
    job(database, 2, cost_microdollars=50)
    job(database, 3, days_ago=1)
    job(database, 7, agent_id="OTHER", days_ago=40)
    job(database, 4, agent_id="other", model="house", cost_microdollars=None)
    job(database, 5, days_ago=30)
    job(database, 6, calls=0, input_tokens=0, output_tokens=0, cost_microdollars=0)

    with database.read() as connection:
        found = spent_lately(connection, days=2)
        of_prefix = spent_lately(connection, days=60, prefix="ot")

    assert [
        (one.agent_id, one.model, one.jobs, one.cost_microdollars, one.without_price) for one in found
    ] == [
        ("other", "house", 1, 0, 1),
        ("scout", "claude-haiku-5-5", 2, 200, 0),
        ("scout", "claude-haiku-5-5", 1, 150, 0),
    ]
    assert found[0].day > found[2].day
    assert [one.agent_id for one in of_prefix] == ["other"]


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    sqlite_database: Database,
) -> Callable[..., str]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("TAKEAWAYS_DATABASE_URL", str(sqlite_database.engine.url))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit):
            main(arguments)
        return capsys.readouterr().out

    return run


def test_the_command_shows_tokens_and_money(run: Callable[..., str], sqlite_database: Database) -> None:
    """A table for people, with what has no price said and not counted as free."""
    job(sqlite_database, 1, cost_microdollars=1_234_567)
    job(sqlite_database, 2, agent_id="other", model="house", cost_microdollars=None)

    shown = run("costs")

    assert "$1.23 in all, and 1 jobs without a price" in shown
    assert "no price" in shown
    assert json.loads(run("costs", "scout", "--json"))[0]["cost_microdollars"] == 1_234_567
    assert "1,000 tokens in, 100 out, $1.23" in run("jobs", "scout")


def test_status_says_once_what_a_person_must_put_right(
    run: Callable[..., str], sqlite_database: Database
) -> None:
    """Forty agents that wait for the same key are one line to read."""
    with sqlite_database.write() as connection:
        later_ms = now_ms(connection) + 60_000
        for number in range(3):
            connection.execute(
                insert(agents).values(
                    agent_id=f"agent-{number}",
                    boot_id="b",
                    not_before_ms=later_ms,
                    parked_because="the key is refused",
                    runs_total=5,
                )
            )
        connection.execute(insert(system).values(id=1, boot_id="b"))

    shown = run("status")

    assert "3 agents parked: the key is refused" in shown
    assert json.loads(run("status", "--json"))["parked"] == {"the key is refused": 3}
