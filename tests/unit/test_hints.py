"""Hints never make their caller wait, and what happens to each is counted."""

from __future__ import annotations

import threading
from typing import Any

from celery import Celery

from takeaways.schemas.queues import Kind
from takeaways.workers.pools.hints import HintCounts, Hints, celery_publisher
from tests.waiting import wait_until

Published = list[tuple[Kind, str, str]]


class Broker:
    """Takes hints while `open` is set; until then a publisher hangs, as with a broker that is away."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.asked = threading.Event()
        self.got: Published = []

    def publish(self, kind: Kind, agent_id: str, reason: str) -> None:
        self.asked.set()
        assert self.open.wait(60)
        self.got.append((kind, agent_id, reason))


def test_hints_reach_the_broker_in_order() -> None:
    """Each names the pool, the agent and why."""
    broker = Broker()
    broker.open.set()
    hints = Hints(broker.publish, capacity=10)

    hints.hint(Kind.EXTRACTION, "ada", "runs")
    hints.hint(Kind.CONSOLIDATION, "ada", "idle")
    hints.close(timeout_seconds=5)

    assert broker.got == [(Kind.EXTRACTION, "ada", "runs"), (Kind.CONSOLIDATION, "ada", "idle")]
    assert hints.counts == HintCounts(published=2)


def test_a_hanging_broker_drops_the_oldest_hints_and_holds_up_nobody() -> None:
    """Intake goes on at full speed; the sweep repeats what was dropped."""
    broker = Broker()
    hints = Hints(broker.publish, capacity=3)
    hints.hint(Kind.EXTRACTION, "first", "runs")
    assert broker.asked.wait(60)

    for number in range(10):
        hints.hint(Kind.EXTRACTION, f"agent-{number}", "runs")

    assert hints.counts == HintCounts(dropped=7, waiting=3)
    broker.open.set()
    hints.close(timeout_seconds=5)
    assert [agent for _, agent, _ in broker.got] == ["first", "agent-7", "agent-8", "agent-9"]


def test_an_agent_waits_in_the_queue_once() -> None:
    """A hint carries no data, so a second one for the same work says nothing new."""
    broker = Broker()
    hints = Hints(broker.publish, capacity=10)
    hints.hint(Kind.EXTRACTION, "busy", "runs")
    assert broker.asked.wait(60)

    for _ in range(5):
        hints.hint(Kind.EXTRACTION, "ada", "runs")

    assert hints.counts == HintCounts(merged=4, waiting=1)
    broker.open.set()
    hints.close(timeout_seconds=5)


def test_a_failing_broker_is_survived() -> None:
    """The thread goes on with the next hint; nothing is raised anywhere."""
    calls: list[str] = []

    def publish(kind: Kind, agent_id: str, reason: str) -> None:
        calls.append(agent_id)
        if agent_id != "good":
            raise ConnectionError("refused")

    hints = Hints(publish, capacity=10)
    for agent_id in ("bad", "worse", "good"):
        hints.hint(Kind.EXTRACTION, agent_id, "runs")
    hints.close(timeout_seconds=5)

    assert calls == ["bad", "worse", "good"]
    assert hints.counts == HintCounts(published=1, failed=2)


def test_closing_gives_up_on_a_broker_that_hangs() -> None:
    """A worker that shuts down must not wait for a broker that is away."""
    broker = Broker()
    hints = Hints(broker.publish, capacity=10)
    hints.hint(Kind.EXTRACTION, "stuck", "runs")
    assert broker.asked.wait(60)
    hints.hint(Kind.EXTRACTION, "waiting", "runs")

    hints.close(timeout_seconds=0.05)
    hints.hint(Kind.EXTRACTION, "late", "runs")

    assert hints.counts == HintCounts(dropped=2)
    broker.open.set()
    wait_until(lambda: hints.counts.published == 1)


def test_a_hint_is_a_task_with_nothing_but_the_agents_id() -> None:
    """No data rides on it, no clock can expire it, and people can read it in Flower."""
    sent: list[tuple[str, dict[str, Any]]] = []

    class Recording(Celery):
        def send_task(self, name: str, **options: Any) -> None:  # type: ignore[override]
            sent.append((name, options))

    celery_publisher(Recording("t", set_as_current=False))(Kind.CONSOLIDATION, "acme/agent-7", "idle")

    assert sent == [
        (
            "takeaways.consolidate",
            {
                "kwargs": {"agent_id": "acme/agent-7"},
                "queue": "consolidation",
                "kwargsrepr": "agent=acme/agent-7 reason=idle",
                "ignore_result": True,
                "retry": False,
            },
        )
    ]
