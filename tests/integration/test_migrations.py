"""Migrations: they make exactly the tables that the code names, on both databases, whoever runs them."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, inspect, text

from takeaways.schemas.database import Database
from takeaways.schemas.migrations import FOLDER, migrate
from takeaways.schemas.tables import metadata
from takeaways.schemas.versions import NEWEST, version_of

SCRIPTS = ScriptDirectory(str(FOLDER))
REVISIONS = [script.revision for script in reversed(list(SCRIPTS.walk_revisions("base", "heads")))]


@pytest.fixture(params=["sqlite", "postgresql"])
def blank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database without any table."""
    if request.param == "sqlite":
        database = Database.open(f"sqlite:///{tmp_path / 'blank.db'}")
        yield database
        database.dispose()
        return
    server: URL = request.getfixturevalue("_postgresql")
    name = f"blank_{uuid.uuid4().hex}"
    address = server.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        database = Database.open(server.set(database=name))
        yield database
        database.dispose()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def alembic(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def shape(connection: Connection) -> dict[str, Any]:
    """All that the catalogue says about our tables: columns with type, collation and default, and keys."""
    if connection.dialect.name == "sqlite":
        names = inspect(connection).get_table_names()
        columns = {
            name: sorted(tuple(row[1:]) for row in connection.execute(text(f"PRAGMA table_xinfo('{name}')")))
            for name in names
        }
        indexes = connection.execute(
            text("SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'index'")
        )
        found = {"columns": columns, "indexes": sorted(map(tuple, indexes), key=repr)}
    else:
        columns_sql = """
            SELECT table_name, column_name, data_type, character_maximum_length, collation_name, is_nullable,
                   column_default
            FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2"""
        indexes_sql = "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2"
        constraints_sql = """
            SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2"""
        comments_sql = """
            SELECT objoid::regclass::text, objsubid, description FROM pg_description
            WHERE classoid = 'pg_class'::regclass AND objoid::regclass::text = ANY(:names) ORDER BY 1, 2"""
        found = {
            "columns": list(map(tuple, connection.execute(text(columns_sql)))),
            "indexes": list(map(tuple, connection.execute(text(indexes_sql)))),
            "constraints": list(map(tuple, connection.execute(text(constraints_sql)))),
            "comments": list(
                map(tuple, connection.execute(text(comments_sql), {"names": sorted(metadata.tables)}))
            ),
        }
    return found


def test_migrations_make_the_tables_that_the_code_names(blank: Database) -> None:
    """A column that only the code knows fails in production, and in no test that makes its tables from it."""
    migrate(blank)

    with blank.write() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
        migrated = shape(connection)
    with blank.write() as connection:
        command.downgrade(alembic(connection), "base")
        metadata.create_all(connection)
        made = shape(connection)
        command.stamp(alembic(connection), "head")

    assert differences == []
    for what, expected in made.items():
        assert migrated[what] == expected, what


def test_the_newest_version_is_recorded_and_migrating_again_changes_nothing(blank: Database) -> None:
    """Every process migrates at its start; all but the first find the work done."""
    assert migrate(blank) == NEWEST
    with blank.read() as connection:
        before = shape(connection)

    assert migrate(blank) == NEWEST

    with blank.read() as connection:
        assert version_of(connection) == NEWEST
        assert shape(connection) == before


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_migration_can_be_taken_back(blank: Database, revision: str) -> None:
    """An upgrade that goes wrong is undone by the downgrade, and can then be tried again."""
    with blank.write() as connection:
        command.upgrade(alembic(connection), revision)
        after = shape(connection)
        command.downgrade(alembic(connection), "-1")
        command.upgrade(alembic(connection), revision)

        assert shape(connection) == after


def test_nothing_is_left_when_all_migrations_are_taken_back(blank: Database) -> None:
    """The last downgrade leaves the database as it was found, but for Alembic's own table."""
    migrate(blank)

    with blank.write() as connection:
        command.downgrade(alembic(connection), "base")

        assert inspect(connection).get_table_names() == ["alembic_version"]


def test_processes_that_start_together_migrate_once(blank: Database) -> None:
    """Both pools and their intakes start at the same moment, on a database that is still empty."""
    url = blank.engine.url.render_as_string(hide_password=False)
    code = (
        "from takeaways.schemas.database import Database; from takeaways.schemas.migrations import migrate; "
        "import sys; print('ready', flush=True); sys.stdin.readline(); "
        f"print(migrate(Database.open({url!r})))"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ended = [process.communicate(timeout=60) for process in started]

    assert [process.returncode for process in started] == [0] * 3, ended
    assert {out.strip() for out, _ in ended} == {NEWEST}
    with blank.read() as connection:
        assert set(inspect(connection).get_table_names()) == {*metadata.tables, "alembic_version"}
