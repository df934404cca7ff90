"""The instants that a decision is made at, read together: the database's clock, the boot, the clock of leases."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import Connection, Select, func, select

from takeaways.schemas.database import lease_clock, lease_expression, now_expression
from takeaways.schemas.tables import system
from takeaways.workers.schedule.state import Moment


def moment(connection: Connection) -> Moment:
    """All of them, in one statement. Take it after the lock: an instant from before a wait may have passed."""
    row = connection.execute(_statement(connection.dialect.name)).one()
    clock = (int(row[2]), "") if len(row) > 2 else lease_clock(connection)
    return Moment(int(row[0]), str(row[1]), clock)


@cache
def _statement(dialect: str) -> Select[Any]:
    boot_id = select(system.c.boot_id).where(system.c.id == 1).scalar_subquery()
    at = select(now_expression(dialect), func.coalesce(boot_id, ""))
    lease = lease_expression(dialect)
    return at.add_columns(*(() if lease is None else (lease,)))
