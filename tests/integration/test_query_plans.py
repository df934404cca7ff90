"""No statement of the hot path reads a table from one end to the other, however many agents there are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import event

from takeaways.recall import Recall
from takeaways.recall.standing import StandingNotes
from takeaways.recall.workspaces import Workspaces
from takeaways.schemas.database import Database
from takeaways.schemas.queues import FIELD, RUNS_STREAM, Kind
from takeaways.schemas.tables import metadata
from takeaways.workers.bootstrap import connect
from takeaways.workers.erasure import erasing
from takeaways.workers.intake.retention import drop_old_event_ids, drop_old_texts
from takeaways.workers.jobs import kept_answers
from takeaways.workers.jobs.run import run_job
from takeaways.workers.leases import Claimed, Heartbeat, claim
from takeaways.workers.metrics.standing import read_database
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.sweep import redecide, sweep_once
from takeaways.workers.testing import ScriptedModel
from tests.filler import fill
from tests.pipeline import NoHints, Pipeline, pipeline

# One row, and the answers that crashed jobs left behind.
SMALL = {"system", "kept_answers"}
# These hold only what something is the matter with, and are there to be counted.
COUNTED = {
    "ix_agents_due",
    "ix_agents_held",
    "ix_agents_leased",
    "ix_dead_letters_open",
    "ix_quarantines_open",
}
BRIEF = Policy(lease_seconds=0.2)
_EXPLAINED = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


@contextmanager
def noted(database: Database) -> Iterator[dict[str, Any]]:
    """Each different statement that is sent meanwhile, with the parameters of its first time."""
    found: dict[str, Any] = {}

    def sent(
        _connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool
    ) -> None:
        if statement.lstrip().upper().startswith(_EXPLAINED):
            found.setdefault(statement, parameters[0] if isinstance(parameters, list) else parameters)

    event.listen(database.engine, "before_cursor_execute", sent)
    try:
        yield found
    finally:
        event.remove(database.engine, "before_cursor_execute", sent)


def whole_reads(plan: dict[str, Any], *, limited: bool = False) -> Iterator[str]:
    """The nodes of a plan that read a table, or an index of all its rows, from one end to the other."""
    table, index = plan.get("Relation Name"), plan.get("Index Name")
    if plan["Node Type"] == "Seq Scan" and table not in SMALL:
        yield f"{table} is scanned"
    # The first rows of an index cost nothing, unless they are looked through for some that are not there.
    few = index in COUNTED or (limited and "Filter" not in plan)
    if index is not None and "Index Cond" not in plan and not few:
        yield f"all of {index} is read"
    for child in plan.get("Plans", ()):
        yield from whole_reads(child, limited=plan["Node Type"] == "Limit")


def everything(system: Pipeline, folder: Path) -> None:
    """What a deployment does all day, once."""
    database, redis_url = system.database, system.redis_url
    for number in range(5):
        system.producer.run_completed(
            agent_id="scout",
            room="kitchen",
            run_id=f"run-{number}",
            user_id="ada",
            messages=[{"role": "user", "content": f"Staging uses port 944{number}."}],
        )
    system.producer.room_compacted(agent_id="scout", room="kitchen", conversation="c1", compaction=1)
    system.producer.message_edited(
        agent_id="scout", room="kitchen", message_id="run-0#0", revision=1,
        message={"role": "user", "content": "Staging uses port 9443."},
    )  # fmt: skip
    with connect(redis_url) as client:
        client.xadd(RUNS_STREAM, {FIELD: "no JSON"})
    system.take_in()
    sweep_once(database, NoHints(), policy=system.policy, kinds=tuple(Kind))
    redecide(database, policy=system.policy, limit=50)
    taken = claim(database, "scout", Kind.EXTRACTION, owner="gone", job_id="gone", policy=BRIEF)
    assert isinstance(taken, Claimed)
    heartbeat = Heartbeat(database, lease_seconds=BRIEF.lease_seconds)
    with heartbeat.watch(taken.lease, deadline_seconds=60):
        heartbeat.beat()
    heartbeat.stop()
    for kind in (Kind.EXTRACTION, Kind.CONSOLIDATION):
        run_job(kind, "scout", system.services)
    system.flush(["scout"])
    with Recall(database) as recall:
        recall.note("scout", "kitchen", "c1")
        recall.read_memory("scout")
        recall.search_memory("scout", "staging")
        recall.is_ours("scout", "nothing")
    notes = StandingNotes(database, memory=True, user=True)
    notes.call(
        {"action": "add", "content": "Deploys are on Fridays."},
        agent_id="scout", user_id="ada", call_id="1", turn_id="1",
    )  # fmt: skip
    notes.snapshot("scout", "kitchen", "c1", user_id="ada")
    workspaces = Workspaces(database)
    workspaces.register("scout", folder)
    workspaces.sync()
    workspaces.sync(check=False)
    workspaces.unregister(folder)
    read_database(database)
    drop_old_event_ids(database, keep_days=0)
    drop_old_texts(database, keep_days=0, quotes=False)
    kept_answers.drop_old(database)
    system.producer.person_deleted(agent_id="scout", person_id="ada")
    system.producer.room_deleted(agent_id="scout", room="kitchen")
    system.producer.agent_deleted(agent_id="scout")
    system.take_in()
    with connect(redis_url) as client:
        erasing.go_on(database, client)


def test_no_statement_of_the_hot_path_scans_a_table(
    postgresql_database: Database, redis_url: str, tmp_path: Path
) -> None:
    """What one agent costs must not grow with the number of agents, nor with how long the service has run."""
    database = postgresql_database
    with database.write() as connection:
        fill(connection)

    with pipeline(database, redis_url, ScriptedModel()) as system, noted(database) as statements:
        everything(system, tmp_path)

    found = {}
    with database.engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        for statement, parameters in statements.items():
            explained = driver.execute(f"EXPLAIN (FORMAT JSON) {statement}", parameters).fetchone()[0]
            plan = json.loads(explained) if isinstance(explained, str) else explained
            if reads := sorted(set(whole_reads(plan[0]["Plan"]))):
                found[statement] = reads
    assert len(statements) > 100
    assert not found, "\n\n".join(f"{reads}\n{statement}" for statement, reads in found.items())


def test_no_statement_scans_a_table_on_sqlite_either(
    sqlite_database: Database, redis_url: str, tmp_path: Path
) -> None:
    """The default database is a file, and holds the memory of many agents too."""
    database = sqlite_database

    with pipeline(database, redis_url, ScriptedModel()) as system, noted(database) as statements:
        everything(system, tmp_path)

    found = {}
    with database.engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        for statement, parameters in statements.items():
            steps = [step[3] for step in driver.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
            if reads := [step for step in steps if is_whole_read(step)]:
                found[statement] = reads
    assert len(statements) > 100
    assert not found, "\n\n".join(f"{reads}\n{statement}" for statement, reads in found.items())


def is_whole_read(step: str) -> bool:
    """Whether a step of SQLite's plan reads a table from one end to the other."""
    words = step.split()
    # In statements about many rows a table is called t.
    if words[0] != "SCAN" or words[1] not in {"t", *metadata.tables} - SMALL:
        return False
    return words[-1] not in COUNTED
