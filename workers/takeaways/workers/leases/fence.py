"""The check that stands at the head of every transaction of a job: is the lease still ours?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection
from sqlalchemy.engine import RowMapping

from takeaways.schemas.database import Database
from takeaways.schemas.errors import FencedOff
from takeaways.workers.faults import fault_point
from takeaways.workers.leases.claim import LOCK_TIMEOUT_MS, lock
from takeaways.workers.leases.lease import Lease


@contextmanager
def fenced(database: Database, lease: Lease) -> Iterator[tuple[Connection, RowMapping]]:
    """A write transaction that holds the agent's row. Raises `FencedOff` when another epoch has begun.

    A lease that ran out but that nobody took is still ours: no other job can have started under this epoch.
    """
    with database.write(lock_timeout_ms=LOCK_TIMEOUT_MS) as connection:
        row = lock(connection, lease.agent_id)
        if row is None or (row["generation"], row["epoch"], row["owner"]) != (
            lease.generation,
            lease.epoch,
            lease.owner,
        ):
            raise FencedOff(
                f"agent {lease.agent_id!r}: epoch {lease.epoch} is over; its job {lease.job_id} commits nothing"
            )
        yield connection, row
        fault_point("before_job_commit")
