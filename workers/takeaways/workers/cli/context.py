"""What most commands begin with: the settings, and the database for reading."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from takeaways.schemas.database import Database
    from takeaways.schemas.errors import NotFound
    from takeaways.workers.bootstrap import Services
    from takeaways.workers.settings import Settings


def read_settings(**overrides: object) -> Settings:
    """The settings, with a warning on stderr for every `TAKEAWAYS_…` variable that nothing reads."""
    from takeaways.workers.settings import Settings, unknown_variables

    for warning in unknown_variables(os.environ):
        print(f"takeaways: {warning}", file=sys.stderr)
    return Settings.from_env(**{name: value for name, value in overrides.items() if value is not None})


def open_for_reading(settings: Settings) -> Database:
    """The database, not brought to a newer version.

    Raises `Misconfigured` where there is none yet, or one whose tables this program cannot work with.
    """
    from takeaways.schemas.versions import require

    database = open_as_it_is(settings)
    with database.read() as connection:
        require(connection)
    return database


def open_as_it_is(settings: Settings) -> Database:
    """The database, which is not asked anything yet. Raises `Misconfigured` where there is no file."""
    from sqlalchemy.engine import make_url

    from takeaways.schemas.database import Database
    from takeaways.schemas.errors import Misconfigured

    if settings.uses_sqlite:
        file = make_url(settings.database).database or ""
        if not os.path.exists(file):  # noqa: PTH110 - also for names that no Path accepts
            raise Misconfigured(
                f"there is no database at {file} yet; `takeaways up` or `takeaways migrate` makes one"
            )
    return Database.open(settings.database)


def require_known(connection: Connection, *agent_ids: str) -> None:
    """Raises `unknown` for the first of the agents that is."""
    from sqlalchemy import select

    from takeaways.schemas.tables import agents

    known = set(connection.scalars(select(agents.c.agent_id).where(agents.c.agent_id.in_(agent_ids))))
    for agent_id in agent_ids:
        if agent_id not in known:
            raise unknown(agent_id)


def unknown(agent_id: str) -> NotFound:
    """The error for an agent that nobody ever heard of here."""
    from takeaways.schemas.errors import NotFound

    return NotFound(f"no agent {agent_id!r} is known here; `takeaways status` lists those that are")


def build_services(settings: Settings) -> Services:
    """What a command needs to run a job itself. Close it afterwards."""
    from takeaways.workers import telemetry
    from takeaways.workers.bootstrap import build, migrated_database

    telemetry.configure("text", "WARNING", process="command")
    open_as_it_is(settings).dispose()  # whoever asks for work knows an agent: a database that is new has none
    migrated_database(settings).dispose()
    return build(settings)
