"""How the database and Redis stand, read with a few statements that touch only what something is the matter with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from redis import Redis
from redis.exceptions import ResponseError
from sqlalchemy import Connection, case, func, select

from takeaways.schemas.database import Database, lease_clock, now_ms
from takeaways.schemas.queues import BROKER_PREFIX, GROUP, Kind, ModelKeys
from takeaways.schemas.tables import agents, erasures, quarantines
from takeaways.workers.intake import deadletters

CONSUMER_ALIVE_SECONDS: Final = 60.0
"""A reader asks its stream each second or two, whether anything comes or not."""
_COUNT_MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class DatabaseStanding:
    """Counts of agents by what holds them up. `sweep_late_seconds` is how overdue the oldest timer is."""

    due: Mapping[tuple[str, str], int]
    oldest_due_seconds: Mapping[str, float]
    held: Mapping[str, int]
    leases: Mapping[tuple[str, str], int]
    sweep_late_seconds: float
    dead_letters: Mapping[str, int]
    quarantines: Mapping[str, int]
    erasures_open: int


@dataclass(frozen=True, slots=True)
class StreamStanding:
    """One stream. `oldest_seconds` is the age of the oldest event that is not taken in; 0 where there is none."""

    length: int
    lag: int
    pending: int
    oldest_seconds: float
    consumers: int


@dataclass(frozen=True, slots=True)
class RedisMemory:
    """`most_bytes` is 0 where the server has no limit."""

    used_bytes: int
    most_bytes: int


def read_database(database: Database) -> DatabaseStanding:
    with database.read() as connection:
        at_ms = now_ms(connection)
        due = {
            (row.due_kind, row.due_reason): (row.number, (at_ms - row.oldest) / 1000)
            for row in connection.execute(_DUE)
        }
        oldest_wake_ms = connection.scalar(
            select(func.min(agents.c.wake_at_ms)).where(agents.c.wake_at_ms.is_not(None))
        )
        return DatabaseStanding(
            due={key: number for key, (number, _) in due.items()},
            oldest_due_seconds={
                kind.value: max(
                    (seconds for key, (_, seconds) in due.items() if key[0] == kind.value), default=0.0
                )
                for kind in Kind
            },
            held=_held(connection, at_ms),
            leases=_leases(connection),
            sweep_late_seconds=0.0 if oldest_wake_ms is None else max(at_ms - oldest_wake_ms, 0) / 1000,
            dead_letters={reason.value: number for reason, number in deadletters.counted(connection).items()},
            quarantines=_quarantines(connection),
            erasures_open=connection.scalar(
                select(func.count()).select_from(erasures).where(erasures.c.done_ms.is_(None))
            )
            or 0,
        )


_DUE: Final = (
    select(
        agents.c.due_kind,
        agents.c.due_reason,
        func.count().label("number"),
        func.min(agents.c.due_since_ms).label("oldest"),
    )
    .where(agents.c.due_since_ms.is_not(None))
    .group_by(agents.c.due_kind, agents.c.due_reason)
)


def _held(connection: Connection, at_ms: int) -> dict[str, int]:
    reason = case((agents.c.parked_because.is_not(None), "parked"), else_="waiting").label("why")
    found = connection.execute(
        select(reason, func.count()).where(agents.c.not_before_ms > at_ms).group_by(reason)
    )
    return {"parked": 0, "waiting": 0} | {why: int(number) for why, number in found}


def _leases(connection: Connection) -> dict[tuple[str, str], int]:
    clock_ms, clock_boot = lease_clock(connection)
    over = (agents.c.lease_until_ms <= clock_ms) | (agents.c.lease_boot != clock_boot)
    state = case((over, "expired"), else_="held").label("state")
    found = connection.execute(
        select(agents.c.owner_kind, state, func.count())
        .where(agents.c.owner.is_not(None))
        .group_by(agents.c.owner_kind, state)
    )
    none = {(kind.value, word): 0 for kind in Kind for word in ("held", "expired")}
    return none | {(kind, word): number for kind, word, number in found}


def _quarantines(connection: Connection) -> dict[str, int]:
    found = connection.execute(
        select(quarantines.c.kind, func.count())
        .where(quarantines.c.lifted_at_ms.is_(None))
        .group_by(quarantines.c.kind)
    )
    return {kind.value: 0 for kind in Kind} | {kind: int(number) for kind, number in found}


def read_stream(redis: Redis, stream: str) -> StreamStanding:
    """One stream by the server's clock. A stream that nobody has made or read yet stands at nothing taken in."""
    seconds, micros = _any(redis.time())
    at_ms = seconds * 1000 + micros // 1000
    length = int(_any(redis.xlen(stream)))
    group = _group(redis, stream)
    if group is None:
        first = _any(redis.xrange(stream, count=1))
        return StreamStanding(length, length, 0, _age(first[0][0], at_ms) if first else 0.0, 0)
    last = group["last-delivered-id"]
    pending: Any = redis.xpending(stream, GROUP)
    waiting = _any(redis.xrange(stream, min=b"(" + _bytes(last), count=1))
    oldest = [entry for entry in (pending["min"], waiting[0][0] if waiting else None) if entry]
    lag = group.get("lag")
    consumers: Any = redis.xinfo_consumers(stream, GROUP)
    return StreamStanding(
        length,
        int(lag) if lag is not None else _counted_lag(redis, stream, length, last),
        int(pending["pending"]),
        max((_age(entry, at_ms) for entry in oldest), default=0.0),
        sum(consumer["idle"] < CONSUMER_ALIVE_SECONDS * 1000 for consumer in consumers),
    )


def read_queues(broker: Redis) -> dict[str, int]:
    """Hints that no worker has taken, by queue, and under `unacked` those whose job has not ended."""
    lengths = {kind.value: int(_any(broker.llen(f"{BROKER_PREFIX}{kind.value}"))) for kind in Kind}
    return {**lengths, "unacked": int(_any(broker.hlen(f"{BROKER_PREFIX}unacked")))}


def read_pauses(redis: Redis) -> dict[str, float]:
    """For how many seconds nobody asks a model, by its name."""
    before, _, after = ModelKeys.of("\0").pause.partition("\0")
    pauses: dict[str, float] = {}
    for key in redis.scan_iter(match=f"{before.replace('{', '[{]')}*{after}", count=1_000):
        left_ms = int(_any(redis.pttl(key)))
        if left_ms > 0:
            name = _bytes(key).decode("utf-8", "replace")
            pauses[name[len(before) : len(name) - len(after)]] = left_ms / 1000
    return pauses


def read_memory(redis: Redis) -> RedisMemory:
    found: Any = redis.info("memory")
    return RedisMemory(int(found["used_memory"]), int(found.get("maxmemory", 0)))


def _group(redis: Redis, stream: str) -> Any:
    try:
        groups: Any = redis.xinfo_groups(stream)
    except ResponseError as error:
        if "no such key" not in str(error):
            raise
        return None
    return next((group for group in groups if _bytes(group["name"]) == GROUP.encode()), None)


def _counted_lag(redis: Redis, stream: str, length: int, last: Any) -> int:
    """Redis gives up counting once an entry was deleted. What is older than the last delivered one is little."""
    delivered = _any(redis.xrange(stream, max=last, count=_COUNT_MOST))
    return max(length - len(delivered), 0)


def _age(entry_id: Any, at_ms: int) -> float:
    return max(at_ms - int(_bytes(entry_id).partition(b"-")[0]), 0) / 1000


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _any(reply: Any) -> Any:
    """redis-py's replies are typed for its asyncio client too."""
    return reply
