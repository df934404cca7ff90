"""An agent goes into one file and comes back exactly, on another server and under another id."""

from __future__ import annotations

import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from takeaways.recall import Recall
from takeaways.schemas.database import Database
from takeaways.schemas.errors import BadInput, NotFound
from takeaways.schemas.events import AgentDeleted
from takeaways.schemas.migrations import migrate
from takeaways.schemas.tables import agents, messages, metadata
from takeaways.workers.intake.erase import erase
from takeaways.workers.memories import curating
from takeaways.workers.memories.archive import export_agent, import_agent
from takeaways.workers.memories.curating import By
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import Pipeline, pipeline

AT = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)


def live(system: Pipeline, *, runs: int = 3) -> None:
    """A few runs with odd text, merged, pinned, recalled and edited; something still unread."""
    for run in range(runs):
        hear(system, run)
        system.flush()
    with Recall(system.database) as recall:
        recall.note("scout", "room-0", "c-1")
    line = system.memory("scout").sections[0].lines[0].id
    curating.pin(system.database, "scout", [line], By("me"))
    hear(system, 99)


def hear(system: Pipeline, run: int) -> None:
    at = AT + timedelta(minutes=run)
    system.producer.run_completed(
        agent_id="scout",
        room=f"room-{run % 2}",
        run_id=f"run-{run}",
        status="succeeded",
        started_at=at,
        ended_at=at,
        messages=[
            {"role": "user", "content": f"Fact {run}:\u2028line\u0085two, 日本 😀.", "time": at.isoformat()}
        ],
    )
    system.take_in()


def rows_of(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Database:
    made = Database.open(f"sqlite:///{tmp_path / 'elsewhere.db'}")
    migrate(made)
    return made


def test_an_agent_is_restored_exactly_on_another_server(
    database: Database, elsewhere: Database, redis_url: str, tmp_path: Path
) -> None:
    """Moving to another database must lose nothing, invent nothing, and go on where it was."""
    before, after = tmp_path / "before.zip", tmp_path / "after.zip"
    with pipeline(database, redis_url, ScriptedModel()) as system:
        live(system)
        export_agent(database, "scout", before)
        there_memory = system.memory("scout")

    import_agent(elsewhere, before)
    export_agent(elsewhere, "scout", after)
    with pipeline(elsewhere, redis_url, ScriptedModel()) as system:
        memory = system.memory("scout")
        unread = system.unread("scout")
        system.flush()
        learned = system.memory("scout").model_dump_json()

    assert rows_of(after) == rows_of(before)
    assert memory.model_dump_json() == there_memory.model_dump_json()
    assert unread == {"run-99#0"}
    assert "Fact 99" in learned
    elsewhere.dispose()


def test_the_archive_can_be_read_by_people(database: Database, redis_url: str, tmp_path: Path) -> None:
    """Markdown for reading, JSON lines for everything else; the same agent gives the same bytes."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        live(system)
        export_agent(database, "scout", tmp_path / "one.zip")
        export_agent(database, "scout", tmp_path / "two.zip")

    found = rows_of(tmp_path / "one.zip")

    assert {"agent.json", "agent-memory/MEMORY.md", "agent-memory/summary.md"} <= set(found)
    assert "agent-memory/session_summaries/room-1.md" in found
    assert "Fact 2" in found["agent-memory/MEMORY.md"].decode()
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_a_copy_stands_beside_its_original(database: Database, redis_url: str, tmp_path: Path) -> None:
    """Trying something out on a copy leaves the original alone, and the two share no row."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        live(system)
        export_agent(database, "scout", tmp_path / "scout.zip")
        import_agent(database, tmp_path / "scout.zip", agent_id="copy")
        curating.add(database, "copy", "Notes", "Only here.", By("me"))
        original, copy = system.memory("scout"), system.memory("copy")

    assert "Only here." not in original.model_dump_json()
    assert "Fact 2" in copy.model_dump_json()


def test_an_agent_that_exists_is_not_overwritten(database: Database, redis_url: str, tmp_path: Path) -> None:
    """An import into the wrong id must not mix two memories, nor leave half of one."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        live(system)
        export_agent(database, "scout", tmp_path / "scout.zip")
        with pytest.raises(BadInput, match="exists here"):
            import_agent(database, tmp_path / "scout.zip")
        erase(database, "scout", AgentDeleted(), policy=system.policy)
        import_agent(database, tmp_path / "scout.zip")
        row = system.agent("scout")
        memory = system.memory("scout")

    assert "Fact 2" in memory.model_dump_json()
    assert row["generation"] == 2


def test_a_file_that_is_no_archive_leaves_nothing_behind(sqlite_database: Database, tmp_path: Path) -> None:
    """A wrong or broken file is named, and the database is as it was."""
    (tmp_path / "not.zip").write_text("hello")
    with zipfile.ZipFile(tmp_path / "broken.zip", "w") as archive:
        archive.writestr("agent.json", '{"format": 1, "agent_id": "scout", "epoch": 1, "agent": {}}')
        archive.writestr("rows/messages.jsonl", '{"room_id": "r"\n')

    for name in ("not.zip", "broken.zip"):
        with pytest.raises(BadInput, match=name):
            import_agent(sqlite_database, tmp_path / name)

    with sqlite_database.read() as connection:
        left = [connection.execute(select(table)).all() for table in (agents, messages)]
    assert left == [[], []]


def test_every_table_of_an_agent_is_exported_or_left_out_on_purpose() -> None:
    """A new table would be missing from archives, and nobody would notice until it is needed."""
    from takeaways.workers.memories.archive import _OWNED, _TABLES

    left_out = {"agents", "kept_answers", "dead_letters", "erasures", "workspaces"}
    of_agents = {table.name for table in metadata.sorted_tables if "agent_id" in table.c}

    assert of_agents - {table.name for table in (*_TABLES, *_OWNED)} - left_out == set()


def test_every_table_of_an_agent_is_emptied_when_it_is_erased(
    sqlite_database: Database, redis_url: str
) -> None:
    """A new table would keep what was erased."""
    kept = {"agents", "erasures", "inbox", "workspaces"}
    with pipeline(sqlite_database, redis_url, ScriptedModel()) as system:
        live(system)
        erase(sqlite_database, "scout", AgentDeleted(), policy=system.policy)
        left = {
            table.name
            for table in metadata.sorted_tables
            if "agent_id" in table.c and any(row["agent_id"] == "scout" for row in system.rows(table))
        }

    assert left <= kept


def test_an_export_that_fails_leaves_the_last_archive_alone(
    sqlite_database: Database, tmp_path: Path
) -> None:
    """A slip in the agent's name must not cost the archive of yesterday."""
    file = tmp_path / "scout.zip"
    file.write_bytes(b"yesterday")

    with pytest.raises(NotFound):
        export_agent(sqlite_database, "scuot", file)

    assert file.read_bytes() == b"yesterday"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []
