"""The commands about an agent's memory and about forgetting, as a person types them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from takeaways.schemas.database import Database
from takeaways.workers.exits import Exit
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import Pipeline, pipeline
from tests.typed import Run, typed

AT = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    sqlite_database: Database,
    redis_url: str,
) -> Run:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("TAKEAWAYS_DATABASE_URL", str(sqlite_database.engine.url))
    monkeypatch.setenv("TAKEAWAYS_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "200")

    return typed(capsys)


@pytest.fixture(autouse=True)
def scout(sqlite_database: Database, redis_url: str) -> Iterator[Pipeline]:
    """An agent that was told two things, in two rooms, merged one after the other."""
    with pipeline(sqlite_database, redis_url, ScriptedModel()) as system:
        for number, text in enumerate(("Staging uses port 9443.", "Quotes over $40k need sign-off.")):
            at = AT + timedelta(minutes=number)
            system.producer.run_completed(
                agent_id="scout",
                room=f"room-{number}",
                run_id=f"run-{number}",
                status="succeeded",
                started_at=at,
                ended_at=at,
                messages=[
                    {"role": "user", "content": text, "author": {"id": f"u-{number}", "kind": "person"}}
                ],
            )
            system.take_in()
            system.flush()
        yield system


def line_id(system: Pipeline, text: str) -> str:
    return next(
        line.id for section in system.memory("scout").sections for line in section.lines if line.text == text
    )


def test_blame_shows_who_said_what_where(run: Run) -> None:
    """Every line can be traced to messages, with the words."""
    ran = run("memory", "blame", "scout")
    as_json = run("memory", "blame", "scout", "--json").json

    assert "Staging uses port 9443." in ran.out
    assert "by u-0 in room-0, message run-0#0: “Staging uses port 9443.”" in ran.out
    assert [one["witnesses"][0]["message_id"] for one in as_json] == ["run-0#0", "run-1#0"]


def test_a_person_edits_pins_and_undoes(run: Run, scout: Pipeline) -> None:
    """The whole round by hand, with the history telling who and why."""
    staging = line_id(scout, "Staging uses port 9443.")

    edited = run(
        "memory", "edit", "scout", staging, "Staging uses port 9444.", "--why", "moved", "--author", "ann"
    )
    told = run("memory", "blame", "scout", staging).out
    run("memory", "pin", "scout", line_id(scout, "Quotes over $40k need sign-off."))
    run("memory", "add", "scout", "People", "Ann signs.", "--kind", "rule")
    run("memory", "remove", "scout", line_id(scout, "Ann signs."))
    undone = run("memory", "rollback", "scout", "2", "--json")
    history = run("memory", "history", "scout", "--json").json
    changes = run("memory", "changes", "scout").out

    assert (edited.code, undone.code) == (0, 0)
    assert undone.json == {"agent": "scout", "revision": 7}
    assert "“Staging uses port 9443.” until revision 3" in told
    assert [one["made_by"] for one in history] == ["rollback", "edit", "edit", "pin", "edit"] + [
        "consolidation"
    ] * 2
    assert (history[4]["author"], history[4]["why"]) == ("ann", "moved")
    assert history[5]["model"] == "scripted"
    assert "then by hand" in changes
    assert "9443" in run("memory", "show", "scout").out


def test_what_was_believed_at_a_time_is_shown(run: Run) -> None:
    """Yesterday there was no memory; today there is."""
    today = datetime.now(UTC)

    then = run("memory", "show", "scout", "--at", f"{today - timedelta(days=1):%Y-%m-%d}")
    now = run("memory", "show", "scout", "--at", f"{today:%Y-%m-%d}")

    assert then.code == Exit.NOTHING_FOUND
    assert "Staging uses port 9443." in now.out


def test_a_line_that_is_not_there_is_told(run: Run) -> None:
    """A mistyped id changes nothing."""
    ran = run("memory", "pin", "scout", "l:zzzz")

    assert ran.code == Exit.NOTHING_FOUND
    assert "`takeaways memory blame scout` shows the ids" in ran.err
    assert run("memory", "pin", "scout", "l:").code == Exit.FAILED


def test_an_agent_goes_into_a_file_and_comes_back(run: Run, tmp_path: Path) -> None:
    """Backup and restore with two commands."""
    file = tmp_path / "scout.zip"

    exported = run("memory", "export", "scout", str(file))
    refused = run("memory", "import", str(file))
    imported = run("memory", "import", str(file), "--as", "copy")

    assert "2 messages" in exported.out
    assert refused.code == Exit.FAILED
    assert "exists here" in refused.err
    assert imported.code == 0
    assert run("memory", "show", "copy").out == run("memory", "show", "scout").out


@pytest.mark.parametrize(
    ("scope", "left"),
    [
        (["agent", "scout"], []),
        (["room", "scout", "room-0"], ["Quotes over $40k need sign-off."]),
        (["person", "scout", "u-1"], ["Staging uses port 9443."]),
    ],
)
def test_erase_forgets_and_says_that_it_is_done(
    run: Run, scout: Pipeline, scope: list[str], left: list[str]
) -> None:
    """One command, for an agent, a room or a person."""
    ran = run("erase", *scope, "--yes", "--json")

    assert ran.code == 0
    assert ran.json["done"] is True
    assert ran.json["stream_entries"] == 2
    lines = [line.text for section in scout.memory("scout").sections for line in section.lines]
    assert lines == left


@pytest.mark.parametrize(
    "words",
    [
        ("status", "nobody"),
        ("jobs", "nobody"),
        ("costs", "nobody"),
        ("extract", "nobody"),
        ("flush", "scout", "nobody"),
        ("erase", "agent", "nobody", "--yes"),
        *(("memory", command, "nobody") for command in ("show", "history", "diff", "blame", "changes")),
    ],
    ids=" ".join,
)
def test_an_agent_nobody_ever_heard_of_is_told_from_one_with_nothing_yet(
    run: Run, words: tuple[str, ...]
) -> None:
    """A slip in an id must not read as an agent without work."""
    ran = run(*words)

    assert ran.code == Exit.NOTHING_FOUND
    assert "no agent 'nobody' is known here" in ran.err
    assert ran.out == ""


def test_erasing_asks_first_and_an_unknown_agent_is_told(
    run: Run, scout: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is forgotten by a slip."""
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    asked = run("erase", "agent", "scout")
    unknown = run("erase", "agent", "nobody", "--yes")
    bad = run("erase", "room", "scout", "", "--yes")

    assert asked.code != 0
    assert scout.memory("scout").sections
    assert unknown.code == Exit.NOTHING_FOUND
    assert bad.code == Exit.FAILED
