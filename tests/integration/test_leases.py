"""The per-agent lease on real databases: one holder, a fence, and no wake-up lost."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import insert, select, text, update

from takeaways.schemas.database import Database, lease_clock, now_ms
from takeaways.schemas.errors import FencedOff
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents, jobs, system
from takeaways.workers.leases import Claimed, Heartbeat, Lease, NotClaimed, claim, fenced, release
from takeaways.workers.schedule.decide import Hold
from takeaways.workers.schedule.policy import Policy
from tests.waiting import wait_until

POLICY = Policy(lease_seconds=60.0)
BOOT = "boot-1"


def add_agent(database: Database, agent_id: str = "scout", **columns: Any) -> None:
    values = {"agent_id": agent_id, "boot_id": BOOT, "runs_total": 5, **columns}
    with database.write() as connection:
        if connection.execute(select(system)).first() is None:
            connection.execute(insert(system).values(id=1, boot_id=BOOT))
        connection.execute(insert(agents).values(values))


def agent(database: Database, agent_id: str = "scout") -> Any:
    with database.read() as connection:
        return connection.execute(select(agents).where(agents.c.agent_id == agent_id)).mappings().one()


def take(
    database: Database,
    owner: str = "one",
    *,
    kind: Kind = Kind.EXTRACTION,
    policy: Policy = POLICY,
    agent_id: str = "scout",
) -> Claimed | NotClaimed:
    job_id = f"{owner}-{time.monotonic_ns()}"
    return claim(database, agent_id, kind, owner=owner, job_id=job_id, policy=policy)


def taken(database: Database, owner: str = "one", **more: Any) -> Lease:
    claimed = take(database, owner, **more)
    assert isinstance(claimed, Claimed)
    return claimed.lease


def expire(database: Database) -> None:
    with database.write() as connection:
        connection.execute(update(agents).values(lease_until_ms=0))


def free(database: Database, lease: Lease, *, attempt_back: bool = False, **values: Any) -> Any:
    with fenced(database, lease) as (connection, row):
        return release(connection, row, lease, policy=POLICY, attempt_back=attempt_back, values=values)


def test_of_many_workers_that_race_for_an_agent_one_wins(database: Database) -> None:
    """Two jobs on one agent would read the same messages twice."""
    add_agent(database)

    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda number: take(database, f"worker-{number}"), range(8)))

    assert sum(isinstance(claimed, Claimed) for claimed in claims) == 1
    losers = [claimed for claimed in claims if isinstance(claimed, NotClaimed)]
    assert all(loser.decision is not None and loser.decision.hold is Hold.LEASED for loser in losers)


def test_the_two_kinds_exclude_each_other(database: Database) -> None:
    """An extraction and a consolidation of one agent never overlap."""
    add_agent(database, compactions_total=1)
    taken(database)

    other = take(database, "two", kind=Kind.CONSOLIDATION)

    assert isinstance(other, NotClaimed)


def test_an_agent_never_heard_of_is_not_made_by_a_hint(database: Database) -> None:
    """A hint is no event: it may be late, doubled, or for an agent of another server."""
    claimed = take(database, agent_id="nobody")

    assert claimed == NotClaimed(None)
    with database.read() as connection:
        assert connection.execute(select(agents)).first() is None


def test_a_lease_that_ran_out_is_taken_over_and_its_holder_fenced_off(database: Database) -> None:
    """A worker that was frozen and comes back must not write over its successor."""
    add_agent(database)
    frozen = taken(database, "frozen")
    expire(database)

    successor = taken(database, "successor")

    assert successor.epoch == frozen.epoch + 1
    with pytest.raises(FencedOff, match="epoch 1 is over"), fenced(database, frozen):
        pass
    with fenced(database, successor) as (_, row):
        assert row["owner"] == "successor"


def test_a_lease_that_the_same_worker_took_again_is_another_one(database: Database) -> None:
    """Two threads of one worker have one name; only the epoch tells which of them holds the agent."""
    add_agent(database)
    stuck = taken(database, "worker")
    expire(database)
    again = taken(database, "worker")

    with pytest.raises(FencedOff), fenced(database, stuck):
        pass
    with fenced(database, again) as (_, row):
        assert row["epoch"] == again.epoch


def test_a_lease_that_ran_out_untaken_may_still_commit(database: Database) -> None:
    """A slow database alone loses no work: nothing else can have begun under this epoch."""
    add_agent(database)
    lease = taken(database)
    expire(database)

    with fenced(database, lease) as (_, row):
        assert row["epoch"] == lease.epoch


def test_a_claim_that_waited_for_the_row_gets_a_whole_lease(database: Database) -> None:
    """An instant read before the wait would give a lease that has already run out."""
    add_agent(database)
    policy = Policy(lease_seconds=0.5)
    locked = threading.Event()
    released: list[tuple[int, int]] = []

    def hold_the_row() -> None:
        with database.write() as connection:
            connection.execute(select(agents).with_for_update()).all()
            locked.set()
            time.sleep(1.5)
            released.append((now_ms(connection), lease_clock(connection)[0]))

    holder = threading.Thread(target=hold_the_row)
    holder.start()
    assert locked.wait(60)
    lease = taken(database, policy=policy)
    holder.join()

    [(at_ms, clock_ms)] = released
    assert lease.epoch == 1
    assert agent(database)["wake_at_ms"] >= at_ms + policy.lease_ms
    assert agent(database)["lease_until_ms"] >= clock_ms + policy.lease_ms


def test_the_heartbeat_keeps_a_lease_beyond_its_time(database: Database) -> None:
    """A model may take minutes; a lease is short so that a dead worker is noticed soon."""
    policy = Policy(lease_seconds=2.0)
    add_agent(database)
    heartbeat = Heartbeat(database, lease_seconds=policy.lease_seconds)
    lease = taken(database, policy=policy)
    first_until_ms, first_wake_ms = agent(database)["lease_until_ms"], agent(database)["wake_at_ms"]

    def is_over() -> bool:
        with database.read() as connection:
            return bool(lease_clock(connection)[0] > first_until_ms)

    with heartbeat.watch(lease, deadline_seconds=60) as abort:
        wait_until(is_over)
        rival = take(database, "rival", policy=policy)
        lost, wake_ms = abort.is_set(), agent(database)["wake_at_ms"]
    heartbeat.stop()

    assert isinstance(rival, NotClaimed)
    assert not lost
    assert wake_ms > first_wake_ms, "nobody needs to look while it is renewed"


def test_a_lost_lease_calls_the_job_off(database: Database) -> None:
    """The model call of a job that was fenced off is paid for nothing, so it is cancelled."""
    add_agent(database)
    heartbeat = Heartbeat(database, lease_seconds=0.3)
    lease = taken(database)

    with heartbeat.watch(lease, deadline_seconds=60) as abort:
        expire(database)
        taken(database, "successor")
        wait_until(abort.is_set)
    heartbeat.stop()


def test_a_job_past_its_deadline_is_no_longer_renewed(database: Database) -> None:
    """One call that hangs for good must not hold its agent for good."""
    add_agent(database)
    heartbeat = Heartbeat(database, lease_seconds=0.3)
    lease = taken(database, policy=Policy(lease_seconds=0.3))

    with heartbeat.watch(lease, deadline_seconds=0.2) as abort:
        wait_until(abort.is_set)
        wait_until(lambda: isinstance(take(database, "successor"), Claimed))
    heartbeat.stop()


def test_attempts_are_counted_at_the_claim(database: Database) -> None:
    """A batch that kills its worker never reaches an error handler; the claim has counted it."""
    add_agent(database)
    attempts = []
    for number in range(6):
        lease = taken(database, f"victim-{number}")
        attempts.append((lease.attempts, lease.exhausted))
        expire(database)

    assert attempts == [(1, False), (2, False), (3, False), (4, False), (5, False), (6, True)]


def test_a_benign_ending_gives_the_attempt_back(database: Database) -> None:
    """Rate limits and rolling restarts say nothing against a batch, however many there are."""
    add_agent(database)
    for number in range(9):
        lease = taken(database, f"worker-{number}")
        free(database, lease, attempt_back=True)

    assert taken(database).attempts == 1


def test_a_run_that_ends_while_the_job_works_is_not_lost(database: Database) -> None:
    """Marks say up to where the pass served; what came meanwhile counts toward the next one."""
    add_agent(database)
    lease = taken(database)
    with database.write() as connection:
        connection.execute(update(agents).values(runs_total=agents.c.runs_total + 5))

    decision = free(database, lease, runs_served=lease.work.runs, extraction_pass=None)

    assert decision.next is Kind.EXTRACTION
    assert agent(database)["wake_at_ms"] is not None


def test_a_release_knows_what_was_committed_while_it_waited_for_the_row(
    postgresql_database: Database,
) -> None:
    """Intake counts the fifth run at the moment in which a job ends: the wake-up must not be lost."""
    database = postgresql_database
    add_agent(database)
    lease = taken(database)
    decisions: list[Any] = []

    def end_the_job() -> None:
        decisions.append(free(database, lease, runs_served=lease.work.runs, extraction_pass=None))

    job = threading.Thread(target=end_the_job)
    with database.write() as intake:
        intake.execute(update(agents).values(runs_total=agents.c.runs_total + 5))
        job.start()
        wait_until(lambda: waiting_for_locks(database) == 1)
    job.join()

    assert [decision.next for decision in decisions] == [Kind.EXTRACTION]
    assert agent(database)["wake_at_ms"] is not None


def waiting_for_locks(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar_one())


def test_a_release_sets_when_somebody_must_look_again(database: Database) -> None:
    """Nothing else wakes an agent that goes idle after its job: six hours on, its memory is to be consolidated."""
    with database.read() as connection:
        ended_ms = now_ms(connection) - 1_000
    add_agent(database, last_success_ms=ended_ms)
    lease = taken(database)

    decision = free(database, lease, runs_served=lease.work.runs, extraction_pass=None)

    assert decision.next is None
    assert agent(database)["wake_at_ms"] == ended_ms + POLICY.idle_ms


def test_a_pass_keeps_its_horizon_over_its_slices(database: Database) -> None:
    """Otherwise a busy room would keep one extraction going for ever."""
    add_agent(database, arrivals_total=10)
    first = taken(database)
    with database.write() as connection:
        connection.execute(update(agents).values(arrivals_total=99, runs_total=50))
    free(database, first, attempt_back=True)

    second = taken(database, "two")

    assert second.work == first.work
    assert second.work.upto == 10


def test_every_claim_is_a_job_of_its_own_epoch(database: Database) -> None:
    """The job log shows who worked on an agent when, and that nobody overlapped."""
    add_agent(database)
    for number in range(3):
        taken(database, f"worker-{number}")
        expire(database)

    with database.read() as connection:
        epochs = connection.execute(select(jobs.c.epoch).order_by(jobs.c.epoch)).scalars().all()
    assert list(epochs) == [1, 2, 3]
