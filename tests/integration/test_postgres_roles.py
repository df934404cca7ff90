"""PostgreSQL with a role for each kind of work: all of it goes on, and no role may do what is not its work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import URL, text
from sqlalchemy.exc import DBAPIError

from takeaways.recall import NoteStatus, Recall
from takeaways.recall.standing import StandingNotes, Target
from takeaways.recall.workspaces import Workspaces
from takeaways.schemas import migrations
from takeaways.schemas.database import Database
from takeaways.schemas.migrations import migrate
from takeaways.schemas.queues import FIELD, RUNS_STREAM
from takeaways.schemas.roles import READ, RECALL, RIGHTS, VERSION_TABLE, WORDS
from takeaways.schemas.tables import metadata
from takeaways.workers.bootstrap import connect
from takeaways.workers.erasure import erasing
from takeaways.workers.intake.retention import drop_old_event_ids, drop_old_texts
from takeaways.workers.metrics.standing import read_database
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import Pipeline, pipeline
from tests.secured import POSTGRES, ROLES, SecuredPostgres, make_roles, psql, secured_postgres

SECRET_WORD = "port 9443"
REFUSED = "42501"
LOCKED = "55P03"
READ_ONLY = "25006"


@pytest.fixture(scope="module")
def server(empty_postgresql: URL) -> SecuredPostgres:
    return secured_postgres(empty_postgresql)


@pytest.fixture
def working(server: SecuredPostgres, redis_url: str) -> Iterator[Pipeline]:
    database = server.open("work")
    with pipeline(database, redis_url, ScriptedModel()) as system:
        yield system
    database.dispose()


def say(system: Pipeline, agent_id: str, *said: str) -> None:
    for number, content in enumerate(said):
        system.producer.run_completed(
            agent_id=agent_id,
            room="kitchen",
            run_id=f"run-{number}",
            messages=[{"role": "user", "content": content}],
        )
    system.take_in()


def refusal(database: Database, statement: str) -> str:
    """The code with which the server refuses a statement; "" when it does not."""
    try:
        with database.read() as connection:
            connection.execute(text(statement)).all()
            connection.rollback()
    except DBAPIError as error:
        return str(getattr(error.orig, "sqlstate", ""))
    return ""


def test_everything_works_with_the_roles_that_we_ship(
    working: Pipeline, server: SecuredPostgres, tmp_path: Path
) -> None:
    """Workers, services that recall, and who only looks: each has what it needs of the tables that were migrated."""
    say(working, "scout", *(f"Staging uses {SECRET_WORD}, take {number}." for number in range(5)))
    working.work()
    working.flush()
    recalling, looking = server.open("recall"), server.open("read")

    with Recall(recalling) as recall:
        note = recall.note("scout", "kitchen", "c1")
        again = recall.note("scout", "kitchen", "c1")
        found = recall.search_memory("scout", "staging")
    notes = StandingNotes(recalling, memory=True, user=True)
    kept = notes.call(
        {"action": "add", "content": "Deploys are on Fridays."}, agent_id="scout", call_id="1", turn_id="1"
    )
    shown = notes.snapshot("scout", "kitchen", "c1")
    workspaces = Workspaces(recalling)
    (tmp_path / "w").mkdir()
    workspaces.register("scout", tmp_path / "w")
    (synced,) = workspaces.sync()
    workspaces.unregister(tmp_path / "w")
    standing = read_database(looking)
    notes.erase(Target.MEMORY, "scout")
    dropped = drop_old_event_ids(working.database), drop_old_texts(working.database, keep_days=0)
    working.producer.agent_deleted(agent_id="scout")
    working.take_in()
    with connect(working.redis_url) as client:
        erased = erasing.go_on(working.database, client)
    for database in (recalling, looking):
        database.dispose()

    assert note.status is NoteStatus.GIVEN
    assert again == note
    assert found["hits"]
    assert (kept["ok"], "Fridays" in (shown.text or "")) == (True, True)
    assert synced.outcome == "written"
    assert standing.due == {}
    assert (dropped, erased) == ((0, 5), 1)


@pytest.mark.parametrize(
    ("role", "statement"),
    [
        ("work", "CREATE TABLE spare (id int)"),
        ("work", "CREATE TEMPORARY TABLE spare (id int)"),
        ("work", "ALTER TABLE agents ADD COLUMN spare int"),
        ("work", "DROP TABLE agents"),
        ("work", "TRUNCATE messages"),
        ("work", "UPDATE alembic_version SET version_num = '9999'"),
        ("work", "CREATE ROLE spare"),
        ("work", "SELECT * FROM pg_authid"),
        ("recall", "SELECT parts FROM messages"),
        ("recall", "SELECT * FROM candidates"),
        ("recall", "SELECT * FROM dead_letters"),
        ("recall", "UPDATE agents SET epoch = 0 RETURNING agent_id"),
        ("recall", "DELETE FROM agents RETURNING agent_id"),
        ("recall", "UPDATE notes SET revision = 1 RETURNING agent_id"),
        ("recall", "INSERT INTO revisions SELECT * FROM revisions RETURNING agent_id"),
        ("recall", "CREATE TABLE spare (id int)"),
        ("read", "SELECT parts FROM messages"),
        ("read", "SELECT raw FROM dead_letters"),
        ("read", "SELECT * FROM section_texts"),
        ("read", "SET TRANSACTION READ WRITE; DELETE FROM jobs RETURNING job_id"),
        ("migrate", "CREATE ROLE spare"),
        ("migrate", "SELECT * FROM pg_authid"),
    ],
)
def test_a_role_is_refused_what_is_not_its_work(server: SecuredPostgres, role: str, statement: str) -> None:
    """A stolen password or a mistake reaches no further than the work that it was made for."""
    database = server.open(role)

    answer = refusal(database, statement)
    database.dispose()

    assert answer == REFUSED


def test_who_only_reads_writes_nothing_even_by_mistake(server: SecuredPostgres) -> None:
    """A dashboard or a support session begins read-only."""
    database = server.open("read")

    answer = refusal(database, "CREATE TABLE spare (id int)")
    with database.read() as connection:
        read_only = connection.execute(text("SHOW transaction_read_only")).scalar_one()
    database.dispose()

    assert (answer, read_only) == (READ_ONLY, "on")


def test_who_only_reads_sees_nothing_that_was_said_or_learned(
    working: Pipeline, server: SecuredPostgres
) -> None:
    """Support and dashboards can look at every table without reading a conversation."""
    say(working, "ada", *(f"Staging uses {SECRET_WORD}, take {number}." for number in range(5)))
    working.work()
    working.flush()
    with connect(working.redis_url) as client:
        client.xadd(RUNS_STREAM, {FIELD: f"no JSON, and it says {SECRET_WORD}"})
    working.take_in()
    recalling = server.open("recall")
    Recall(recalling).note("ada", "kitchen", "c1")
    StandingNotes(recalling, memory=True).call({"action": "add", "content": SECRET_WORD}, agent_id="ada")
    recalling.dispose()
    database = server.open("read")

    seen = ""
    for name, rights in RIGHTS[READ].items():
        shown = rights[0].removeprefix("SELECT").strip().strip("()") or "*"
        with database.read() as connection:
            statement = text(f'SELECT {shown} FROM "{name}"')  # noqa: S608 - our own names
            seen += str(connection.execute(statement).all())
    database.dispose()

    assert all(word in seen for word in ("ada", "not_json"))
    assert SECRET_WORD not in seen


def test_every_column_that_holds_words_is_one_of_the_tables(server: SecuredPostgres) -> None:
    """A column that was renamed must not come into sight unnoticed."""
    unknown = {
        f"{table}.{column}"
        for table, columns in WORDS.items()
        for column in columns
        if column not in metadata.tables[table].columns
    }

    assert unknown == set()
    assert set(RIGHTS[RECALL]) <= {VERSION_TABLE, *metadata.tables}


def test_migrating_again_gives_back_a_right_that_somebody_took(server: SecuredPostgres) -> None:
    """A table that a newer version brings, or a role that was made late, needs no script of its own."""
    owner = server.open("migrate")
    with owner.write() as connection:
        connection.execute(text("REVOKE SELECT ON agents FROM takeaways_work"))
        connection.execute(text("GRANT SELECT ON messages TO takeaways_recall"))

    migrate(owner)
    owner.dispose()

    work, recall = server.open("work"), server.open("recall")
    answers = refusal(work, "SELECT * FROM agents"), refusal(recall, "SELECT * FROM messages")
    for database in (work, recall):
        database.dispose()
    assert answers == ("", REFUSED)


def test_who_migrates_second_waits_for_the_first_and_not_for_a_table(server: SecuredPostgres) -> None:
    """Replicas that start together all migrate; but behind a lock of a table everybody else would wait too."""
    superuser = Database.open(server.superuser)
    limited = f'ALTER ROLE takeaways_migrate IN DATABASE "{server.superuser.database}" SET lock_timeout = %s'
    with superuser.write() as connection:
        connection.exec_driver_sql(limited.replace("%s", "'200ms'"))
    owner = server.open("migrate")
    holding, done = threading.Event(), threading.Event()

    def first() -> None:
        with superuser.write() as connection:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({migrations.ADVISORY_LOCK})")
            holding.set()
            done.wait(1.0)

    other = threading.Thread(target=first)
    other.start()
    holding.wait(20)
    migrate(owner)
    other.join()
    with superuser.write() as connection:
        connection.exec_driver_sql("LOCK TABLE agents")
        with pytest.raises(DBAPIError) as refused, owner.write() as migrating:
            migrating.exec_driver_sql("ALTER TABLE agents ADD COLUMN spare int")
        connection.exec_driver_sql(limited.replace("%s", "'10s'"))
    for database in (superuser, owner):
        database.dispose()

    assert getattr(refused.value.orig, "sqlstate", None) == LOCKED


def test_the_roles_want_passwords_that_are_worth_the_name(empty_postgresql: URL, tmp_path: Path) -> None:
    """No deployment works with a password that stands in a public file."""
    passwords = dict.fromkeys(ROLES, "a password of its own")
    mounted = tmp_path / "password"
    mounted.write_text("a password from a file\n", "utf-8")

    missing = make_roles(empty_postgresql, {})
    short = make_roles(empty_postgresql, {**passwords, "read": "secret"})
    from_file = make_roles(
        empty_postgresql,
        {role: password for role, password in passwords.items() if role != "read"},
        POSTGRES_READ_PASSWORD_FILE=str(mounted),
    )

    superuser = Database.open(empty_postgresql)
    with superuser.read() as connection:
        hashes = text("SELECT rolpassword FROM pg_authid WHERE rolname LIKE 'takeaways%'")
        stored = list(connection.execute(hashes).scalars())
    superuser.dispose()

    assert (missing.returncode, short.returncode, from_file.returncode) == (3, 3, 0)
    assert [one.partition("$")[0] for one in stored] == ["SCRAM-SHA-256"] * len(ROLES)
    assert "POSTGRES_MIGRATE_PASSWORD" in missing.stderr
    assert "POSTGRES_READ_PASSWORD" in short.stderr


def test_the_advice_on_cleaning_up_can_be_followed(server: SecuredPostgres) -> None:
    """Who owns the tables runs it as it stands."""
    ran = psql(server.url("migrate"), POSTGRES / "autovacuum.sql")

    looking = server.open("read")
    with looking.read() as connection:
        options = connection.execute(text("SELECT reloptions FROM pg_class WHERE relname = 'agents'"))
        found = options.scalar_one()
    looking.dispose()
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "autovacuum_vacuum_scale_factor=0.01" in found
