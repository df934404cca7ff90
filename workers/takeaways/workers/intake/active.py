"""One active intake of a stream on SQLite, which has one writer: further ones stand by and take over.

It is a lock on a file beside the database, so it ends with its process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog

from takeaways.schemas.database import Database

log = structlog.get_logger(__name__)

_LOOK_SECONDS: Final = 0.5


def lock_file(database: Database, stream: str) -> Path | None:
    """The file beside a SQLite database that the active intake of `stream` holds; None on PostgreSQL."""
    if not database.is_sqlite or not database.engine.url.database:
        return None
    file = Path(database.engine.url.database)
    return file.with_name(f"{file.name}.intake-{stream.replace(':', '-')}.lock")


@contextmanager
def active(
    file: Path | None, stop: threading.Event, waiting: Callable[[], None] = lambda: None
) -> Iterator[bool]:
    """Wait until this is the active intake. Yields False when `stop` was set before that.

    `waiting` is called while it stands by, at least each second.
    """
    if file is None:
        yield not stop.is_set()
        return
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield _acquire(descriptor, stop, waiting)
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, stop: threading.Event, waiting: Callable[[], None]) -> bool:
    said = False
    while not stop.is_set():
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not said:
                log.info("another intake is active on this database; standing by")
                said = True
            waiting()
            stop.wait(_LOOK_SECONDS)
        else:
            return True
    return False
