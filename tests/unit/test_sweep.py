"""The sweep finds whoever is due, at a cost that follows the work due."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event, insert, select, text, update

from takeaways.schemas.database import Database, lease_clock, now_ms
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents, system
from takeaways.workers.schedule.boot import current_boot
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.sweep import Swept, redecide, sweep_once

POLICY = Policy()
RUNS_DUE: dict[str, Any] = {"runs_total": 5}
COMPACTED: dict[str, Any] = {"compactions_total": 1}


class Recorder:
    """Keeps the hints instead of publishing them."""

    def __init__(self) -> None:
        self.got: list[tuple[Kind, str, str]] = []

    def hint(self, kind: Kind, agent_id: str, reason: str) -> None:
        self.got.append((kind, agent_id, reason))

    @property
    def agents(self) -> list[str]:
        return [agent_id for _, agent_id, _ in self.got]


@pytest.fixture
def boot_id(database: Database) -> str:
    return current_boot(database, pinned=None, fresh=True)


@pytest.fixture
def hints() -> Recorder:
    return Recorder()


def add(
    database: Database, boot_id: str, *agent_ids: str, wake_in_ms: int | None = 0, **columns: Any
) -> None:
    """Agents that are to be looked at so many milliseconds from now; None for never."""
    with database.write() as connection:
        wake_at_ms = None if wake_in_ms is None else now_ms(connection) + wake_in_ms
        rows = [
            {"agent_id": one, "boot_id": boot_id, "wake_at_ms": wake_at_ms, **columns} for one in agent_ids
        ]
        connection.execute(insert(agents), rows)


def row(database: Database, agent_id: str) -> Any:
    with database.read() as connection:
        return connection.execute(select(agents).where(agents.c.agent_id == agent_id)).mappings().one()


def pass_time(database: Database, seconds: float) -> None:
    with database.write() as connection:
        connection.execute(
            update(system).values(clock_offset_ms=system.c.clock_offset_ms + round(seconds * 1000))
        )


def sweep(database: Database, hints: Recorder, *kinds: Kind, **options: Any) -> Swept:
    options = {"jitter": lambda: 0.0, **options}
    return sweep_once(database, hints, policy=POLICY, kinds=kinds or tuple(Kind), **options)


def test_whoever_is_due_is_hinted(database: Database, boot_id: str, hints: Recorder) -> None:
    """A hint that was lost is repeated by whoever sweeps next."""
    add(database, boot_id, "ada", **RUNS_DUE)
    add(database, boot_id, "bob", **COMPACTED)
    add(database, boot_id, "eve", wake_in_ms=60_000, **RUNS_DUE)
    add(database, boot_id, "old", wake_in_ms=None)

    swept = sweep(database, hints)

    assert sorted(hints.got) == [(Kind.CONSOLIDATION, "bob", "compacted"), (Kind.EXTRACTION, "ada", "runs")]
    assert (swept.looked, swept.hinted) == (2, 2)


def test_an_unanswered_hint_is_repeated_ever_more_rarely(
    database: Database, boot_id: str, hints: Recorder
) -> None:
    """With every worker gone for a day the queue must not fill with hints for one agent."""
    add(database, boot_id, "ada", **RUNS_DUE)

    waits = []
    for _ in range(7):
        sweep(database, hints)
        sweep(database, hints)
        with database.read() as connection:
            wait_ms = row(database, "ada")["wake_at_ms"] - now_ms(connection)
        waits.append(round(wait_ms / 30_000))
        pass_time(database, wait_ms / 1000)

    assert waits == [1, 2, 4, 8, 16, 30, 30]
    assert hints.agents == ["ada"] * 7


def test_who_is_not_due_after_all_is_put_back(database: Database, boot_id: str, hints: Recorder) -> None:
    """The timer says when to look, and `decide` what there is to do."""
    with database.read() as connection:
        ended_ms = now_ms(connection) - 1_000
    add(database, boot_id, "ada", last_success_ms=ended_ms, hints=3)

    swept = sweep(database, hints)

    assert (swept.not_due, hints.got) == (1, [])
    found = row(database, "ada")
    assert (found["wake_at_ms"], found["hints"]) == (ended_ms + POLICY.idle_ms, 0)


def test_an_idle_agent_is_hinted_when_its_six_hours_are_over(
    database: Database, boot_id: str, hints: Recorder
) -> None:
    """No timer runs anywhere for it but the column."""
    with database.read() as connection:
        at_ms = now_ms(connection)
    add(database, boot_id, "ada", wake_in_ms=POLICY.idle_ms, last_success_ms=at_ms)

    sweep(database, hints)
    assert hints.got == []

    pass_time(database, POLICY.idle_seconds + 1)
    sweep(database, hints)
    assert hints.got == [(Kind.CONSOLIDATION, "ada", "idle")]


def test_a_leased_agent_waits_for_its_lease_to_end(database: Database, boot_id: str, hints: Recorder) -> None:
    """A worker that died holding it is succeeded as soon as its lease is over."""
    with database.read() as connection:
        clock_ms, clock_boot = lease_clock(connection)
    lease: dict[str, Any] = {"owner": "w1", "owner_kind": "extraction", "lease_boot": clock_boot}
    add(database, boot_id, "held", **RUNS_DUE, lease_until_ms=clock_ms + 20_000, **lease)
    add(database, boot_id, "dead", **RUNS_DUE, lease_until_ms=clock_ms - 1, **lease)

    sweep(database, hints)

    assert hints.agents == ["dead"]
    with database.read() as connection:
        assert 0 < row(database, "held")["wake_at_ms"] - now_ms(connection) <= 20_000


def test_a_reset_by_a_restart_takes_a_due_extraction_back(
    database: Database, boot_id: str, hints: Recorder
) -> None:
    """Runs of before the restart no longer count, whoever looks first."""
    add(database, boot_id, "ada", **RUNS_DUE)
    current_boot(database, pinned=None, fresh=True)

    swept = sweep(database, hints)

    assert (swept.not_due, hints.got) == (1, [])
    assert row(database, "ada")["wake_at_ms"] is None


# Two pools


def test_each_pool_hints_its_own_kind_only(database: Database, boot_id: str, hints: Recorder) -> None:
    """A queue that nobody consumes must not fill."""
    add(database, boot_id, "ada", **RUNS_DUE)
    add(database, boot_id, "bob", **COMPACTED)

    first = sweep(database, hints, Kind.EXTRACTION)
    assert (hints.agents, first.left) == (["ada"], 1)

    sweep(database, hints, Kind.CONSOLIDATION)
    assert hints.agents == ["ada", "bob"]


def test_the_other_pools_backlog_neither_starves_this_one_nor_keeps_it_busy(
    database: Database, boot_id: str, hints: Recorder
) -> None:
    """The consolidation pool is down; a thousand agents wait for it, and extraction goes on."""
    add(database, boot_id, *(f"waits-{number:03}" for number in range(50)), wake_in_ms=-1_000, **COMPACTED)
    add(database, boot_id, "ada", **RUNS_DUE)

    looked = [sweep(database, hints, Kind.EXTRACTION, limit=20).looked for _ in range(5)]

    assert hints.agents == ["ada"]
    assert looked == [20, 20, 11, 0, 0]
    late = sweep(database, hints, Kind.CONSOLIDATION, limit=100)
    assert late.hinted == 50


def test_an_agent_left_to_the_other_pool_is_looked_at_again(
    database: Database, boot_id: str, hints: Recorder
) -> None:
    """Meanwhile something of this pool's kind may have become due."""
    add(database, boot_id, "ada", **COMPACTED)
    sweep(database, hints, Kind.EXTRACTION)
    with database.write() as connection:
        connection.execute(update(agents).values(**RUNS_DUE))

    pass_time(database, 31)
    sweep(database, hints, Kind.EXTRACTION)

    assert hints.got == [(Kind.EXTRACTION, "ada", "runs")]


def test_a_long_queue_gets_no_more_hints(database: Database, boot_id: str, hints: Recorder) -> None:
    """All agents due at once must not put a million hints on Redis."""
    add(database, boot_id, "ada", **RUNS_DUE)
    add(database, boot_id, "bob", **COMPACTED)

    swept = sweep(
        database, hints, queue_length=lambda kind: 1_000 if kind is Kind.EXTRACTION else 0, queue_cap=1_000
    )

    assert hints.agents == ["bob"]
    assert swept.queue_full == (Kind.EXTRACTION,)
    assert sweep(database, hints, Kind.EXTRACTION, queue_length=lambda kind: 1_000) == Swept(
        queue_full=(Kind.EXTRACTION,)
    )


def test_a_sweep_takes_a_bounded_number_and_says_that_there_is_more(
    database: Database, boot_id: str, hints: Recorder
) -> None:
    """One transaction stays short however many are due."""
    add(database, boot_id, *(f"a{number}" for number in range(7)), **RUNS_DUE)

    swept = [sweep(database, hints, limit=3) for _ in range(3)]

    assert [(one.hinted, one.more) for one in swept] == [(3, True), (3, True), (1, False)]
    assert len(set(hints.agents)) == 7


def test_agents_that_were_hinted_together_drift_apart(
    database: Database, boot_id: str, hints: Recorder
) -> None:
    """After an outage thousands are due in one instant; looked at again they must not come as one wave."""
    add(database, boot_id, *(f"a{number}" for number in range(20)), **RUNS_DUE)
    units = iter(number / 20 for number in range(20))

    sweep(database, hints, jitter=lambda: next(units))

    waits = sorted(row(database, f"a{number}")["wake_at_ms"] for number in range(20))
    assert [later - waits[0] for later in waits] == [375 * number for number in range(20)]


def test_two_sweeps_at_once_share_the_work(postgresql_database: Database, hints: Recorder) -> None:
    """Each intake process sweeps; they must not wait for each other or hint twice."""
    database = postgresql_database
    boot_id = current_boot(database, pinned=None, fresh=True)
    add(database, boot_id, "ada", "bob", **RUNS_DUE)
    with database.write() as connection:
        connection.execute(select(agents).where(agents.c.agent_id == "ada").with_for_update()).all()

        sweep(database, hints)

    assert hints.agents == ["bob"]


# Cost


def test_the_cost_follows_the_work_due_and_not_the_number_of_agents(
    database: Database, boot_id: str, hints: Recorder
) -> None:
    """A platform with a million sleeping agents pays nothing for them."""
    with database.write() as connection:
        connection.execute(
            insert(agents),
            [
                {"agent_id": f"a{n:05}", "boot_id": boot_id, "wake_at_ms": 9_000_000_000_000}
                for n in range(3_000)
            ],
        )
    add(database, boot_id, "ada", **RUNS_DUE)
    if not database.is_sqlite:
        with database.write() as connection:
            connection.execute(text("ANALYZE agents"))

    plan = _plan_of(database, lambda: sweep(database, hints))

    assert hints.agents == ["ada"]
    assert "ix_agents_wake_at_ms" in plan
    assert not re.search(r"SCAN agents$|Seq Scan on agents", plan, re.MULTILINE)


def test_an_idle_sweep_on_sqlite_takes_no_write_lock(sqlite_database: Database, hints: Recorder) -> None:
    """Each second, in each process: it must not stand in the way of the one writer."""
    boot_id = current_boot(sqlite_database, pinned=None, fresh=True)
    add(sqlite_database, boot_id, "eve", wake_in_ms=60_000, **RUNS_DUE)
    begun: list[str] = []
    event.listen(
        sqlite_database.engine,
        "before_cursor_execute",
        lambda c, cursor, statement, *rest: (
            begun.append(statement) if statement.startswith("BEGIN") else None
        ),
    )

    sweep(sqlite_database, hints)

    assert begun == ["BEGIN"]


def _plan_of(database: Database, act: Callable[[], object]) -> str:
    """How the database carries out the statement that looks for due agents."""
    found: list[tuple[str, Any]] = []

    def remember(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if "wake_at_ms <=" in statement and statement.startswith("SELECT"):
            found.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", remember)
    act()
    event.remove(database.engine, "before_cursor_execute", remember)
    statement, parameters = found[-1]
    explain = "EXPLAIN QUERY PLAN " if database.is_sqlite else "EXPLAIN "
    with database.read() as connection:
        rows = connection.exec_driver_sql(explain + statement, parameters).all()
    return "\n".join(str(one[-1]) for one in rows)


# A changed policy


def test_a_changed_policy_decides_again_for_stored_agents(database: Database, boot_id: str) -> None:
    """Who lowers the threshold from five to two expects those with three runs to be extracted now."""
    add(database, boot_id, *(f"a{number}" for number in range(5)), wake_in_ms=None, runs_total=3)
    policy = replace(POLICY, runs_per_extraction=2)

    after: str | None = ""
    rounds = 0
    while after is not None:
        after = redecide(database, policy=policy, after=after, limit=2)
        rounds += 1

    hints = Recorder()
    sweep_once(database, hints, policy=policy, kinds=tuple(Kind))
    assert len(hints.got) == 5
    assert rounds == 3
    assert redecide(database, policy=policy, limit=2) is None


# Boot


def test_a_new_worker_adopts_the_boot_that_is_there(database: Database) -> None:
    """Rolling one worker of many resets nothing."""
    first = current_boot(database, pinned=None, fresh=False)

    assert current_boot(database, pinned=None, fresh=False) == first


def test_a_server_that_starts_begins_a_new_boot_each_time(database: Database) -> None:
    """`takeaways up` is a restart of the server."""
    seen = {current_boot(database, pinned=None, fresh=True) for _ in range(3)}

    assert len(seen) == 3


def test_a_changed_pin_begins_a_new_boot_once(database: Database) -> None:
    """All workers of a deployment start with the new value, one after the other."""
    first = current_boot(database, pinned="release-1", fresh=False)
    second = current_boot(database, pinned="release-2", fresh=False)

    assert second != first
    assert current_boot(database, pinned="release-2", fresh=False) == second
    assert current_boot(database, pinned=None, fresh=False) == second
