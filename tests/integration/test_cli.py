"""The command line on a real database: what is printed, as text and as JSON, and with which exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import insert, update

from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.queues import RUNS_STREAM
from takeaways.schemas.tables import agents, dead_letters, jobs, system
from tests.memories import memory, remember, section
from tests.typed import Run, typed


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sqlite_database: Database) -> None:
    """Commands meet the test's database, no server, and a terminal that is wide enough."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("TAKEAWAYS_DATABASE_URL", str(sqlite_database.engine.url))
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("TAKEAWAYS_HOME", "TAKEAWAYS_REDIS_URL", "TAKEAWAYS_MODEL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return typed(capsys)


def know(database: Database, agent_id: str, **columns: object) -> None:
    with database.write() as connection:
        connection.execute(insert(agents).values(agent_id=agent_id, boot_id="b", **columns))
        if connection.execute(update(system).where(system.c.id == 1).values(boot_id="b")).rowcount == 0:
            connection.execute(insert(system).values(id=1, boot_id="b"))


def test_status_says_what_each_agent_waits_for(run: Run, sqlite_database: Database) -> None:
    """One look tells where everybody stands."""
    know(sqlite_database, "scout", runs_total=13, runs_served=10)

    ran = run("status")

    assert ran.code == 0
    assert "scout" in ran.out
    assert "3 of 5 runs since the last extraction" in ran.out


def test_status_of_one_agent_goes_into_detail(run: Run, sqlite_database: Database) -> None:
    """Rooms, messages, candidates and the last jobs of one agent, on one page."""
    know(sqlite_database, "scout", messages_total=12, messages_read=5, candidates_total=9)
    put_job(sqlite_database, "scout", outcome="remembered", candidates_made=9)

    ran = run("status", "scout")

    assert "12 taken in, 7 unread" in ran.out
    assert "9 found, 9 waiting" in ran.out
    assert "remembered" in ran.out


def test_status_for_programs_is_one_json_document(run: Run, sqlite_database: Database) -> None:
    """A script asks the same decision as the workers do."""
    know(sqlite_database, "acme/scout", runs_total=5)
    know(sqlite_database, "ACME/scout", runs_total=5)
    know(sqlite_database, "other")

    seen = run("status", "--prefix", "acme/", "--json").json

    assert [agent["agent"] for agent in seen["agents"]] == ["acme/scout"]
    assert (seen["agents"][0]["next"], seen["agents"][0]["reason"]) == ("extraction", "runs")


def test_ids_are_shown_as_they_are(run: Run, sqlite_database: Database) -> None:
    """An id that looks like markup neither disappears nor changes colours."""
    know(sqlite_database, "[red]scout[/red]")

    assert "[red]scout[/red]" in run("status").out


def test_jobs_show_every_ending_by_its_name(run: Run, sqlite_database: Database) -> None:
    """The words in the table are the words of logs, metrics and the documentation."""
    put_job(sqlite_database, "scout", outcome="remembered", candidates_made=3, messages_read=40)
    put_job(
        sqlite_database, "scout", outcome="refused_edits", detail="a section is not accounted for", epoch=2
    )

    ran = run("jobs", "scout")

    assert "remembered" in ran.out
    assert "40 messages read, 3 candidates" in ran.out
    assert "refused_edits" in ran.out
    assert run("jobs", "scout", "--json").json[0]["job_id"]


def test_memory_is_shown_with_its_history_and_what_changed(run: Run, sqlite_database: Database) -> None:
    """Memory can be read, and each revision can be compared with the one before."""
    quotes = section("Quotes", "Quotes over $40k need sign-off.")
    remember(sqlite_database, "scout", memory(quotes))
    remember(sqlite_database, "scout", memory(quotes, section("Reports", "One page is enough.")))

    assert "Quotes over $40k need sign-off." in run("memory", "show", "scout").out
    assert "Reports" not in run("memory", "show", "scout", "--revision", "1").out
    assert [one["revision"] for one in run("memory", "history", "scout", "--json").json] == [2, 1]
    changes = run("memory", "diff", "scout").out
    assert "+## Reports" in changes
    assert "Quotes over" not in [line[:11] for line in changes.splitlines() if line[:1] in "+-"]


def test_recall_prints_the_note_and_writes_the_folder(
    run: Run, sqlite_database: Database, tmp_path: Path
) -> None:
    """A shell script can do what a service does at the start of a conversation."""
    remember(sqlite_database, "scout", memory(section("Quotes", "Quotes over $40k need sign-off.")))
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    ran = run("recall", "scout", "new-deal", "--conversation", "c1", "--folder", str(workspace))

    assert ran.code == 0
    assert "sign-off" in ran.out
    assert (workspace / "agent-memory" / "MEMORY.md").exists()
    assert run("recall", "scout", "new-deal", "--conversation", "c1").out == ran.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "nobody"),
        ("memory", "show", "nobody"),
        ("memory", "history", "nobody"),
        ("memory", "diff", "nobody"),
        ("recall", "nobody", "room"),
        ("jobs", "nobody"),
        ("dead-letters", "discard", "nothing"),
        ("dead-letters", "show", "nothing"),
        ("memory", "edit", "nobody", "l:1", "text"),
        ("memory", "rollback", "nobody", "1"),
        ("memory", "export", "nobody", "nowhere.zip"),
        ("retry", "nobody"),
        ("extract", "nobody", "--now"),
        ("flush", "nobody"),
    ],
)
def test_what_is_not_there_has_an_exit_code_of_its_own(
    run: Run, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A script tells 'nothing there' from 'it failed', and a person is told in one line."""
    monkeypatch.chdir(tmp_path)
    ran = run(*arguments)

    assert ran.code == 3
    assert ran.out == ""
    assert len(ran.err.splitlines()) == 1


def test_a_misunderstood_command_is_a_usage_error(run: Run) -> None:
    """A typo in a command is not a failure of the system."""
    assert run("memory", "shwo").code == 2
    assert run("worker", "everything").code == 2


def test_a_bad_setting_is_named_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback for what a person can put right."""
    monkeypatch.setenv("TAKEAWAYS_CONCURRENCY", "many")

    ran = run("status")

    assert ran.code == 4
    assert ran.err.startswith("takeaways: TAKEAWAYS_CONCURRENCY: ")


def test_a_model_that_nobody_knows_is_refused_at_the_start(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that can do no job do not look as if they could."""
    monkeypatch.setenv("TAKEAWAYS_CONSOLIDATION_MODEL", "gpt")

    ran = run("worker", "extraction")

    assert ran.code == 4
    assert ran.err.startswith("takeaways: TAKEAWAYS_CONSOLIDATION_MODEL: 'gpt' is not known; use offline")


def test_a_misspelt_variable_is_told_on_stderr(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that does nothing is noticed, and JSON on stdout stays JSON."""
    monkeypatch.setenv("TAKEAWAYS_REDIS", "x")

    ran = run("status", "--json")

    assert "is TAKEAWAYS_REDIS_URL meant?" in ran.err
    assert ran.json["agents"] == []


@pytest.mark.parametrize("command", ["status", "flush", "retry", "scan"])
def test_without_a_database_the_next_step_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """The first command of a newcomer, or one with the wrong folder, says what to do instead of finding nothing."""
    monkeypatch.delenv("TAKEAWAYS_DATABASE_URL")

    ran = run(command)

    assert ran.code == 4
    assert "takeaways up" in ran.err
    assert not (tmp_path / "data").exists()


def test_a_database_without_tables_is_told(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A forgotten migration is a sentence, not a stack of SQL."""
    (tmp_path / "empty.db").touch()
    monkeypatch.setenv("TAKEAWAYS_DATABASE_URL", f"sqlite:///{tmp_path}/empty.db")

    ran = run("status")

    assert ran.code == 4
    assert "takeaways migrate" in ran.err


def test_migrate_makes_a_database_ready_and_may_be_repeated(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One command before the first start, and again after every upgrade."""
    monkeypatch.delenv("TAKEAWAYS_DATABASE_URL")

    first, again = run("migrate", "--json"), run("migrate", "--json")

    assert first.json == again.json
    assert (tmp_path / "data" / "takeaways" / "takeaways.db").exists()
    assert run("status").code == 0


def test_redis_that_does_not_answer_is_told_in_one_line(
    run: Run, sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever forgot to start a server is told so, with an exit code that says: try again later."""
    monkeypatch.setenv("TAKEAWAYS_REDIS_URL", "redis://me:hunter2@127.0.0.1:1/0")
    put_letter(sqlite_database, "d:1", b"whole")

    ran = run("dead-letters", "retry", "d:1")

    assert ran.code == 5
    assert ran.err.startswith("takeaways: Redis does not answer")
    assert "hunter2" not in ran.err


def test_dead_letters_are_listed_shown_and_settled(run: Run, sqlite_database: Database) -> None:
    """An event that could not be taken in is seen with its reason and its bytes, and then settled."""
    put_letter(sqlite_database, "d:1", b'{"specversion": "1.0"')

    assert "not_json" in run("dead-letters", "list").out
    assert run("dead-letters", "list", "--json").json[0]["id"] == "d:1"
    assert '{"specversion": "1.0"' in run("dead-letters", "show", "d:1").out
    assert "open dead letters: 1 not_json" in run("status").out
    assert run("status", "--json").json["dead_letters"] == {"not_json": 1}
    assert run("dead-letters", "discard", "d:1").code == 0
    assert "dead letters" not in run("status").out
    assert run("dead-letters", "list", "--json").json == []


def test_dead_letters_of_one_reason_are_settled_together(run: Run, sqlite_database: Database) -> None:
    """After an upgrade, or a producer's mistake, there may be thousands: nobody types their ids."""
    for number in range(3):
        put_letter(sqlite_database, f"d:{number}", b"whole")

    assert run("dead-letters", "discard", "--reason", "bad_field").code == 0
    assert len(run("dead-letters", "list", "--json").json) == 3
    assert run("dead-letters", "discard", "--reason", "not_json").code == 0
    assert run("dead-letters", "list", "--json").json == []
    assert run("dead-letters", "discard").code == 2
    assert run("dead-letters", "discard", "d:1", "--reason", "not_json").code == 2


def test_a_dead_letter_is_published_again_byte_for_byte(
    run: Run, sqlite_database: Database, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an upgrade, events of a newer kind get their second chance."""
    from redis import Redis

    monkeypatch.setenv("TAKEAWAYS_REDIS_URL", redis_url)
    put_letter(sqlite_database, "d:1", b"whole")

    assert run("dead-letters", "retry", "d:1").code == 0

    with Redis.from_url(redis_url) as client:
        [(_, fields)] = client.xrange(RUNS_STREAM)
    assert list(fields.values()) == [b"whole"]


def test_no_colours_where_nobody_sees_them(run: Run, sqlite_database: Database) -> None:
    """Output in a pipe or a file holds no escape sequences."""
    know(sqlite_database, "scout")
    put_job(sqlite_database, "scout", outcome="failed")

    assert "\x1b" not in run("status").out + run("jobs").out


def test_help_needs_nothing_heavy() -> None:
    """`takeaways --help` is quick, because what a command needs is loaded when the command runs."""
    heavy = ("anthropic", "celery", "sqlalchemy", "pydantic", "redis", "structlog", "alembic")
    script = (
        "import sys\n"
        "from takeaways.workers.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )

    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert ran.stderr.strip() == "[]"
    assert "import" in ran.stdout


def put_job(database: Database, agent_id: str, *, epoch: int = 1, **columns: object) -> None:
    with database.write() as connection:
        at_ms = now_ms(connection)
        connection.execute(
            insert(jobs).values(
                job_id=f"{agent_id}-{epoch}",
                agent_id=agent_id,
                generation=1,
                kind="extraction",
                epoch=epoch,
                reason="runs",
                owner="test",
                started_ms=at_ms - 2_000,
                ended_ms=at_ms,
                **columns,
            )
        )


def put_letter(database: Database, letter_id: str, raw: bytes) -> None:
    with database.write() as connection:
        connection.execute(
            insert(dead_letters).values(
                dead_letter_id=letter_id,
                stream=RUNS_STREAM,
                entry_id=f"{letter_id}-0",
                reason="not_json",
                detail="it ends in the middle",
                raw=raw,
                at_ms=1_800_000_000_000,
            )
        )
