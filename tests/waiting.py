"""Waiting for a condition, never for an amount of time."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], object], *, timeout_seconds: float = 60.0, every_seconds: float = 0.01
) -> None:
    """Return as soon as `condition()` is true. Raises `AssertionError` naming it when it never becomes so.

    Ask more rarely than `every_seconds` says by default where asking itself is work for what is waited for.
    """
    give_up = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > give_up:
            raise AssertionError(f"after {timeout_seconds} s still not so: {condition!r}")
        time.sleep(every_seconds)
