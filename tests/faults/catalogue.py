"""Every fault of a storm: what is done to which part, for how long, and how soon all must be well again.

A fault is a function of the stage and of a random number generator. It returns once it is over: what was
killed is dead, what was cut is connected again. Bounds are for a lease of two seconds, and count from there on.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import psutil
import redis
from sqlalchemy import select, text, update

from takeaways.schemas.database import Database
from takeaways.schemas.queues import FIELD, RUNS_STREAM, Kind
from takeaways.schemas.tables import agents, system
from takeaways.workers.faults import PLACES, VARIABLE, Place
from tests.faults.link import Link, Mode
from tests.faults.poison import entries
from tests.faults.servers import limit_growth
from tests.faults.stage import Stage

Strike = Callable[[Stage, random.Random], None]
START_SECONDS: Final = 8.0
SECONDS_OF_DEATH: Final = 15.0
INTAKE_PLACES: Final[tuple[Place, ...]] = PLACES[: PLACES.index("before_hint_sent")]
JOB_PLACES: Final[tuple[Place, ...]] = PLACES[PLACES.index("before_claim") :]


@dataclass(frozen=True, slots=True)
class Fault:
    """`bound_seconds` is how soon after it an event is taken in and worked on. `on` is where it can be done.

    That is on a machine on which a pool starts within `START_SECONDS`; on a slower one it is longer in proportion.
    """

    name: str
    strike: Strike
    bound_seconds: float = 10.0
    on: tuple[str, ...] = ("sqlite", "postgresql")


# --- processes ----------------------------------------------------------------------------------


def kill_worker(stage: Stage, rng: random.Random) -> None:
    _signal(stage, rng, "worker", signal.SIGKILL)


def kill_intake(stage: Stage, rng: random.Random) -> None:
    _signal(stage, rng, "intake", signal.SIGKILL)


def kill_pool(stage: Stage, rng: random.Random) -> None:
    """The supervisor and with it all of its pool; another one is started, as an init system would."""
    kind = rng.choice(list(Kind))
    pool = stage.pools.pop(kind)
    members = psutil.Process(pool.pid).children(recursive=True)
    for one in [psutil.Process(pool.pid), *members]:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    pool.wait()
    psutil.wait_procs(members, timeout=10)
    stage.start_pool(kind)


def kill_child(stage: Stage, rng: random.Random) -> None:
    """A process of a forking pool, in the middle of whatever it does."""
    worker = stage.member(Kind.EXTRACTION, "worker")
    children = worker.children() if worker is not None else []
    if children:
        _send(rng.choice(children), signal.SIGKILL)


def freeze_worker(stage: Stage, rng: random.Random) -> None:
    _freeze(stage, rng, "worker")


def freeze_intake(stage: Stage, rng: random.Random) -> None:
    _freeze(stage, rng, "intake")


def die_in_a_job(stage: Stage, rng: random.Random) -> None:
    """Another worker that dies at one step of a job."""
    spec = f"{rng.choice(JOB_PLACES)}:{rng.randint(1, 3)}"
    kind = rng.choice((Kind.EXTRACTION, Kind.EXTRACTION, Kind.CONSOLIDATION))
    argv = (
        *("celery", "--quiet", "-A", "takeaways.workers.app", "worker", "--queues", kind.value),
        *("--pool", "threads", "--concurrency", "4", "--without-gossip", "--without-mingle"),
        *("--hostname", f"doomed-{time.monotonic_ns()}@%h"),
    )
    _await_death(stage.start(*argv, name="doomed", **{VARIABLE: spec, "TAKEAWAYS_POOL": "threads"}))


def die_taking_in(stage: Stage, rng: random.Random) -> None:
    """Another intake that dies at one step; the regular one makes room for it."""
    spec = f"{rng.choice(INTAKE_PLACES)}:{rng.randint(1, 3)}"
    doomed = stage.start(
        "takeaways.workers.cli", "intake", Kind.EXTRACTION.value, name="doomed", **{VARIABLE: spec}
    )
    time.sleep(1.5)
    if (regular := stage.member(Kind.EXTRACTION, "intake")) is not None:
        _send(regular, signal.SIGKILL)
    _await_death(doomed)


def roll_restart(stage: Stage, rng: random.Random) -> None:
    """Every pool drained and started again, one after the other."""
    for kind in Kind:
        code = stage.stop_pool(kind)
        stage.exit_codes.append(code)
        stage.start_pool(kind)


def skewed_worker(stage: Stage, rng: random.Random) -> None:
    """A worker and an intake whose clock is hours off take part for a while."""
    hours = rng.choice((-5, 5))
    skewed = stage.start_skewed("takeaways.workers.cli", "worker", Kind.EXTRACTION.value, hours=hours)
    time.sleep(6)
    skewed.terminate()  # on a slow machine it has only just begun to start, and simply dies of it
    skewed.wait(60)


# --- Redis --------------------------------------------------------------------------------------


def kill_clients(stage: Stage, rng: random.Random) -> None:
    with stage.redis.client() as client:
        for kind in ("normal", "pubsub"):
            client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")


def pause_clients(stage: Stage, rng: random.Random) -> None:
    with stage.redis.client() as client:
        client.client_pause(3000, all=True)
    time.sleep(3)


def hang_redis(stage: Stage, rng: random.Random) -> None:
    with stage.redis.client() as client:
        client.execute_command("DEBUG", "SLEEP", "3")


def restart_redis(stage: Stage, rng: random.Random) -> None:
    """Killed, and started on its append-only file."""
    stage.redis.kill()
    time.sleep(1)
    stage.redis.start()


def wipe_redis(stage: Stage, rng: random.Random) -> None:
    """Killed, and started empty. What was not taken in yet is published again, as a service with an outbox would."""
    stage.redis.kill()
    stage.redis.wipe()
    time.sleep(1)  # what an intake had read is committed by now
    lost = stage.at_stake()
    stage.redis.start()
    stage.lost_in_wipes += len(lost)
    stage.publish(lost)


def fill_redis(stage: Stage, rng: random.Random) -> None:
    with stage.redis.client() as client:
        info: Any = client.info("memory")
        client.config_set("maxmemory", max(int(info["used_memory"]) - 200_000, 1))
    time.sleep(4)
    with stage.redis.client() as client:
        client.config_set("maxmemory", 0)


def fill_redis_disk(stage: Stage, rng: random.Random) -> None:
    stage.redis.disk_full(True)
    time.sleep(4)
    stage.redis.disk_full(False)


# --- the links ----------------------------------------------------------------------------------


def swallow(stage: Stage, rng: random.Random) -> None:
    _cut(stage.link, Mode.SWALLOW, 5)


def delay(stage: Stage, rng: random.Random) -> None:
    _cut(stage.link, Mode.DELAY, 4)


def refuse(stage: Stage, rng: random.Random) -> None:
    _cut(stage.link, Mode.REFUSE, 3)


def reset(stage: Stage, rng: random.Random) -> None:
    stage.link.reset()


def reset_database(stage: Stage, rng: random.Random) -> None:
    stage.database_link.reset()


def delay_database(stage: Stage, rng: random.Random) -> None:
    _cut(stage.database_link, Mode.DELAY, 4)


# --- the database -------------------------------------------------------------------------------


def crash_database(stage: Stage, rng: random.Random) -> None:
    stage.postgres.crash()
    time.sleep(1)
    stage.postgres.start()


def terminate_connections(stage: Stage, rng: random.Random) -> None:
    with stage.database.read() as connection:
        connection.execute(
            text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        )


def lock_agents(stage: Stage, rng: random.Random) -> None:
    """Another session holds rows: of half of the agents, or on SQLite of everything."""
    with stage.database.write() as connection:
        if stage.uses_postgresql:
            ids = list(connection.execute(select(agents.c.agent_id)).scalars())
            held = rng.sample(sorted(ids), len(ids) // 2)
            connection.execute(
                select(agents.c.agent_id)
                .where(agents.c.agent_id.in_(held))
                .order_by(agents.c.agent_id)
                .with_for_update()
            ).all()
        time.sleep(4)


def fill_database_disk(stage: Stage, rng: random.Random) -> None:
    """No process of ours can make any file grow."""
    _limit(stage, 1)
    time.sleep(4)
    _limit(stage, None)


def step_clock(stage: Stage, rng: random.Random) -> None:
    """The machine's clock jumps three hours ahead, for all processes together."""
    _step(stage.database, hours=3)


# --- entries that are no events -----------------------------------------------------------------


def poison(stage: Stage, rng: random.Random) -> None:
    """Whatever can be wrong with an entry, between good ones."""
    sent = 0
    while sent < len(entries()):
        with suppress(redis.RedisError), stage.redis.client() as client:
            for payload in entries()[sent:]:
                client.xadd(RUNS_STREAM, {FIELD: payload})
                sent += 1
    stage.poison += sent


FAULTS: Final = (
    Fault("kill a worker", kill_worker, bound_seconds=15),
    Fault("kill an intake", kill_intake, bound_seconds=15),
    Fault("kill a whole pool", kill_pool, bound_seconds=20),
    Fault("kill a pool's child", kill_child, bound_seconds=15, on=("postgresql",)),
    Fault("freeze a worker", freeze_worker, bound_seconds=15),
    Fault("freeze an intake", freeze_intake, bound_seconds=15),
    Fault("die at a step of a job", die_in_a_job, bound_seconds=15),
    Fault("die at a step of intake", die_taking_in, bound_seconds=15),
    Fault("restart all workers in turn", roll_restart, bound_seconds=30),
    Fault("a worker's clock is wrong by hours", skewed_worker, on=("postgresql",)),
    Fault("CLIENT KILL", kill_clients),
    Fault("CLIENT PAUSE", pause_clients),
    Fault("DEBUG SLEEP", hang_redis),
    Fault("Redis killed, restarted", restart_redis),
    Fault("Redis killed, wiped", wipe_redis),
    Fault("Redis full", fill_redis, bound_seconds=15),
    Fault("Redis's disk full", fill_redis_disk, bound_seconds=15),
    Fault("link swallows bytes", swallow),
    Fault("link is slow", delay),
    Fault("link refuses", refuse),
    Fault("link resets", reset),
    Fault("link to the database resets", reset_database, on=("postgresql",)),
    Fault("link to the database is slow", delay_database, on=("postgresql",)),
    Fault("database crashes, restarted", crash_database, bound_seconds=15, on=("postgresql",)),
    Fault("database connections terminated", terminate_connections, on=("postgresql",)),
    Fault("rows locked by another session", lock_agents, bound_seconds=15),
    Fault("disk full under the database", fill_database_disk, bound_seconds=15, on=("sqlite",)),
    Fault("clock jumps by hours", step_clock, on=("sqlite",)),
    Fault("poison entries", poison),
)


def schedule(seed: int, *, database: str, faults: int) -> list[Fault]:
    """The faults of a storm: every one that the database allows, again and again, each round in another order."""
    rng = random.Random(seed)
    possible = [fault for fault in FAULTS if database in fault.on]
    planned: list[Fault] = []
    while len(planned) < faults:
        planned += rng.sample(possible, len(possible))
    return planned[:faults]


def _signal(stage: Stage, rng: random.Random, member: str, number: signal.Signals) -> None:
    if (process := stage.member(rng.choice(list(Kind)), member)) is not None:
        _send(process, number)


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _freeze(stage: Stage, rng: random.Random, member: str) -> None:
    process = stage.member(rng.choice(list(Kind)), member)
    if process is None:
        return
    _send(process, signal.SIGSTOP)
    time.sleep(stage.policy.lease_seconds * 1.75)
    _send(process, signal.SIGCONT)


def _await_death(doomed: subprocess.Popen[bytes]) -> None:
    """A place that nobody happens to pass in time is left alone."""
    with suppress(subprocess.TimeoutExpired):
        doomed.wait(SECONDS_OF_DEATH)
    doomed.kill()
    doomed.wait()


def _cut(link: Link, mode: Mode, seconds: float) -> None:
    link.set(mode)
    time.sleep(seconds)
    link.set(Mode.PASS)


def _limit(stage: Stage, most_bytes: int | None) -> None:
    for process in stage.running():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            limit_growth(process.pid, most_bytes)


def _step(database: Database, *, hours: float) -> None:
    with database.write() as connection:
        offset = system.c.clock_offset_ms + round(hours * 3_600_000)
        connection.execute(update(system).values(clock_offset_ms=offset))
