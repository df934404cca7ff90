"""Entries that are no events: all that can be wrong with bytes somebody put on the stream."""

from __future__ import annotations

import gzip
import json
from functools import cache
from typing import Any


@cache
def entries() -> tuple[bytes, ...]:
    """Each goes to the dead letters, with its raw bytes, and stops nothing that comes after it."""
    return (
        b"",
        b"not JSON",
        b"[1, 2",
        b"null",
        b'"text"',
        '{"id": "ü"}'.encode("utf-16"),
        b'{"id": "\xff\xfe"}',
        _event(data={"status": "succeeded", "run_id": "r", "room": {"id": "r"}, "parts": "0"}).replace(
            b'"0"', b"9" * 5_000
        ),
        _event(type="takeaways.run.completed.v99"),
        _event(type="takeaways.nothing.happened.v1"),
        _event(type="somebody.else.v1"),
        _event(subject="x" * 256),
        _event(subject=""),
        _event(subject="bell\x07"),
        _event(id="\ud800"),
        _event(time="yesterday"),
        _event(time="2026-03-02T09:00:00"),
        _event(data={"room": {"id": "r"}}),
        _event(contentencoding="gzip", data=None),
        b"[" * 100_000,
        gzip.compress(b"{}"),
        b'{"id": "' + b"x" * 20_000_000 + b'"}',
    )


def _event(**changes: Any) -> bytes:
    good = {
        "specversion": "1.0",
        "id": "poison",
        "source": "poison",
        "type": "takeaways.run.completed.v1",
        "subject": "poisoned",
        "time": "2026-03-02T09:00:00Z",
        "data": {"room": {"id": "r"}, "run_id": "r", "status": "succeeded"},
    }
    return json.dumps({**good, **changes}).encode()
