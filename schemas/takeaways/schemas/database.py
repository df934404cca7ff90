"""Opening the database, its transactions and its clock. SQLite and PostgreSQL behave alike from here on.

Writers on SQLite begin IMMEDIATE: a deferred transaction that turns into a writer fails at once
with "database is locked", whatever the time-out. `synchronous=FULL`, because NORMAL forgets
acknowledged commits at power loss. PostgreSQL is pinned to READ COMMITTED: claims rely on seeing
the row as it is after the lock was waited for.
"""

from __future__ import annotations

import os
import re
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    Select,
    create_engine,
    event,
    func,
    literal_column,
    select,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from takeaways.schemas import tables
from takeaways.schemas.errors import Misconfigured, StoreUnavailable

SQLITE_TIMEOUT_SECONDS: Final = 30
_NETWORK_FILE_SYSTEMS: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "9p", "afs", "fuse.sshfs", "ceph", "glusterfs", "lustre"}
)
# Without these a network that swallows everything holds a process for a quarter of an hour, and one that waits for an
# answer for good. With them the kernel gives the connection up within ten seconds.
_DEAD_LINK: Final = {
    "keepalives_idle": 3,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 8_000,
}
_READ_ONLY: Final = "25006"
_open = threading.local()


class Database:
    """An engine with the two kinds of transaction that we use. Make one per process, after any fork."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @classmethod
    def open(
        cls,
        url: str | URL,
        *,
        pool_size: int = 10,
        statement_timeout_seconds: float = 30.0,
        idle_timeout_seconds: float = 30.0,
        make_file: bool = True,
    ) -> Database:
        """Connect lazily to `sqlite:///file` or `postgresql://…`. Raises `Misconfigured` for anything else.

        On PostgreSQL a statement ends with an error after so long, its waits for locks included, and a process that
        stands still inside a transaction loses it after `idle_timeout_seconds`, with its locks: before its lease.
        With `make_file` false a SQLite file that is not there is not made: connecting raises `StoreUnavailable`.
        """
        try:
            parsed = make_url(url)
        except ArgumentError:
            raise Misconfigured(
                "the database URL cannot be read; use sqlite:///path/to/file or postgresql://…"
            ) from None
        if parsed.get_backend_name() == "sqlite":
            return cls(_sqlite(parsed, make_file))
        if parsed.get_backend_name() == "postgresql":
            return cls(_postgresql(parsed, pool_size, statement_timeout_seconds, idle_timeout_seconds))
        raise Misconfigured(
            f"{parsed.get_backend_name()} is not supported; use sqlite:///path/to/file or postgresql://…"
        )

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def write(self, *, lock_timeout_ms: int | None = None) -> Iterator[Connection]:
        """A transaction that writes: committed at the end, rolled back on any error."""
        with self._transaction("BEGIN IMMEDIATE", lock_timeout_ms) as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str, lock_timeout_ms: int | None = None) -> Iterator[Connection]:
        _open.count = getattr(_open, "count", 0) + 1
        try:
            with self.engine.connect() as connection:
                connection.info.update(begin=begin, lock_timeout_ms=lock_timeout_ms)
                with connection.begin():
                    yield connection
        finally:
            _open.count -= 1

    def dispose(self) -> None:
        self.engine.dispose()

    def checkpoint(self) -> bool:
        """On SQLite move the write-ahead log into the file and truncate it; elsewhere nothing.

        False when somebody who reads stood in the way, so that the log still holds something.
        """
        if not self.is_sqlite:
            return True
        with self.engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            ((busy, _, _),) = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return not busy


def assert_no_transaction() -> None:
    """Raise `AssertionError` when this thread holds a transaction open: the model is never called inside one."""
    if getattr(_open, "count", 0):
        raise AssertionError("a transaction is open while the model is about to be called")


def is_retryable(error: DBAPIError) -> bool:
    """Whether the transaction lost a race (deadlock, serialisation, lock time-out) and may simply be repeated."""
    state = getattr(error.orig, "sqlstate", None)
    return state in ("40P01", "40001", "55P03") or "database is locked" in str(error.orig)


def is_lock_timeout(error: DBAPIError) -> bool:
    """Whether a lock was waited for as long as `write(lock_timeout_ms=…)` allows: somebody else holds a row."""
    return getattr(error.orig, "sqlstate", None) == "55P03"


def is_refused(error: BaseException) -> bool:
    """Whether PostgreSQL answered and does not let us in: a setting has to change, and waiting does not help.

    The driver gives no code for what fails before there is a connection.
    """
    return bool(re.search(r"password|authentication|does not exist|no pg_hba\.conf entry", str(error)))


def first_line(error: BaseException) -> str:
    """What a server or its driver says about a connection, in a line. Not for errors of statements: they quote."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def now_ms(connection: Connection) -> int:
    """The database's clock in milliseconds since 1970 UTC, plus the offset that tests set in `system`."""
    return int(connection.execute(_now_statement(connection.dialect.name)).scalar_one())


# Statements that every job sends many times are made once: making one costs more than sending it.
@cache
def _now_statement(dialect: str) -> Select[Any]:
    return select(now_expression(dialect))


@cache
def now_expression(dialect: str) -> ColumnElement[int]:
    """`now_ms` as an expression for use inside a statement, on "sqlite" or "postgresql".

    It is a query of its own, which is evaluated once: PostgreSQL would ask a clock that changes while a statement
    runs anew for each row, and could use no index to compare with it.
    """
    offset = select(func.coalesce(func.max(tables.system.c.clock_offset_ms), 0)).scalar_subquery()
    return select(_clock(dialect) + offset).scalar_subquery()


def begins_with(column: ColumnElement[str], prefix: str) -> ColumnElement[bool]:
    """Whether an id begins so, to the letter: SQLite's LIKE takes `ACME/` for `acme/`, which is another tenant."""
    return func.substr(column, 1, len(prefix)) == prefix


@cache
def _clock(dialect: str) -> ColumnElement[int]:
    if dialect == "sqlite":
        return literal_column("cast((julianday('now') - 2440587.5) * 86400000 as integer)", BigInteger)
    return literal_column("cast(extract(epoch from clock_timestamp()) * 1000 as bigint)", BigInteger)


def lease_clock(connection: Connection) -> tuple[int, str]:
    """The clock that leases run by, in milliseconds, and the boot that it counts from.

    PostgreSQL: the server's clock, boot "". SQLite has only this machine's clocks, so the one that no
    setting of the wall clock can move is taken, with the kernel's boot id: a lease from before a reboot is over.
    """
    if (expression := lease_expression(connection.dialect.name)) is None:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000, _kernel_boot_id()
    return int(connection.execute(select(expression)).scalar_one()), ""


def lease_expression(dialect: str) -> ColumnElement[int] | None:
    """The clock of `lease_clock` for use inside a statement; None where it is not the database's."""
    return None if dialect == "sqlite" else _clock(dialect)


@cache
def _kernel_boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "unknown"


def _sqlite(url: URL, make_file: bool) -> Engine:
    if not url.database or url.database == ":memory:":
        raise Misconfigured("SQLite needs a file, because several processes share it: sqlite:///path/to/file")
    file = Path(url.database).absolute()
    folder = file.parent
    if not folder.is_dir():
        raise Misconfigured(f"the folder of the SQLite file does not exist: {folder}")
    if (kind := _file_system(folder)) in _NETWORK_FILE_SYSTEMS:
        raise Misconfigured(
            f"{folder} is on {kind}: SQLite's locks are not safe on a network file system; use PostgreSQL"
        )
    engine = create_engine(
        url,
        connect_args={"timeout": SQLITE_TIMEOUT_SECONDS, "check_same_thread": False},
        hide_parameters=True,  # an error would quote what people said
    )

    @event.listens_for(engine, "do_connect")
    def connecting(*_: object) -> None:
        if not make_file and not file.exists():
            raise StoreUnavailable(f"there is no database at {file}")

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "secure_delete=ON",
            f"busy_timeout={SQLITE_TIMEOUT_SECONDS * 1000}",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()

    @event.listens_for(engine, "begin")
    def began(connection: Connection) -> None:
        connection.info.pop("lock_timeout_ms", None)
        connection.exec_driver_sql(connection.info.pop("begin", "BEGIN IMMEDIATE"))

    _dispose_after_fork(engine)
    return engine


def _postgresql(
    url: URL, pool_size: int, statement_timeout_seconds: float, idle_timeout_seconds: float
) -> Engine:
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        isolation_level="READ COMMITTED",
        pool_size=pool_size,
        max_overflow=pool_size,
        pool_pre_ping=True,
        hide_parameters=True,
        # Behind PgBouncer in transaction mode a prepared statement may meet another server.
        connect_args={
            "prepare_threshold": None,
            "connect_timeout": 10,
            **{name: value for name, value in _DEAD_LINK.items() if name not in url.query},
        },
    )

    # Of the transaction and not of the connection, which PgBouncer gives to others too; all in one round trip.
    limits = (
        f"SET LOCAL statement_timeout = {int(statement_timeout_seconds * 1000)};"
        f"SET LOCAL idle_in_transaction_session_timeout = {int(idle_timeout_seconds * 1000)}"
    )

    @event.listens_for(engine, "begin")
    def began(connection: Connection) -> None:
        connection.info.pop("begin", None)
        lock_timeout_ms = connection.info.pop("lock_timeout_ms", None)
        locks = "" if lock_timeout_ms is None else f";SET LOCAL lock_timeout = {int(lock_timeout_ms)}"
        connection.exec_driver_sql(limits + locks)

    @event.listens_for(engine, "handle_error")
    def failed(context: Any) -> None:
        # A server that was demoted to a standby answers every ping of the pool, and would be written to for ever.
        if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
            context.is_disconnect = True

    _dispose_after_fork(engine)
    return engine


def _dispose_after_fork(engine: Engine) -> None:
    """A child must not share its parent's sockets; the parent's connections stay open."""
    alive = weakref.ref(engine)

    def dispose() -> None:
        if (inherited := alive()) is not None:
            inherited.dispose(close=False)

    os.register_at_fork(after_in_child=dispose)


def _file_system(folder: Path) -> str:
    """The type of the file system that holds `folder`, or "" where /proc does not tell."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    except OSError:
        return ""
    holding = [
        (len(point), kind) for point, kind in mounts if folder.is_relative_to(point.replace("\\040", " "))
    ]
    return max(holding, default=(0, ""))[1]
