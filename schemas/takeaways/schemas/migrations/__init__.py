"""Alembic migrations, run by `migrate` on SQLite and PostgreSQL alike."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from takeaways.schemas.database import Database

FOLDER: Final = Path(__file__).parent
_ADVISORY_LOCK: Final = 7_261_944_310


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return config


def migrate(database: Database) -> str:
    """Bring the database to the newest version and return it. Safe to run from several processes at once."""
    with database.write() as connection:
        if not database.is_sqlite:
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
        if version_of(connection) != newest():
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    return newest()


def version_of(connection: Connection) -> str | None:
    """The version the database is at; None before the first migration."""
    return MigrationContext.configure(connection).get_current_revision()


def newest() -> str:
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None  # noqa: S101 - the package ships migrations
    return head
