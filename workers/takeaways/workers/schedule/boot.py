"""Which boot the server is in. A restart sets the count of runs toward the next extraction back to zero.

The current boot is one row of the database, so that rolling one worker of many resets nothing. Only a server
that starts as a whole, or a pinned value that changed, begins a new one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from sqlalchemy import Connection, select, update
from sqlalchemy.dialects import postgresql, sqlite

from takeaways.schemas.database import Database
from takeaways.schemas.tables import system


def _random_id() -> str:
    return uuid.uuid4().hex


def current_boot(
    database: Database, *, pinned: str | None, fresh: bool, new_id: Callable[[], str] = _random_id
) -> str:
    """Return the current boot id, after beginning a new boot where one is due.

    `fresh` begins one at every call. `pinned` begins one when it differs from the value stored last, however
    many processes start with it at once; None adopts what is there.
    """
    with database.write() as connection:
        made = _make_row(connection, new_id, pinned)
        if made is not None:
            return made
        row = connection.execute(select(system).where(system.c.id == 1).with_for_update()).mappings().one()
        if not fresh and (pinned is None or pinned == row["pinned_boot_id"]):
            boot_id: str = row["boot_id"]
            return boot_id
        boot_id = new_id()
        pin = row["pinned_boot_id"] if pinned is None else pinned
        connection.execute(update(system).where(system.c.id == 1).values(boot_id=boot_id, pinned_boot_id=pin))
        return boot_id


def _make_row(connection: Connection, new_id: Callable[[], str], pinned: str | None) -> str | None:
    boot_id = new_id()
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    row = insert(system).values(id=1, boot_id=boot_id, pinned_boot_id=pinned)
    return connection.execute(row.on_conflict_do_nothing().returning(system.c.boot_id)).scalar_one_or_none()
