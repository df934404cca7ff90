"""A storm: load, faults one after the other, quiet, and then the check of all that was promised."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psutil
from sqlalchemy import select

from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.events import Event
from takeaways.schemas.migrations import migrate
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents
from takeaways.workers.intake.transaction import take_in
from takeaways.workers.jobs.flush import flush
from takeaways.workers.leases import Heartbeat
from takeaways.workers.schedule.boot import current_boot
from takeaways.workers.testing import ScriptedModel
from tests import published
from tests.faults import checker
from tests.faults.catalogue import START_SECONDS, Fault, schedule
from tests.faults.checker import Broken, Recovery
from tests.faults.history import History, Known, read_history, read_redis
from tests.faults.stage import POLICY, Stage
from tests.faults.story import probe, story
from tests.pipeline import Services

GIVE_UP_SECONDS: Final = 120.0
QUIET_SECONDS: Final = 90.0
TIMER_BOUND_SECONDS: Final = 15.0
BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class Plan:
    """What to play. The same seed gives the same events and the same faults in the same order."""

    seed: int
    database: str
    redis: str = "valkey"
    faults: int = 30
    events: int = 3_750
    agents: int = 24
    seconds: float = 100.0

    @property
    def name(self) -> str:
        return f"{self.database} with {self.redis}"


@dataclass(slots=True)
class Result:
    """What came of it. `broken` is empty when every promise was kept."""

    plan: Plan
    broken: list[Broken] = field(default_factory=list)
    recoveries: list[Recovery] = field(default_factory=list)
    reactions_seconds: list[float] = field(default_factory=list)
    events: int = 0
    arrivals: int = 0
    messages: int = 0
    jobs: int = 0
    fenced_off: int = 0
    abandoned: int = 0
    lost_in_wipes: int = 0
    start_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def only_late(self) -> bool:
        """Whether something took too long, which may be the machine's doing, and no other promise was broken."""
        return bool(self.broken) and all(one.promise == checker.IN_TIME for one in self.broken)


def play(
    plan: Plan,
    folder: Path,
    *,
    faults: Iterable[Fault] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Result:
    """Play a storm in an empty folder and check it. `faults` in the place of those that the seed gives."""
    began = time.monotonic()
    rng = random.Random(plan.seed)
    result = Result(plan)
    postgresql = plan.database == "postgresql"
    pool = "prefork" if postgresql else "threads"
    with Stage(
        folder, postgresql=postgresql, redis=plan.redis, pool=pool, concurrency=3 if postgresql else 8
    ) as stage:
        started = time.monotonic()
        stage.start_pools()
        start_seconds = _recover(stage, "probe-start", started, GIVE_UP_SECONDS).seconds
        if start_seconds is None:
            raise RuntimeError(f"the pools do not work, even without a fault; their logs are in {folder}")
        result.start_seconds = start_seconds
        # Its runs end when they are published: with times from before the pools were up, every agent would seem idle.
        now = datetime.now(UTC)
        told = story(plan.seed, agents=plan.agents, events=plan.events, seconds=plan.seconds, start=now)
        result.arrivals = sum(one.copies for one in told.planned)
        with stage.publishing(told.planned):
            chosen = schedule(plan.seed, database=plan.database, faults=plan.faults)
            for number, fault in enumerate(chosen if faults is None else faults):
                fault.strike(stage, rng)
                bound_seconds = fault.bound_seconds * max(1.0, start_seconds / START_SECONDS)
                probed = _recover(stage, f"probe-{number}", time.monotonic(), 2 * bound_seconds)
                recovery = Recovery(fault.name, probed.seconds, bound_seconds, probed.reached, probed.busy)
                result.recoveries.append(recovery)
                say(f"{number + 1:3} {recovery}")
        with stage.database.read() as connection:
            quiet_ms = now_ms(connection)
        if not _until(lambda: _is_quiet(stage), QUIET_SECONDS):
            result.broken.append(
                Broken("6 no lease, pending entry or hint is left over", "it never got quiet")
            )
        _check(stage, result, quiet_ms)
    result.seconds = time.monotonic() - began
    return result


def _check(stage: Stage, result: Result, quiet_ms: int) -> None:
    known = Known(stage.acknowledged.events, stage.poison)
    with stage.redis.client() as client:
        history = read_history(stage.database, client)
    result.broken += [
        *checker.everything_once(history, known),
        *checker.read_once(history, known),
        *checker.one_at_a_time(history),
        *checker.five_runs(history, stage.policy),
        *checker.nothing_left_over(history),
        *checker.timers(history, stage.policy, quiet_ms=quiet_ms, bound_seconds=TIMER_BOUND_SECONDS),
        *checker.recovered(result.recoveries),
    ]
    stage.exit_codes += [stage.stop_pool(kind) for kind in Kind]
    if any(stage.exit_codes):
        result.broken.append(Broken("a drained pool ends with exit code 0", f"codes {stage.exit_codes}"))
    flushed = stage.command("flush", timeout_seconds=300)
    if flushed.returncode != 0:
        result.broken.append(Broken("4 a flush leaves nothing unread", flushed.stderr[-500:]))
    history = read_history(stage.database)
    undisturbed = without_faults(list(known.events.values()), stage.folder)
    result.broken += [
        *checker.read_once(history, known),
        *checker.all_read(history),
        *checker.same_memory(history, undisturbed),
        *checker.replayed(history),
    ]
    _count(history, known, result)
    result.lost_in_wipes = stage.lost_in_wipes


def _count(history: History, known: Known, result: Result) -> None:
    jobs = history.rows["jobs"]
    result.reactions_seconds = sorted(checker.reaction_seconds(history, POLICY))
    result.events = len(known.events)
    result.messages = len(history.rows["messages"])
    result.jobs = len(jobs)
    result.fenced_off = sum(row["outcome"] == "fenced_off" for row in jobs)
    result.abandoned = sum(row["outcome"] is None for row in jobs)


def without_faults(events: list[Event], folder: Path) -> History:
    """The same events in one process, one after the other, with nothing going wrong."""
    database = Database.open(f"sqlite:///{folder / 'undisturbed.db'}")
    with ExitStack() as stack:
        stack.callback(database.dispose)
        migrate(database)
        current_boot(database, pinned=None, fresh=False)
        for start in range(0, len(events), BATCH):
            take_in(database, published.entries(*events[start : start + BATCH]), policy=POLICY)
        heartbeat = Heartbeat(database, lease_seconds=60)
        stack.callback(heartbeat.stop)
        flush(Services(database, POLICY, ScriptedModel(), heartbeat))
        return read_history(database)


@dataclass(frozen=True, slots=True)
class Probed:
    """When a probe was through; when it had come how far; what share of the machine's cores was taken meanwhile."""

    seconds: float | None
    reached: dict[str, float]
    busy: float


def _recover(stage: Stage, name: str, over: float, give_up_seconds: float) -> Probed:
    """How long from `over` until both pools have taken in and done what was published since."""
    before = psutil.cpu_times()
    stage.publish(probe(name, datetime.now(UTC), runs=stage.policy.runs_per_extraction))
    reached: dict[str, float] = {}

    def served() -> bool:
        for what in _reached(stage, name):
            reached.setdefault(what, round(time.monotonic() - over, 2))
        return {"extracted", "consolidated"} <= reached.keys()

    seconds = time.monotonic() - over if _until(served, give_up_seconds) else None
    return Probed(seconds, reached, _busy(before, psutil.cpu_times()))


def _reached(stage: Stage, agent_id: str) -> list[str]:
    with stage.database.read() as connection:
        row = connection.execute(select(agents).where(agents.c.agent_id == agent_id)).mappings().one_or_none()
    if row is None:
        return []
    runs = stage.policy.runs_per_extraction
    steps = {
        "taken in": row["runs_total"] >= runs and row["compactions_total"] >= 1,
        "claimed": row["epoch"] > 0,
        "extracted": row["messages_read"] >= runs,
        "consolidated": row["compactions_served"] >= 1,
    }
    return [what for what, done in steps.items() if done]


def _busy(before: Any, after: Any) -> float:
    """The share of all cores' time that was not idle; what other machines on the same host took counts as taken."""
    spent = {name: getattr(after, name) - getattr(before, name) for name in before._fields}
    whole = sum(spent.values())
    return round(1 - (spent["idle"] + spent.get("iowait", 0.0)) / whole, 2) if whole else 1.0


def _is_quiet(stage: Stage) -> bool:
    """Everything is taken in, and no agent has work or a timer left."""
    if stage.at_stake():
        return False
    with stage.database.read() as connection:
        busy = select(agents.c.agent_id).where(agents.c.wake_at_ms.is_not(None) | agents.c.owner.is_not(None))
        if connection.execute(busy.limit(1)).first() is not None:
            return False
    with stage.redis.client() as client:
        pending, queued = read_redis(client)
    return not any((*pending.values(), *queued.values()))


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        if condition():
            return True
        time.sleep(0.05)
    return False
