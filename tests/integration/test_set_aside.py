"""Trying again, at once, what was set aside: when the reason is gone nobody should have to wait for a day."""

from __future__ import annotations

import pytest

from takeaways.schemas.database import Database
from takeaways.schemas.errors import ModelRefused
from takeaways.schemas.tables import quarantines
from takeaways.workers.cli import main
from takeaways.workers.schedule.asked import ask_set_aside
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import Pipeline, pipeline


def set_aside(system: Pipeline, *agent_ids: str) -> None:
    for agent_id in agent_ids:
        for number in range(5):
            system.producer.run_completed(
                agent_id=agent_id,
                room="quotes",
                run_id=f"run-{number}",
                status="succeeded",
                messages=[{"role": "user", "content": f"Customer {number} pays in euros."}],
            )
    system.take_in()
    system.work()


def test_what_was_set_aside_is_tried_again_at_once(database: Database, redis_url: str) -> None:
    """After a model or a bug was put right, the gap in the memory is closed now and not tomorrow."""
    with pipeline(database, redis_url, ScriptedModel(extractions=[ModelRefused(), ModelRefused()])) as system:
        set_aside(system, "scout", "ranger")
        assert [row["lifted_at_ms"] for row in system.rows(quarantines)] == [None, None]

        asked = ask_set_aside(database, ["scout"])
        system.work()

        assert asked == {"scout": 1}
        assert len(system.lessons("scout")) == 5
        assert system.lessons("ranger") == set()
        assert ask_set_aside(database) == {"ranger": 1}
        system.work()
        assert len(system.lessons("ranger")) == 5
        assert ask_set_aside(database) == {}


def test_the_command_says_what_is_tried_again(
    sqlite_database: Database,
    redis_url: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An operator sees how much it is, and that the workers do it."""
    monkeypatch.setenv("TAKEAWAYS_DATABASE_URL", str(sqlite_database.engine.url))
    monkeypatch.setenv("TAKEAWAYS_REDIS_URL", redis_url)
    with pipeline(sqlite_database, redis_url, ScriptedModel(extractions=[ModelRefused()])) as system:
        set_aside(system, "scout")
        with pytest.raises(SystemExit) as ended:
            main(["retry", "scout"])

        assert ended.value.code == 0
        said = capsys.readouterr().out.splitlines()
        assert said[-1] == "scout: 1 batch to be tried again by the workers"
        system.work()
        assert len(system.lessons("scout")) == 5

    with pytest.raises(SystemExit) as ended:
        main(["retry"])
    assert capsys.readouterr().out.splitlines()[-1] == "Nothing is set aside."
