"""A minute in which the model's provider fails in every way, under load: what is lost, and what is asked twice?

    python -m benchmarks.outage [--seconds 60] [--agents 30]

Real workers, a real Valkey, SQLite, and the stand-in Messages API over HTTP, twice with the same load: once in peace,
once with 529, then 429, then torn connections, then garbage, a quarter of the time each. An item is what an agent
was told in one run. Waits are compressed: from 1 to 8 seconds here, from 15 to 300 where nothing else is set.

Writes build/outage.json. Exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog
from rich.console import Console
from rich.table import Table
from sqlalchemy import func, select

from benchmarks.quality import ROOT
from takeaways.producers import Producer
from takeaways.schemas.database import Database
from takeaways.schemas.tables import candidates, jobs, messages, quarantines
from takeaways.workers.local.server import LocalServer
from takeaways.workers.settings import Settings
from takeaways.workers.testing import ScriptedModel
from takeaways.workers.testing.claude import ClaudeServer, Request, Scripted, script

FIRST_WAIT_SECONDS: Final = 1.0
MOST_WAIT_SECONDS: Final = 8.0
MOST_EXTRA_CALLS: Final = 2
RUNS: Final = 5
_SLACK_SECONDS: Final = 2.5
"""The wait of one agent is spread by a tenth, and the sweep looks once a second."""
_GIVE_UP_SECONDS: Final = 180.0
_ITEM: Final = re.compile(r"item-\d+-\d+-\d+")

Phase = tuple[str, Callable[[Request], Scripted]]
PHASES: Final[tuple[Phase, ...]] = (
    ("529", lambda request: script.overloaded()),
    ("429", lambda request: script.rate_limited("2")),
    ("resets", lambda request: script.reset(after_text=request.number % 2 == 0)),
    ("garbage", lambda request: script.garbage()),
)


@dataclass(slots=True)
class Weather:
    """What the server does, by the clock: nothing until `begins` is set."""

    seconds: float
    begins: float | None = None
    met: Counter[str] = field(default_factory=Counter)

    def rule(self, request: Request) -> Scripted | None:
        if self.begins is None or request.path != "/v1/messages":
            return None
        place = int((time.monotonic() - self.begins) / self.seconds * len(PHASES))
        if not 0 <= place < len(PHASES):
            return None
        name, fault = PHASES[place]
        self.met[name] += 1
        return fault(request)


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of the load. `asked` counts the calls that each item was part of."""

    items: int
    calls: int
    read: int
    learned: int
    set_aside: int
    asked: dict[str, int]
    took_seconds: float
    first_answer_seconds: float | None
    met: dict[str, int]
    endings: dict[str, int]


def run(agents: int, seconds: float, *, outage: bool, home: Path, say: Callable[[str], None]) -> Ran:
    """Publish the load over `seconds`, with or without the outage meanwhile, and wait until all is read."""
    weather = Weather(seconds)
    # Additive: one lesson for each item, so that nothing can get lost unseen.
    with ClaudeServer(rule=weather.rule, answers=ScriptedModel()) as claude:
        os.environ.update(claude.environment)
        settings = Settings.from_env(
            home=home,
            model="claude-haiku-5-5",
            model_wait_seconds=FIRST_WAIT_SECONDS,
            model_wait_max_seconds=MOST_WAIT_SECONDS,
            log_level="WARNING",
        )
        with LocalServer(settings, logs=home / "logs") as server:
            producer = Producer(server.settings.redis_url, source="outage")
            database = Database.open(settings.database)
            try:
                rounds = 4
                _publish(producer, agents, 0)
                _wait_for(database, agents * RUNS, say)
                began = time.monotonic()
                weather.begins = began if outage else None
                for number in range(1, rounds + 1):
                    _publish(producer, agents, number)
                    time.sleep(max(began + number * seconds / rounds - time.monotonic(), 0.0))
                ended = began + seconds
                items = (rounds + 1) * agents * RUNS
                _wait_for(database, items, say)
                return _ran(database, claude, weather, items, ended)
            finally:
                producer.close()
                database.dispose()


def _publish(producer: Producer, agents: int, number: int) -> None:
    for agent in range(agents):
        for run_number in range(RUNS):
            item = f"item-{agent}-{number}-{run_number}"
            producer.run_completed(
                agent_id=f"agent-{agent}",
                room=f"room-{number % 2}",
                run_id=item,
                status="succeeded",
                ended_at=datetime.now(UTC),
                messages=[
                    {"role": "user", "content": f"Remember {item}: the port of this service is fixed."}
                ],
            )


def _wait_for(database: Database, items: int, say: Callable[[str], None]) -> None:
    give_up = time.monotonic() + _GIVE_UP_SECONDS
    while time.monotonic() < give_up:
        if (read := _count(database, messages.c.read_by.is_not(None))) >= items:
            return
        say(f"{read} of {items} items are read")
        time.sleep(0.25)


def _count(database: Database, condition: object) -> int:
    with database.read() as connection:
        found = connection.execute(select(func.count()).select_from(messages).where(condition))  # type: ignore[arg-type]
        return int(found.scalar_one())


def _ran(database: Database, claude: ClaudeServer, weather: Weather, items: int, ended: float) -> Ran:
    asked: Counter[str] = Counter()
    extractions = [one for one in claude.messages if "=== room " in one.text]
    for request in extractions:
        asked.update(set(_ITEM.findall(request.text)))
    good = [one.at_seconds for one in extractions if one.at_seconds >= ended and one.status == 200]
    with database.read() as connection:
        learned = connection.execute(select(func.count()).select_from(candidates)).scalar_one()
        set_aside = connection.execute(select(func.count()).select_from(quarantines)).scalar_one()
        endings = connection.execute(select(jobs.c.outcome, func.count()).group_by(jobs.c.outcome)).all()
    return Ran(
        items=items,
        calls=len(extractions),
        read=_count(database, messages.c.read_by.is_not(None)),
        learned=int(learned),
        set_aside=int(set_aside),
        asked=dict(asked),
        took_seconds=round(time.monotonic() - ended, 2),
        first_answer_seconds=round(min(good) - ended, 2) if good else None,
        met=dict(weather.met),
        endings={str(outcome): int(number) for outcome, number in endings},
    )


def extra_calls(clean: Ran, faulty: Ran) -> int:
    """The most calls that any item was part of beyond those of the clean run."""
    return max(calls - clean.asked.get(item, 1) for item, calls in faulty.asked.items())


def missed_targets(clean: Ran, faulty: Ran) -> list[str]:
    """One sentence for each target that was missed."""
    missed = []
    if faulty.read < faulty.items or faulty.learned != clean.learned or clean.read < clean.items:
        missed.append(
            f"{faulty.items - faulty.read} items were lost; {faulty.learned} of {clean.learned} learned"
        )
    if (extra := extra_calls(clean, faulty)) > MOST_EXTRA_CALLS:
        missed.append(f"an item was part of {extra} calls more than in peace, at most {MOST_EXTRA_CALLS}")
    if absent := [name for name, _ in PHASES if not faulty.met.get(name)]:
        missed.append(f"nobody met {', '.join(absent)}, so the run says nothing of it")
    first = faulty.first_answer_seconds
    if first is None or first > MOST_WAIT_SECONDS + _SLACK_SECONDS:
        missed.append(
            f"the first answer came {first} s after the end, at most {MOST_WAIT_SECONDS:g} s of waiting"
        )
    return missed


def _table(clean: Ran, faulty: Ran, seconds: float) -> Table:
    table = Table("", title=f"An outage of {seconds:g} seconds under load")
    table.add_column("in peace", justify="right")
    table.add_column("with the outage", justify="right")
    rows: tuple[tuple[str, Callable[[Ran], str]], ...] = (
        ("items published", lambda one: f"{one.items:,}"),
        ("items read", lambda one: f"{one.read:,}"),
        ("lessons learned", lambda one: f"{one.learned:,}"),
        ("batches set aside", lambda one: f"{one.set_aside:,}"),
        ("calls of extraction", lambda one: f"{one.calls:,}"),
        ("calls that met a fault", lambda one: f"{sum(one.met.values()):,}"),
        ("most calls for one item", lambda one: f"{max(one.asked.values()):,}"),
        ("first answer after the end", lambda one: f"{one.first_answer_seconds} s"),
        ("all read after the end", lambda one: f"{one.took_seconds} s"),
    )
    for name, value in rows:
        table.add_row(name, value(clean), value(faulty))
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.outage", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--agents", type=int, default=30)
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "outage.json")
    options = parser.parse_args(arguments)
    console = Console(markup=False, highlight=False)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))

    def one(outage: bool) -> Ran:
        with (
            tempfile.TemporaryDirectory(prefix="takeaways-outage-") as home,
            console.status("with the outage" if outage else "in peace") as status,
        ):
            return run(options.agents, options.seconds, outage=outage, home=Path(home), say=status.update)

    clean, faulty = one(False), one(True)
    missed = missed_targets(clean, faulty)
    console.print(_table(clean, faulty, options.seconds))
    console.print(
        f"met: {', '.join(f'{number} x {name}' for name, number in faulty.met.items())}; "
        f"waits of {FIRST_WAIT_SECONDS:g} to {MOST_WAIT_SECONDS:g} s stand for 15 to 300 s"
    )
    for sentence in missed:
        console.print(f"MISSED: {sentence}", style="red")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "clean": asdict(clean),
        "outage": asdict(faulty),
        "extra": extra_calls(clean, faulty),
        "missed": missed,
    }
    options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
