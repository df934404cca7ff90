"""The drain flag: set once by a signal in the main process, seen by every process of the pool.

It is one pipe. The main process holds the writing end; whoever wants to know reads until the end of file,
which comes when the main process closes its end, or dies. So a child of the pool, which gets no signal,
drains too, and none works on for a main process that was killed. A spawned child finds the pipe in /proc.
"""

from __future__ import annotations

import os
import threading
from typing import Final

import structlog

log = structlog.get_logger(__name__)

# Without our settings' prefix: it is no setting, it goes from the main process to its pool.
_VARIABLE: Final = "_TAKEAWAYS_DRAIN"


class Drain:
    """Made in the main process before the pool starts; `begin` is safe in a signal handler."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._pid = os.getpid()
        os.environ[_VARIABLE] = f"{self._pid}:{self._reader}"
        os.register_at_fork(after_in_child=self._forget)

    def begin(self) -> None:
        """Let every process of the pool know. Repeating it does nothing."""
        if self._writer >= 0 and self._pid == os.getpid():
            writer, self._writer = self._writer, -1
            os.close(writer)

    def _forget(self) -> None:
        """A forked child that kept the writing end would never see it closed."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1


def watch() -> threading.Event:
    """The flag in this process. It stays unset where no `Drain` was made, as in a command line's own job."""
    draining = threading.Event()
    pid, _, reader = os.environ.get(_VARIABLE, "").partition(":")
    if pid:
        threading.Thread(
            target=_wait, args=(f"/proc/{pid}/fd/{reader}", draining), name="drain", daemon=True
        ).start()
    return draining


def _wait(path: str, draining: threading.Event) -> None:
    try:
        with open(path, "rb", buffering=0) as pipe:  # noqa: PTH123 - a pipe, not a file
            while pipe.read(1):
                pass
    except (FileNotFoundError, ProcessLookupError):
        pass  # the main process is gone
    except OSError as error:
        log.warning("a shutdown will not be seen here before the running jobs end", error=error.strerror)
        return
    draining.set()
