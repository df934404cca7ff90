"""What somebody else puts into a queue of hints: it is dropped, and the hints behind it are taken."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from redis import Redis

from takeaways.schemas.queues import BROKER_PREFIX, Kind
from takeaways.workers.pools.broker import make_app
from takeaways.workers.pools.hints import celery_publisher
from takeaways.workers.settings import Settings


def _wrapped(**changes: Any) -> bytes:
    properties = {
        "body_encoding": "base64",
        "delivery_tag": "t",
        "delivery_info": {"exchange": "", "routing_key": "x"},
    }
    body = base64.b64encode(b"[]").decode()
    whole = {"body": body, "content-encoding": "utf-8", "content-type": "application/json", "headers": {}}
    return json.dumps({**whole, "properties": properties, **changes}).encode()


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"not JSON",
        b"[]",
        b"{}",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b"9" * 5_000,
        _wrapped(properties=None),
    ],
)
def test_what_is_no_hint_ends_no_worker(redis_url: str, odd: bytes) -> None:
    """One malformed item in a queue once ended the worker that took it, with all its jobs (QL-07)."""
    app = make_app(Settings(redis_url=redis_url))
    got: list[Any] = []
    with Redis.from_url(redis_url) as redis:
        redis.lpush(f"{BROKER_PREFIX}{Kind.EXTRACTION}", odd)
    celery_publisher(app)(Kind.EXTRACTION, "scout", "runs")

    with app.connection_for_read() as connection:
        queue = app.amqp.queues[Kind.EXTRACTION.value]
        with connection.Consumer([queue], on_message=got.append, accept=["json"]):
            for _ in range(4):
                if not got:
                    connection.drain_events(timeout=5)

    assert [message.headers["kwargsrepr"] for message in got] == ["agent=scout reason=runs"]
