"""Waiting for the database no longer than a chat can bear.

Time-outs of a driver leave gaps: a connection through a network that went silent waits for the
kernel. So the work runs on a thread of its own and the caller stops waiting. Threads that still
hang are counted, and beyond `most` of them callers are told at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import TypeVar

from takeaways.schemas.errors import StoreUnavailable

T = TypeVar("T")


class Deadline:
    """Runs work that is worth waiting `seconds` for. What is given up on may still end later, unseen."""

    def __init__(self, seconds: float, *, most: int = 32) -> None:
        self.seconds = seconds
        self._free = threading.BoundedSemaphore(most)

    def within(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise what it raises; `StoreUnavailable` when the time is over."""
        if not self._free.acquire(timeout=self.seconds):
            raise StoreUnavailable("the database has not answered earlier questions yet")
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # handed on to the caller
                future.set_exception(error)
            finally:
                self._free.release()

        # A daemon, so that a database which never answers does not hold up the end of the process.
        threading.Thread(target=run, name="takeaways-recall", daemon=True).start()
        try:
            return future.result(timeout=self.seconds)
        except NotYet:
            if future.done():
                raise
            raise StoreUnavailable(f"the database did not answer within {self.seconds:g} s") from None
