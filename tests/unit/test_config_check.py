"""`takeaways config check`: what is set, from where, and what is wrong with it."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest

from takeaways.schemas.errors import Misconfigured
from takeaways.workers.cli import main
from takeaways.workers.settings import Settings
from takeaways.workers.settings.check import Checked, Setting, Source, check


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("TAKEAWAYS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")


def setting(checked: Checked, name: str) -> Setting:
    return next(one for one in checked.settings if one.variable == f"TAKEAWAYS_{name}")


def test_each_value_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever wonders why a worker does what it does sees which value holds, and who set it."""
    home = tmp_path / "takeaways"
    home.mkdir()
    (home / "up.json").write_text(json.dumps({"redis_url": "redis://127.0.0.1:7001/0"}))
    monkeypatch.setenv("TAKEAWAYS_CONCURRENCY", "7")

    with (home / "up.json").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        checked = check(os.environ)

    assert (setting(checked, "CONCURRENCY").shown, setting(checked, "CONCURRENCY").source) == (
        "7",
        Source.ENVIRONMENT,
    )
    assert setting(checked, "REDIS_URL").source is Source.RUNNING_UP
    assert setting(checked, "REDIS_URL").shown == "redis://127.0.0.1:7001/0"
    assert setting(checked, "IDLE_SECONDS").source is Source.DEFAULT
    assert checked.works


def test_all_that_is_wrong_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody likes to mend one variable, only to be told of the next."""
    monkeypatch.setenv("TAKEAWAYS_CONCURRENCY", "hunter2")
    monkeypatch.setenv("TAKEAWAYS_WINDOW", "12")
    monkeypatch.setenv("TAKEAWAYS_IDLE_SECOND", "9")

    checked = check(os.environ)

    assert not checked.works
    assert [one.variable for one in checked.settings if one.problem] == [
        "TAKEAWAYS_WINDOW",
        "TAKEAWAYS_CONCURRENCY",
    ]
    assert "hunter2" not in repr(checked)
    assert checked.unknown == (
        "TAKEAWAYS_IDLE_SECOND is no setting of ours; is TAKEAWAYS_IDLE_SECONDS meant?",
    )


def test_a_table_that_is_no_json_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing brace is found without reading a traceback."""
    monkeypatch.setenv("TAKEAWAYS_WINDOWS", '{"house-model": 64000')

    checked = check(os.environ)

    assert setting(checked, "WINDOWS").problem == "this is no JSON"
    with pytest.raises(Misconfigured, match="TAKEAWAYS_WINDOWS"):
        Settings.from_env()


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"POOL": "prefork"}, "SQLite does not survive a fork"),
        ({"REDIS_URL": "http://example.test"}, "TAKEAWAYS_REDIS_URL"),
        ({"DATABASE_URL": "mysql://example.test/memory"}, "TAKEAWAYS_DATABASE_URL"),
        ({"HINT_AGAIN_SECONDS": "90", "HINT_AGAIN_MAX_SECONDS": "10"}, "TAKEAWAYS_HINT_AGAIN_SECONDS"),
    ],
)
def test_values_that_do_not_go_together_are_told(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], told: str
) -> None:
    """Each value may be right by itself and the whole still not start."""
    for name, value in variables.items():
        monkeypatch.setenv(f"TAKEAWAYS_{name}", value)

    checked = check(os.environ)

    assert not checked.works
    assert any(told in problem for problem in checked.problems)


def test_the_command_shows_no_password_and_fails_when_a_worker_could_not_start(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its output can be pasted into a ticket, and a deployment can stop at its exit code."""
    monkeypatch.setenv("TAKEAWAYS_REDIS_URL", "redis://me:hunter2@example.test:6380/1")
    monkeypatch.setenv("TAKEAWAYS_CONCURRENCY", "0")

    with pytest.raises(SystemExit) as wrong:
        main(["config", "check"])
    monkeypatch.delenv("TAKEAWAYS_CONCURRENCY")
    with pytest.raises(SystemExit) as right:
        main(["config", "check", "--json"])

    shown = capsys.readouterr().out
    assert (wrong.value.code, right.value.code) == (4, 0)
    assert "redis://example.test:6380/1" in shown
    assert "hunter2" not in shown
    assert "wrong: TAKEAWAYS_CONCURRENCY" in shown
