"""Alembic migrations, run by `migrate` on SQLite and PostgreSQL alike. `docs/upgrades.md` has the rules for them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config

from takeaways.schemas.database import Database
from takeaways.schemas.errors import Misconfigured
from takeaways.schemas.roles import grant
from takeaways.schemas.versions import NEWEST, Fit, complaint, fit, version_of

FOLDER: Final = Path(__file__).parent
ADVISORY_LOCK: Final = 7_261_944_310


def migrate(database: Database) -> str:
    """Bring the database to the newest version and return the one that it is at.

    Safe to run from several processes at once. On PostgreSQL the roles of `takeaways.schemas.roles` that there are
    get their rights too. A newer version that this program works with is left as it is;
    `Misconfigured` is raised where it does not.
    """
    with database.write() as connection:
        if not database.is_sqlite:
            # Another that migrates may take its time; only a lock of a table is not waited for without an end.
            connection.exec_driver_sql("SET LOCAL lock_timeout = 0")
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")
            connection.exec_driver_sql("SET LOCAL lock_timeout TO DEFAULT")
        at = version_of(connection)
        if fit(at) in (Fit.EMPTY, Fit.OLD):
            config = Config()
            config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
            config.attributes["connection"] = connection
            command.upgrade(config, NEWEST)
            at = NEWEST
        if why := complaint(at):
            raise Misconfigured(why)
        if at == NEWEST:
            grant(connection)
        return at or NEWEST
