"""Each process reaches Redis as a user of its own, which may do what it does and nothing else.

That a whole deployment is refused nothing is shown beside TLS, in test_redis_tls.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Queue
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError
from redis.retry import Retry

from takeaways.producers import Producer
from takeaways.schemas.queues import BROKER_PREFIX, RUNS_STREAM, Kind
from takeaways.workers.intake.reader import StreamReader, connect_reader
from takeaways.workers.models.limiter import Limits, SharedLimiter
from tests.faults.servers import redis_binary
from tests.secured import USERS, SecuredRedis, secured_redis, users_of

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredRedis]:
    binary = redis_binary("valkey")
    assert binary is not None
    with secured_redis(binary, tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def server(running: SecuredRedis) -> SecuredRedis:
    running.forget()
    return running


def test_what_is_sent_only_after_trouble_is_allowed_too(server: SecuredRedis) -> None:
    """Taking over from a dead reader, a model that fails and a killed worker's hints must not wait for an operator."""
    with Producer(server.url("producer")) as producer:
        producer.room_deleted(agent_id="scout", room="quotes")
    with connect_reader(server.url("worker")) as client:
        delivered = StreamReader(client, RUNS_STREAM, consumer="gone:1:x").read(block_seconds=0.1)
        heir = StreamReader(client, RUNS_STREAM)
        reclaimed = heir.reclaim(idle_seconds=0)
        heir.acknowledge(heir.read(block_seconds=0.1))
        heir.trim()
        heir.drop_idle_consumers(idle_seconds=0)
    limiter = SharedLimiter(server.client("worker"), Limits(calls_at_once=1, tokens_a_minute=1_000))
    limiter.admit("slow", "call-1", tokens=10, lasts_seconds=5)
    limiter.failed("slow", "scout", why="it is overloaded")
    paused = limiter.paused("slow")
    limiter.ended("slow", "call-1", answered=True)
    limiter.close()
    with Producer(server.url("operator")) as producer:
        producer.room_deleted(agent_id="scout", room="quotes")
    returned = [_hint_that_came_back(server.url(user)) for user in ("worker", "flower", "operator")]

    assert server.refused() == []
    assert (len(delivered), reclaimed, returned) == (1, 1, [True] * 3)
    assert paused is not None


def _hint_that_came_back(url: str) -> bool:
    """Take a hint without acknowledging it, and give it back as kombu does for workers that were killed."""
    options = {"global_keyprefix": BROKER_PREFIX, "visibility_timeout": 0}
    with Connection(url, transport_options=options) as connection:
        channel: Any = connection.channel()
        queue = Queue(Kind.EXTRACTION.value)(channel)
        queue.declare()
        connection.Producer(channel).publish({}, routing_key=queue.name)
        taken = queue.get()
        channel.qos.restore_visible()
        return taken is not None and queue.get(no_ack=True) is not None


@pytest.mark.parametrize(
    ("user", "command"),
    [
        ("producer", "XRANGE takeaways:runs - +"),
        ("producer", "XREAD STREAMS takeaways:runs 0"),
        ("producer", "XADD elsewhere:runs * event {}"),
        ("producer", "DEL takeaways:runs"),
        ("producer", "XTRIM takeaways:runs MAXLEN 0"),
        ("producer", "LPUSH takeaways:celery:extraction {}"),
        ("producer", "KEYS *"),
        ("producer", "FLUSHALL"),
        ("producer", "CONFIG GET *"),
        ("producer", "PUBLISH takeaways:celery:/0.celery.pidbox {}"),
        ("worker", "XADD takeaways:runs * event {}"),
        ("worker", "DEL takeaways:runs"),
        ("worker", "SET elsewhere 1"),
        ("worker", "FLUSHALL"),
        ("worker", "CONFIG SET maxmemory 1"),
        ("worker", "ACL LIST"),
        ("worker", "KEYS *"),
        ("worker", "SHUTDOWN"),
        ("metrics", "XACK takeaways:runs takeaways 1-0"),
        ("metrics", "XREADGROUP GROUP takeaways me STREAMS takeaways:runs >"),
        ("metrics", "GET elsewhere"),
        ("metrics", "SET takeaways:model:{m}:pause 1"),
        ("metrics", "CONFIG GET *"),
        ("flower", "XRANGE takeaways:runs - +"),
        ("flower", "DEL takeaways:model:{m}:pause"),
        ("flower", "FLUSHALL"),
        ("operator", "DEL takeaways:runs"),
        ("operator", "FLUSHALL"),
        ("operator", "CONFIG SET appendonly no"),
        ("operator", "ACL SETUSER operator +@all"),
        ("operator", "GET elsewhere"),
    ],
)
def test_a_user_is_refused_what_is_not_its_work(server: SecuredRedis, user: str, command: str) -> None:
    """A stolen password or a mistake reaches no further than the work that it was made for."""
    with server.client(user) as client, pytest.raises(NoPermissionError):
        client.execute_command(*command.split())

    assert len(server.refused()) == 1


def test_nobody_gets_in_without_a_name_and_a_password(server: SecuredRedis) -> None:
    """The user that Redis has by default is off, and so is guessing."""
    refused = 0
    for user, password in (("", ""), ("default", "guess"), ("worker", "guess"), ("stranger", "guess")):
        once = Retry(NoBackoff(), 0)
        with Redis(port=server.port, username=user, password=password, retry=once) as client:
            try:
                client.ping()
            except AuthenticationError:
                refused += 1

    assert refused == 4


def test_the_users_want_passwords_that_are_worth_the_name(tmp_path: Path) -> None:
    """No deployment works with a password that stands in a public file, and none is written down."""
    passwords = {user: f"a password for {user}" for user in USERS}
    mounted = tmp_path / "password"
    mounted.write_text("a password from a file\n", "utf-8")

    missing = users_of({})
    short = users_of({**passwords, "flower": "secret"})
    whole = users_of(passwords)
    from_file = users_of(
        {user: password for user, password in passwords.items() if user != "flower"},
        REDIS_FLOWER_PASSWORD_FILE=str(mounted),
    )

    assert [one.returncode for one in (missing, short, whole, from_file)] == [1, 1, 0, 0]
    assert (missing.stdout, short.stdout) == ("", "")
    assert "REDIS_FLOWER_PASSWORD" in short.stderr
    assert not any(password in whole.stdout for password in passwords.values())
    assert whole.stdout.count("\n") == len(USERS) + 1
