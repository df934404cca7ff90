"""Does one hot agent slow the quiet ones? `make fairness`, or `python -m benchmarks.fairness`.

A whole server with real worker processes, twice: 1,000 quiet agents that each end their fifth run at their own
moment, first alone, then while one hot agent publishes 10,000 runs in between. The wait is from the publishing
of the fifth run to the end of the extraction that it makes due. Prints a table, writes build/fairness.json, and
exits with 1 when the hot agent costs the quiet ones more than the bound.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import quantiles
from typing import Any

from rich.console import Console
from rich.table import Table
from sqlalchemy import func, select

from benchmarks.intake import BUILD
from takeaways.producers import Composer, Event, Producer
from takeaways.schemas.database import Database
from takeaways.schemas.tables import agents, inbox, jobs
from takeaways.workers.bootstrap import open_database
from takeaways.workers.local.server import LocalServer
from takeaways.workers.models import Answered, Call, ExtractionAnswer, ExtractionRequest
from takeaways.workers.settings import Settings
from takeaways.workers.testing import ScriptedModel

HOT = "hot"
WARM_UP = "warm-up"
CALL_SECONDS = 0.2
LESSONS = 10
# The bound: the hot agent may cost the slowest in twenty this much.
TIMES_AS_LONG = 2.0
SECONDS_MORE = 0.5


@dataclass(frozen=True, slots=True)
class Arm:
    """Waits of the quiet agents, in seconds, and what became of the hot one meanwhile."""

    name: str
    quiet_agents: int
    hot_events: int
    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    max_seconds: float
    hot_messages_read: int
    hot_jobs: int


class Modest(ScriptedModel):
    """Finds a handful of lessons in what it reads, however much that is, as a model does."""

    def extract(self, request: ExtractionRequest, call: Call) -> Answered[ExtractionAnswer]:
        answered = super().extract(request, call)
        rooms = tuple(
            room.model_copy(update={"candidates": room.candidates[:LESSONS]})
            for room in answered.answer.rooms
        )
        return replace(answered, answer=ExtractionAnswer(rooms=rooms))


def model(**arguments: Any) -> ScriptedModel:
    """What the workers ask: every call takes a fifth of a second."""
    return Modest(delay_seconds=CALL_SECONDS, **arguments)


def run(agent_id: str, number: int) -> Event:
    said = [{"role": "user", "content": f"Fact {number} of {agent_id}."}]
    return Composer().run_completed(agent_id=agent_id, room="room", run_id=f"run-{number}", messages=said)


def measure(name: str, *, quiet: int, hot_events: int, quiet_a_second: float, logs: Path) -> Arm:
    with tempfile.TemporaryDirectory(prefix="takeaways-fairness-") as home:
        settings = Settings(home=Path(home), model=f"{__spec__.name}:{model.__name__}", concurrency=20)
        with LocalServer(settings, logs=logs) as server, Producer(server.settings.redis_url) as producer:
            database = open_database(server.settings)
            names = [f"quiet-{number:05}" for number in range(quiet)]
            producer.publish_many(run(agent_id, number) for agent_id in names for number in range(4))
            producer.publish_many(run(WARM_UP, number) for number in range(5))
            wait_for(lambda: taken_in(database) == 4 * quiet + 5, "the first runs")
            wait_for(lambda: WARM_UP in ended(database), "the workers' first job")
            published_ms = publish(producer, names, hot_events, quiet_a_second)
            wait_for(lambda: len(ended(database)) == quiet + 1, "the quiet agents' extractions")
            found = ended(database)
            with database.read() as connection:
                read = connection.scalar(select(agents.c.messages_read).where(agents.c.agent_id == HOT))
                hot_jobs = connection.scalar(
                    select(func.count()).select_from(jobs).where(jobs.c.agent_id == HOT)
                )
            database.dispose()
    waits = sorted((found[agent_id] - published_ms[agent_id]) / 1000 for agent_id in names)
    cut = quantiles(waits, n=100)
    return Arm(
        name,
        quiet,
        hot_events,
        round(cut[49], 3),
        round(cut[94], 3),
        round(cut[98], 3),
        round(waits[-1], 3),
        read or 0,
        hot_jobs or 0,
    )


def publish(producer: Producer, names: list[str], hot_events: int, quiet_a_second: float) -> dict[str, int]:
    """The fifth run of each quiet agent at its moment, and its share of the hot agent's events before it."""
    published_ms: dict[str, int] = {}
    began, hot = time.monotonic(), 0
    for number, agent_id in enumerate(names):
        due = hot_events * (number + 1) // len(names)
        producer.publish_many(run(HOT, place) for place in range(hot, due))
        hot = due
        producer.publish(run(agent_id, 4))
        published_ms[agent_id] = time.time_ns() // 1_000_000
        time.sleep(max(0.0, began + (number + 1) / quiet_a_second - time.monotonic()))
    return published_ms


def taken_in(database: Database) -> int:
    with database.read() as connection:
        return connection.scalar(select(func.count()).select_from(inbox)) or 0


def ended(database: Database) -> dict[str, int]:
    """When the extraction of each quiet agent ended."""
    done = select(jobs.c.agent_id, jobs.c.ended_ms).where(
        jobs.c.agent_id != HOT, jobs.c.kind == "extraction", jobs.c.outcome == "remembered"
    )
    with database.read() as connection:
        return {row.agent_id: row.ended_ms for row in connection.execute(done)}


def wait_for(condition: Callable[[], bool], what: str, *, timeout_seconds: float = 600.0) -> None:
    give_up = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > give_up:
            raise SystemExit(f"{what} did not come within {timeout_seconds:.0f} s")
        time.sleep(0.2)


def shown(arms: list[Arm]) -> Table:
    table = Table(title="Seconds from a quiet agent's fifth run to the end of its extraction")
    for heading in ("", "p50", "p95", "p99", "max", "hot agent"):
        table.add_column(heading, justify="left" if heading in ("", "hot agent") else "right")
    for arm in arms:
        times = (arm.p50_seconds, arm.p95_seconds, arm.p99_seconds, arm.max_seconds)
        hot = f"{arm.hot_messages_read:,} read in {arm.hot_jobs} jobs" if arm.hot_events else ""
        table.add_row(arm.name, *(f"{value:.2f}" for value in times), hot)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quiet", type=int, default=1_000, help="agents that end five runs each")
    parser.add_argument("--hot", type=int, default=10_000, help="events of the hot agent")
    parser.add_argument("--quiet-a-second", type=float, default=10.0, help="fifth runs a second")
    asked = parser.parse_args()
    arms = []
    for name, hot_events in (("quiet agents alone", 0), ("beside a hot agent", asked.hot)):
        with tempfile.TemporaryDirectory(prefix="takeaways-fairness-logs-") as logs:
            arms.append(
                measure(
                    name,
                    quiet=asked.quiet,
                    hot_events=hot_events,
                    quiet_a_second=asked.quiet_a_second,
                    logs=Path(logs),
                )
            )
    Console().print(shown(arms))
    BUILD.mkdir(exist_ok=True)
    (BUILD / "fairness.json").write_text(json.dumps([asdict(arm) for arm in arms], indent=2) + "\n", "utf-8")
    alone, beside = arms
    bound_seconds = max(alone.p95_seconds * TIMES_AS_LONG, alone.p95_seconds + SECONDS_MORE)
    if beside.p95_seconds > bound_seconds:
        sys.exit(
            f"the hot agent slows the others: {beside.p95_seconds} s, the bound is {bound_seconds:.2f} s"
        )


if __name__ == "__main__":
    main()
