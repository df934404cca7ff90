"""The settings: read from the environment in one place, frozen, and never shown with a secret."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from takeaways.schemas.errors import Misconfigured
from takeaways.workers.settings import Settings, address, unknown_variables
from takeaways.workers.settings.page import page


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TAKEAWAYS_REDIS_URL", "TAKEAWAYS_DATABASE_URL", "TAKEAWAYS_HOME", "TAKEAWAYS_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def test_defaults_put_everything_into_the_data_folder(tmp_path: Path) -> None:
    """Two commands in two folders meet the same memory without any setting."""
    settings = Settings.from_env()

    assert settings.database == f"sqlite:///{tmp_path}/takeaways/takeaways.db"
    assert settings.broker == settings.redis_url
    assert settings.policy.runs_per_extraction == 5
    assert settings.policy.idle_seconds == 6 * 3600


def test_variables_become_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each number of the decision can be set, under its own name."""
    monkeypatch.setenv("TAKEAWAYS_RUNS_PER_EXTRACTION", "3")
    monkeypatch.setenv("TAKEAWAYS_IDLE_SECONDS", "1.5")

    policy = Settings.from_env().policy

    assert policy.runs_per_extraction == 3
    assert policy.idle_ms == 1_500


def test_a_bad_value_is_named_without_being_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which variable to mend and does not repeat what may be a secret in the wrong place."""
    monkeypatch.setenv("TAKEAWAYS_CONCURRENCY", "hunter2")

    with pytest.raises(Misconfigured, match="TAKEAWAYS_CONCURRENCY") as caught:
        Settings.from_env()

    assert "hunter2" not in str(caught.value)


def test_a_misspelt_variable_is_named_with_the_likely_one() -> None:
    """A typo in a variable's name is told, because it would otherwise just do nothing."""
    warnings = unknown_variables({"TAKEAWAYS_IDLE_SECOND": "9", "TAKEAWAYS_DATA": "x", "PATH": "/bin"})

    assert warnings == ["TAKEAWAYS_IDLE_SECOND is no setting of ours; is TAKEAWAYS_IDLE_SECONDS meant?"]


def test_passwords_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings can be printed and logged."""
    monkeypatch.setenv("TAKEAWAYS_REDIS_URL", "redis://me:hunter2@example.test:6380/1")
    monkeypatch.setenv(
        "TAKEAWAYS_DATABASE_URL", "postgresql://me:hunter2@example.test/memory?password=hunter2"
    )

    settings = Settings.from_env()

    assert "hunter2" not in repr(settings)
    assert address(settings.redis_url) == "redis://example.test:6380/1"
    assert address(settings.database) == "postgresql://example.test/memory"
    assert address("redis://[broken") == "(a URL that cannot be read)"


def test_another_process_gets_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command was told holds for the workers that it starts."""
    settings = Settings.from_env(idle_seconds=2.0, concurrency=3, redis_url="redis://127.0.0.1:7000/0")
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)

    again = Settings.from_env()

    assert again.policy == settings.policy
    assert (again.database, again.broker) == (settings.database, "redis://127.0.0.1:7000/0")


def test_a_running_server_is_found_by_the_commands_of_a_second_terminal(tmp_path: Path) -> None:
    """`takeaways up` in one terminal, `takeaways status` in another, and nothing to configure."""
    home = tmp_path / "takeaways"
    home.mkdir()
    (home / "up.json").write_text(json.dumps({"redis_url": "redis://127.0.0.1:7001/0", "idle_seconds": 9}))

    with (home / "up.json").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = Settings.from_env()

    assert found.redis_url == "redis://127.0.0.1:7001/0"
    assert found.idle_seconds == 9
    assert Settings.from_env().redis_url == "redis://127.0.0.1:6379/0", "the server is gone with its lock"


def test_what_is_set_wins_over_a_running_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever names a server means that one."""
    home = tmp_path / "takeaways"
    home.mkdir()
    (home / "up.json").write_text(json.dumps({"redis_url": "redis://127.0.0.1:7001/0"}))
    monkeypatch.setenv("TAKEAWAYS_REDIS_URL", "redis://127.0.0.1:7002/0")

    with (home / "up.json").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = Settings.from_env()

    assert found.redis_url == "redis://127.0.0.1:7002/0"


def test_the_page_of_settings_is_the_one_that_the_code_makes() -> None:
    """What can be set is found on one page, and the page says what is so."""
    on_disk = (Path(__file__).parents[2] / "docs" / "settings.md").read_text("utf-8")

    assert on_disk == page(), "run `make settings`"


def test_every_setting_says_what_it_is_for() -> None:
    """A variable without a sentence is one that nobody dares to set."""
    assert [name for name, info in Settings.model_fields.items() if not info.description] == []
