"""`takeaways migrate`."""

from __future__ import annotations

from typing import Final

from takeaways.workers.cli.context import read_settings
from takeaways.workers.cli.output import AsJson, print_json, print_text

# An index of a large table takes longer than any statement of a worker may.
_LONGEST_SECONDS: Final = 3600.0


def migrate(as_json: AsJson = False) -> None:
    """Bring the database to the newest version.

    Safe to run from several places at once, and again. SQLite is also migrated by whatever works with it;
    PostgreSQL only by this command, so that you choose when.

    Example: `TAKEAWAYS_DATABASE_URL=postgresql://… takeaways migrate`
    """
    from takeaways.schemas.database import Database
    from takeaways.schemas.migrations import migrate as run
    from takeaways.workers.settings import address

    settings = read_settings()
    if settings.uses_sqlite and not settings.database_url:
        settings.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    database = Database.open(settings.database, statement_timeout_seconds=_LONGEST_SECONDS)
    try:
        version = run(database)
    finally:
        database.dispose()
    if as_json:
        print_json({"database": address(settings.database), "version": version})
    else:
        print_text(f"{address(settings.database)} is at version {version}")
