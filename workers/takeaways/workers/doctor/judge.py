"""From what servers say to findings. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from takeaways.schemas.versions import NEWEST, Fit, fit
from takeaways.workers.doctor.finding import Finding, Health
from takeaways.workers.metrics.standing import DatabaseStanding, StreamStanding

LEAST_REDIS: Final = (6, 2)
LEAST_POSTGRESQL: Final = 14
LEAST_SQLITE: Final = (3, 35)
SKEW_SECONDS: Final = 2.0
FULL_SHARE: Final = 0.8
OLD_SECONDS: Final = 900.0
EVENT_OLD_SECONDS: Final = 300.0
SWEEP_LATE_SECONDS: Final = 120.0


def redis(part: str, info: Mapping[str, Any]) -> list[Finding]:
    """Version, role, persistence, eviction and room of a server, from its INFO."""
    server = "Valkey" if "valkey_version" in info else "Redis"
    version = str(info.get("valkey_version") or info.get("redis_version") or "0")
    found = []
    if _version(version) < LEAST_REDIS:
        found.append(
            Finding(
                part, Health.BAD, f"{server} {version}", "use Redis 6.2 or newer, or Valkey: streams need it"
            )
        )
    else:
        found.append(Finding(part, Health.GOOD, f"{server} {version}"))
    if info.get("role") not in ("master", None):
        found.append(
            Finding(part, Health.BAD, "it is a replica", "name the primary: a replica takes no events")
        )
    return [*found, _persistence(part, info), *_room(part, info)]


def _persistence(part: str, info: Mapping[str, Any]) -> Finding:
    if info.get("aof_last_write_status") == "err" or info.get("rdb_last_bgsave_status") == "err":
        return Finding(
            part, Health.BAD, "it cannot write its file", "look at its disk: until then it refuses events"
        )
    if int(info.get("aof_enabled", 0)):
        return Finding(part, Health.GOOD, "an append-only file is kept")
    return Finding(
        part,
        Health.WARNING,
        "no append-only file is kept",
        "set `appendonly yes`: a restart loses the events that were not yet taken in",
    )


def _room(part: str, info: Mapping[str, Any]) -> list[Finding]:
    policy = str(info.get("maxmemory_policy", "noeviction"))
    most = int(info.get("maxmemory", 0))
    used = int(info.get("used_memory", 0))
    if policy != "noeviction":
        return [
            Finding(
                part,
                Health.BAD if most else Health.WARNING,
                f"maxmemory-policy is {policy}",
                "set `maxmemory-policy noeviction`: an evicted event is missed by nobody, a refused one by its sender",
            )
        ]
    if most and used > FULL_SHARE * most:
        return [
            Finding(
                part,
                Health.BAD,
                f"{used / most:.0%} of its memory is used",
                "give it more memory, or start more workers so that the streams become shorter",
            )
        ]
    return [Finding(part, Health.GOOD, "it never evicts" + ("" if most else "; its memory has no limit"))]


def clock(part: str, skew_seconds: float) -> Finding:
    """How far a server's clock is from this machine's."""
    if abs(skew_seconds) <= SKEW_SECONDS:
        return Finding(part, Health.GOOD, "its clock agrees with this machine's")
    return Finding(
        part,
        Health.WARNING,
        f"its clock is {abs(skew_seconds):,.1f} s {'ahead of' if skew_seconds > 0 else 'behind'} this machine's",
        "let both keep time by NTP: times in logs and the ages of events are wrong meanwhile",
    )


def database_version(name: str, version: tuple[int, ...]) -> Finding:
    """`name` is the dialect's."""
    shown = ".".join(map(str, version))
    if name == "postgresql":
        if version < (LEAST_POSTGRESQL,):
            return Finding("database", Health.BAD, f"PostgreSQL {shown}", f"use {LEAST_POSTGRESQL} or newer")
        return Finding("database", Health.GOOD, f"PostgreSQL {shown}")
    if version < LEAST_SQLITE:
        return Finding("database", Health.BAD, f"SQLite {shown}", "use a Python with SQLite 3.35 or newer")
    return Finding("database", Health.GOOD, f"SQLite {shown}: one machine only")


def no_database(where: str, why: str, *, refused: bool) -> Finding:
    """A database that cannot be asked: it answers and refuses us, or it does not answer."""
    if refused:
        return Finding(
            "database",
            Health.MISCONFIGURED,
            f"{where} refuses us: {why}",
            "check user, password and name in TAKEAWAYS_DATABASE_URL",
        )
    return Finding(
        "database",
        Health.AWAY,
        f"{where} does not answer: {why}",
        "start it, or check TAKEAWAYS_DATABASE_URL and the network",
    )


def migrations(at: str | None) -> Finding:
    """Whether this program works with tables of a version."""
    match fit(at):
        case Fit.SAME:
            return Finding("database", Health.GOOD, f"its tables are of version {at}")
        case Fit.NEWER:
            return Finding(
                "database", Health.GOOD, f"its tables are of version {at}, newer than this program"
            )
        case Fit.EMPTY:
            return Finding("database", Health.MISCONFIGURED, "it has no tables", "run `takeaways migrate`")
        case Fit.OLD | Fit.TOO_NEW as misfit:
            advice = "run `takeaways migrate`" if misfit is Fit.OLD else "install a newer program"
            return Finding(
                "database",
                Health.MISCONFIGURED,
                f"its tables are of version {at}, and this program's of {NEWEST}",
                advice,
            )


def pools(workers: Mapping[str, int], streams: Mapping[str, StreamStanding | None]) -> list[Finding]:
    """`workers` that answered, by pool; `streams` by the pool whose intake reads them."""
    found = []
    for pool, number in workers.items():
        if number:
            found.append(
                Finding(f"{pool} pool", Health.GOOD, f"{number} worker{'s' * (number > 1)} answered")
            )
        else:
            found.append(
                Finding(f"{pool} pool", Health.BAD, "no worker answered", f"start `takeaways worker {pool}`")
            )
    for pool, stream in streams.items():
        if stream is not None:
            found.append(_intake(pool, stream))
    return found


def _intake(pool: str, stream: StreamStanding) -> Finding:
    waiting = stream.lag + stream.pending
    part = f"{pool} intake"
    if not stream.consumers:
        return Finding(
            part,
            Health.BAD,
            f"no intake reads its stream; {waiting:,} events wait",
            f"start `takeaways worker {pool}`, or `takeaways intake {pool}` beside a Celery worker",
        )
    if stream.oldest_seconds > EVENT_OLD_SECONDS:
        return Finding(
            part,
            Health.BAD,
            f"the oldest of {waiting:,} events waits for {_span(stream.oldest_seconds)}",
            "read the intake's log: it says what holds it up",
        )
    return Finding(part, Health.GOOD, f"it reads its stream; {waiting:,} events wait")


def work(standing: DatabaseStanding) -> list[Finding]:
    """What waits in the database, and since when."""
    due = sum(standing.due.values())
    oldest = max(standing.oldest_due_seconds.values(), default=0.0)
    found = []
    if oldest > OLD_SECONDS:
        found.append(
            Finding(
                "work",
                Health.BAD,
                f"{_agents(due)} due, the oldest for {_span(oldest)}",
                "start workers of that pool, or more of them; `takeaways status` names the agents",
            )
        )
    else:
        found.append(Finding("work", Health.GOOD, f"{_agents(due)} due" if due else "nothing is due"))
    if standing.sweep_late_seconds > SWEEP_LATE_SECONDS:
        found.append(
            Finding(
                "work",
                Health.BAD,
                f"the sweep is {_span(standing.sweep_late_seconds)} late",
                "start an intake of each pool: lost hints are not repeated meanwhile",
            )
        )
    if parked := standing.held.get("parked", 0):
        found.append(
            Finding(
                "work",
                Health.BAD,
                f"{_agents(parked)} parked until a person acts",
                "`takeaways status` says why: a key, a permission, a model's name, a limit",
            )
        )
    if expired := sum(number for (_, state), number in standing.leases.items() if state == "expired"):
        found.append(
            Finding(
                "work",
                Health.WARNING,
                f"{expired:,} leases ran out",
                "workers died; others take over within a minute",
            )
        )
    if aside := sum(standing.quarantines.values()):
        found.append(
            Finding(
                "work",
                Health.WARNING,
                f"{aside:,} batches are set aside",
                "`takeaways status AGENT` names them",
            )
        )
    if dead := sum(standing.dead_letters.values()):
        found.append(
            Finding(
                "work", Health.WARNING, f"{dead:,} dead letters are open", "see `takeaways dead-letters list`"
            )
        )
    return found


def _agents(number: int) -> str:
    return "1 agent is" if number == 1 else f"{number:,} agents are"


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
