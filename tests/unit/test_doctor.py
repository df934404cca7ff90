"""What the doctor makes of what servers say: each trouble has a finding, and each bad finding an advice."""

from __future__ import annotations

from typing import Any

import pytest

from takeaways.schemas.versions import NEWEST
from takeaways.workers.doctor import judge
from takeaways.workers.doctor.finding import Finding, Health, exit_code
from takeaways.workers.exits import Exit
from takeaways.workers.metrics.standing import DatabaseStanding, StreamStanding

GOOD_REDIS: dict[str, Any] = {
    "redis_version": "7.2.4",
    "role": "master",
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "rdb_last_bgsave_status": "ok",
    "maxmemory": 1_000,
    "used_memory": 100,
    "maxmemory_policy": "noeviction",
}
WELL = DatabaseStanding(
    due={("extraction", "runs"): 3},
    oldest_due_seconds={"extraction": 4.0, "consolidation": 0.0},
    held={"parked": 0, "waiting": 2},
    leases={("extraction", "held"): 5, ("extraction", "expired"): 0},
    sweep_late_seconds=1.0,
    dead_letters={},
    quarantines={"extraction": 0},
    erasures_open=0,
)


def troubles(findings: list[Finding]) -> list[tuple[Health, str]]:
    assert all(finding.advice for finding in findings if finding.health is not Health.GOOD)
    return [(finding.health, finding.found) for finding in findings if finding.health is not Health.GOOD]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"redis_version": "5.0.7"}, [(Health.BAD, "Redis 5.0.7")]),
        ({"role": "slave"}, [(Health.BAD, "it is a replica")]),
        ({"aof_enabled": 0}, [(Health.WARNING, "no append-only file is kept")]),
        ({"aof_last_write_status": "err"}, [(Health.BAD, "it cannot write its file")]),
        ({"maxmemory_policy": "allkeys-lru"}, [(Health.BAD, "maxmemory-policy is allkeys-lru")]),
        (
            {"maxmemory_policy": "allkeys-lru", "maxmemory": 0},
            [(Health.WARNING, "maxmemory-policy is allkeys-lru")],
        ),
        ({"used_memory": 900}, [(Health.BAD, "90% of its memory is used")]),
        ({"valkey_version": "9.1.0", "redis_version": "5.0.0"}, []),
    ],
)
def test_a_server_for_events_must_keep_them(
    changes: dict[str, Any], expected: list[tuple[Health, str]]
) -> None:
    """Redis as it is installed evicts, forgets at a restart, or is a replica: all of that loses events silently."""
    assert troubles(judge.redis("redis", {**GOOD_REDIS, **changes})) == expected


@pytest.mark.parametrize(
    ("finding", "health"),
    [
        (judge.clock("redis", 0.4), Health.GOOD),
        (judge.clock("redis", -90.0), Health.WARNING),
        (judge.no_database("db", "Connection refused", refused=False), Health.AWAY),
        (judge.no_database("db", "password authentication failed", refused=True), Health.MISCONFIGURED),
        (judge.migrations(NEWEST), Health.GOOD),
        (judge.migrations(f"9999_from_{NEWEST}"), Health.GOOD),
        (judge.migrations(None), Health.MISCONFIGURED),
        (judge.migrations("0000"), Health.MISCONFIGURED),
        (judge.migrations("9999"), Health.MISCONFIGURED),
        (judge.database_version("postgresql", (16, 2)), Health.GOOD),
        (judge.database_version("postgresql", (11, 5)), Health.BAD),
        (judge.database_version("sqlite", (3, 34, 1)), Health.BAD),
    ],
)
def test_clocks_and_versions(finding: Finding, health: Health) -> None:
    """What cannot work is told before it fails in the middle of a job."""
    assert finding.health is health
    assert (finding.advice is None) == (health is Health.GOOD)


def test_pools_without_workers_and_streams_without_readers_are_told() -> None:
    """The most common trouble of all: something was never started."""
    idle = StreamStanding(length=0, lag=0, pending=0, oldest_seconds=0.0, consumers=1)
    unread = StreamStanding(length=7, lag=7, pending=0, oldest_seconds=9.0, consumers=0)
    stuck = StreamStanding(length=9, lag=0, pending=9, oldest_seconds=4_000.0, consumers=1)

    found = troubles(
        judge.pools({"extraction": 2, "consolidation": 0}, {"extraction": idle, "consolidation": unread})
    )
    held_up = troubles(judge.pools({}, {"extraction": stuck}))

    assert found == [
        (Health.BAD, "no worker answered"),
        (Health.BAD, "no intake reads its stream; 7 events wait"),
    ]
    assert held_up == [(Health.BAD, "the oldest of 9 events waits for 67 min")]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        (
            {"oldest_due_seconds": {"extraction": 7_200.0}},
            [(Health.BAD, "3 agents are due, the oldest for 2 h")],
        ),
        ({"sweep_late_seconds": 300.0}, [(Health.BAD, "the sweep is 5 min late")]),
        ({"held": {"parked": 1}}, [(Health.BAD, "1 agent is parked until a person acts")]),
        ({"leases": {("extraction", "expired"): 2}}, [(Health.WARNING, "2 leases ran out")]),
        ({"quarantines": {"extraction": 1}}, [(Health.WARNING, "1 batches are set aside")]),
        ({"dead_letters": {"not_json": 4}}, [(Health.WARNING, "4 dead letters are open")]),
    ],
)
def test_work_that_waits_too_long_is_told(
    changes: dict[str, Any], expected: list[tuple[Health, str]]
) -> None:
    """A backlog is found by its age, whatever the reason."""
    values = {name: getattr(WELL, name) for name in DatabaseStanding.__dataclass_fields__}

    assert troubles(judge.work(DatabaseStanding(**{**values, **changes}))) == expected


@pytest.mark.parametrize(
    ("healths", "code"),
    [
        ([Health.GOOD], Exit.DONE),
        ([Health.GOOD, Health.WARNING], Exit.DONE),
        ([Health.BAD, Health.WARNING], Exit.FAILED),
        ([Health.BAD, Health.AWAY], Exit.UNAVAILABLE),
        ([Health.AWAY, Health.MISCONFIGURED], Exit.MISCONFIGURED),
    ],
)
def test_the_exit_code_says_what_kind_of_trouble_it_is(healths: list[Health], code: Exit) -> None:
    """A script can tell what waiting mends from what a person must mend."""
    assert exit_code(Finding("x", health, "found", "advice") for health in healths) is code
