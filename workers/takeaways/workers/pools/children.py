"""Starting processes that cannot outlive the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import IO, Final

_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)


def start(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    output: IO[bytes] | int | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: IO[bytes] | int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own; `output` takes what it prints, and `stdout` only that part.

    A Ctrl-C in the terminal reaches the parent alone, which then ends its children in the right order. When
    the parent dies, however it dies, the kernel sends the child a SIGTERM. Call it from the main thread: the
    kernel watches the thread.
    """
    parent = os.getpid()

    def before_exec() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    return subprocess.Popen(
        argv,
        env=None if environment is None else {**os.environ, **environment},
        stdin=stdin,
        stdout=output if stdout is None else stdout,
        stderr=output,
        start_new_session=True,
        preexec_fn=before_exec,
    )
