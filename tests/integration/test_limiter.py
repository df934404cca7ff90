"""The shared limiter, on a real Valkey: what one worker learns, no other has to."""

from __future__ import annotations

import fnmatch
import threading
from collections.abc import Iterator

import pytest
from redis import Redis

from takeaways.workers.models.limiter import Fault, Limits, SharedLimiter
from tests.integration.test_redis_keys import described
from tests.waiting import wait_until

MODEL = "claude-x"
QUICK = Limits(first_wait_seconds=0.2, most_wait_seconds=0.8)


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    with Redis.from_url(redis_url) as made:
        yield made


def admitted(limiter: SharedLimiter, call_id: str, *, tokens: int = 100) -> bool:
    return limiter.admit(MODEL, call_id, tokens=tokens, lasts_seconds=30).wait_seconds == 0


def over(limiter: SharedLimiter) -> bool:
    return limiter.paused(MODEL) is None


def test_a_rate_limit_stops_every_worker_and_no_other_model(client: Redis) -> None:
    """Twenty workers that each find out for themselves make twenty more refused calls."""
    one, other = SharedLimiter(client), SharedLimiter(client)

    one.failed(MODEL, "scout", Fault(least_seconds=40), why="rate limit")

    assert 30 < other.admit(MODEL, "c1", tokens=1, lasts_seconds=30).wait_seconds <= 40
    assert other.admit("claude-y", "c1", tokens=1, lasts_seconds=30).wait_seconds == 0
    paused = other.paused(MODEL)
    assert paused is not None
    assert paused.why == "rate limit"


def test_the_wait_doubles_up_to_its_cap_and_ends_with_an_answer(client: Redis) -> None:
    """A provider that is down for an hour is not asked every second, and is used at once when it is back."""
    limiter = SharedLimiter(client, QUICK)
    waits = []
    for number in range(4):
        waits.append(limiter.failed(MODEL, "scout").wait_seconds)
        wait_until(lambda: over(limiter))
        assert admitted(limiter, f"c{number}")
        limiter.ended(MODEL, f"c{number}", answered=False)

    assert waits == [0.2, 0.4, 0.8, 0.8]
    assert admitted(limiter, "good")
    limiter.ended(MODEL, "good", answered=True)
    assert limiter.failed(MODEL, "scout").wait_seconds == 0.2


def test_failures_of_calls_under_way_are_one_round(client: Redis) -> None:
    """Fifty calls that fail in the same second say one thing, not fifty."""
    limiter = SharedLimiter(client, QUICK)

    waits = [limiter.failed(MODEL, f"agent-{number}").wait_seconds for number in range(50)]

    assert max(waits) <= 0.2


def test_after_a_pause_one_call_goes_first(client: Redis) -> None:
    """Otherwise all agents fall upon a provider that has just come back, or has not."""
    limiter = SharedLimiter(client, QUICK)
    limiter.failed(MODEL, "scout")
    wait_until(lambda: over(limiter))
    let_in: list[str] = []

    def ask(name: str) -> None:
        if admitted(SharedLimiter(client, QUICK), name):
            let_in.append(name)

    threads = [threading.Thread(target=ask, args=(f"c{number}",)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(let_in) == 1
    limiter.ended(MODEL, let_in[0], answered=False)
    assert limiter.admit(MODEL, "the probe", tokens=1, lasts_seconds=30).probe
    limiter.ended(MODEL, "the probe", answered=True)
    assert admitted(limiter, "next")
    assert admitted(limiter, "and the next")


def test_an_answer_to_an_earlier_call_does_not_end_a_pause(client: Redis) -> None:
    """A call that was sent before the limit was reached says nothing about it."""
    limiter = SharedLimiter(client)
    assert admitted(limiter, "early")
    limiter.failed(MODEL, "scout", Fault(least_seconds=30))

    limiter.ended(MODEL, "early", answered=True)

    assert not admitted(limiter, "late")


def test_an_agent_that_fails_while_others_succeed_is_told_apart(client: Redis) -> None:
    """A batch that always fails uses up its attempts; an outage uses up nobody's."""
    limiter = SharedLimiter(client, QUICK)

    assert not limiter.failed(MODEL, "scout").again
    assert limiter.failed(MODEL, "scout").again
    wait_until(lambda: over(limiter))
    assert admitted(limiter, "of another agent")
    limiter.ended(MODEL, "of another agent", answered=True)
    assert not limiter.failed(MODEL, "scout").again


def test_answers_that_cannot_be_read_pause_a_model_only_when_three_agents_get_them(client: Redis) -> None:
    """One bad answer is the batch's own trouble; garbage for everybody is an outage."""
    limiter = SharedLimiter(client, QUICK)

    for agent in ("one", "one", "two"):
        limiter.failed(MODEL, agent, Fault(enough=3))
    assert over(limiter)

    limiter.failed(MODEL, "three", Fault(enough=3))
    assert not over(limiter)


def test_calls_at_once_are_capped_over_all_workers(client: Redis) -> None:
    """The provider counts the requests of the whole fleet."""
    limits = Limits(calls_at_once=2)
    one, other = SharedLimiter(client, limits), SharedLimiter(client, limits)

    assert admitted(one, "a")
    assert admitted(other, "b")
    assert not admitted(one, "c")
    other.ended(MODEL, "b", answered=True)
    assert admitted(one, "c")


def test_a_killed_worker_gives_its_place_back_after_the_longest_that_a_call_takes(client: Redis) -> None:
    """Places that leak would stop the fleet for good."""
    limiter = SharedLimiter(client, Limits(calls_at_once=1))
    limiter.admit(MODEL, "killed", tokens=1, lasts_seconds=0.2)

    wait_until(lambda: admitted(limiter, "next"))


def test_tokens_a_minute_are_capped(client: Redis) -> None:
    """A call waits as long as the bucket needs to fill, and one larger than a minute's worth goes when it is full."""
    limiter = SharedLimiter(client, Limits(tokens_a_minute=6_000))

    assert admitted(limiter, "a", tokens=5_000)
    assert 15 < limiter.admit(MODEL, "b", tokens=3_000, lasts_seconds=30).wait_seconds <= 20
    assert admitted(limiter, "c", tokens=900)
    client.flushall()
    assert admitted(limiter, "huge", tokens=60_000)
    assert limiter.admit(MODEL, "d", tokens=1, lasts_seconds=30).wait_seconds > 500


def test_without_redis_everything_is_admitted() -> None:
    """The limiter saves calls. It must never be what stops the memory."""
    limiter = SharedLimiter(Redis.from_url("redis://127.0.0.1:1/0", socket_connect_timeout=0.5))

    assert admitted(limiter, "a")
    assert limiter.failed(MODEL, "scout", Fault(least_seconds=20)).wait_seconds == 20
    assert limiter.paused(MODEL) is None
    limiter.ended(MODEL, "a", answered=True)


def test_every_key_is_described_and_expires(client: Redis) -> None:
    """Whoever looks into Redis finds each key in the docs, and nothing of a model that is used no more."""
    limits = Limits(calls_at_once=5, tokens_a_minute=1_000, first_wait_seconds=0.05)
    limiter = SharedLimiter(client, limits)
    limiter.failed(MODEL, "scout")
    wait_until(lambda: over(limiter))
    assert admitted(limiter, "probe", tokens=10)
    limiter.failed(MODEL, "scout", Fault(least_seconds=60))

    keys = sorted(str(key, "utf-8") for key in client.scan_iter())

    assert len(keys) == 6
    assert [key for key in keys if not any(fnmatch.fnmatch(key, pattern) for pattern in described())] == []
    assert all(0 < int(client.pttl(key)) <= 3_600_000 for key in keys)
