"""`agent-memory/` in a workspace, from real databases."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from takeaways.recall import FolderOutcome, Recall, write_folder
from takeaways.recall.names import file_stem
from takeaways.schemas.database import Database
from takeaways.schemas.errors import BadInput, StoreUnavailable
from tests.memories import NOON_MS, forget, meet, memory, remember, room, section

ONE = memory(section("Deploys", "Staging uses port 9443.", gist="How to deploy."))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    made.mkdir()
    return made


def files(workspace: Path) -> dict[str, str]:
    folder = workspace / "agent-memory"
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*.md")}


def test_a_folder_shows_the_memory_and_what_the_rooms_were_about(database: Database, workspace: Path) -> None:
    """An agent finds the index, the whole memory and each room with the tools it has."""
    remember(database, "a", ONE)
    room(database, "a", "standup", summary="We talked.", title="Daily standup")
    room(database, "a", "Sales/EMEA", summary="Quotes.")

    written = write_folder(database, "a", workspace)

    assert (written.outcome, written.revision, written.folder) == ("written", 1, workspace / "agent-memory")
    found = files(workspace)
    assert set(found) == {
        "MEMORY.md",
        "summary.md",
        "session_summaries/standup.md",
        f"session_summaries/{file_stem('Sales/EMEA')}.md",
    }
    assert found["MEMORY.md"] == "# Memory\n\n## Deploys\n\nHow to deploy.\n\n- Staging uses port 9443.\n"
    assert found["session_summaries/standup.md"].startswith(
        "# Daily standup\n\nRoom standup, last active 2026"
    )
    note = Recall(database, timeout_seconds=20).note("a", "standup", "c").text
    assert note is not None
    assert found["summary.md"] in note


def test_a_folder_is_written_again_only_when_something_changed(database: Database, workspace: Path) -> None:
    """Watching thousands of workspaces writes to the few that changed."""
    remember(database, "a", ONE)
    room(database, "a", "r", summary="Then.")
    write_folder(database, "a", workspace)
    before = (workspace / "agent-memory").stat()

    assert write_folder(database, "a", workspace).outcome is FolderOutcome.UNCHANGED
    assert (workspace / "agent-memory").stat().st_ino == before.st_ino
    room(database, "a", "r", summary="Now.")
    assert write_folder(database, "a", workspace).outcome is FolderOutcome.WRITTEN
    assert "Now." in files(workspace)["session_summaries/r.md"]


def test_there_is_no_folder_before_the_first_memory_and_none_after_an_erasure(
    database: Database, workspace: Path
) -> None:
    """An agent is born empty, and what was erased is gone from the disk too."""
    meet(database, "a")
    room(database, "a", "r", summary="Extracted, not yet consolidated.")

    assert write_folder(database, "a", workspace).outcome is FolderOutcome.ABSENT
    assert list(workspace.iterdir()) == []
    remember(database, "a", ONE)
    assert write_folder(database, "a", workspace).outcome is FolderOutcome.WRITTEN
    forget(database, "a")
    removed = write_folder(database, "a", workspace)

    assert (removed.outcome, removed.revision) == (FolderOutcome.REMOVED, 0)
    assert list(workspace.iterdir()) == []


def test_an_erasure_while_the_folder_is_written_leaves_no_folder(database: Database, workspace: Path) -> None:
    """A writer that read the memory just before it was erased does not leave it behind."""
    remember(database, "a", ONE)
    composing, erased = threading.Event(), threading.Event()

    def slow_count(of: str) -> int:
        composing.set()
        erased.wait(20)
        return len(of) // 4

    writing = threading.Thread(target=lambda: write_folder(database, "a", workspace, count=slow_count))
    writing.start()
    composing.wait(20)
    forget(database, "a")
    erased.set()
    writing.join()

    assert list(workspace.iterdir()) == []


def test_a_database_that_does_not_answer_leaves_the_folder_as_it_was(
    sqlite_database: Database, workspace: Path, tmp_path: Path
) -> None:
    """An outage is no reason to take an agent's memory away."""
    remember(sqlite_database, "a", ONE)
    write_folder(sqlite_database, "a", workspace)
    before = files(workspace)
    empty = Database.open(f"sqlite:///{tmp_path}/empty.db")

    with pytest.raises(StoreUnavailable):
        write_folder(empty, "a", workspace)
    empty.dispose()

    assert files(workspace) == before


def test_a_bad_agent_id_is_refused(sqlite_database: Database, workspace: Path) -> None:
    """The id of no agent writes nothing anywhere."""
    with pytest.raises(BadInput, match="agent_id"):
        write_folder(sqlite_database, "../\n", workspace)


def test_only_the_latest_rooms_have_a_file(sqlite_database: Database, workspace: Path) -> None:
    """The folder does not grow with the years."""
    remember(sqlite_database, "a", ONE)
    for number in range(35):
        room(sqlite_database, "a", f"r{number:02}", summary="x", last_activity_ms=NOON_MS + number)

    write_folder(sqlite_database, "a", workspace)

    rooms = sorted(file.stem for file in (workspace / "agent-memory" / "session_summaries").iterdir())
    assert rooms == [f"r{number:02}" for number in range(5, 35)]


READER = """
import os, sys
print("reading", flush=True)
numbers = set()
while "49" not in numbers:
    try:
        folder = os.open(os.path.join(sys.argv[1], "agent-memory"), os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        print("ABSENT", flush=True)
        break
    try:
        texts = []
        for name in ("summary.md", "MEMORY.md"):
            with open(os.open(name, os.O_RDONLY, dir_fd=folder)) as file:
                texts.append(file.read())
    except FileNotFoundError:
        continue
    finally:
        os.close(folder)
    found = [{word[1:] for word in text.split() if word.startswith("v")} for text in texts]
    if len(found[0] | found[1]) != 1:
        print("MIX", found, flush=True)
        break
    numbers |= found[0]
print("seen", len(numbers), flush=True)
"""


def test_a_reader_sees_whole_revisions_while_many_are_written(
    sqlite_database: Database, workspace: Path
) -> None:
    """The index and the memory that an agent reads are always of the same revision."""

    def content(number: int) -> None:
        remember(sqlite_database, "a", memory(section("T", *(f"v{number} {place}" for place in range(50)))))
        write_folder(sqlite_database, "a", workspace)

    content(0)
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(workspace)], stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reading\n"
        for number in range(1, 50):
            content(number)
        said = reader.stdout.read().split()

    assert said[0] == "seen"
    assert int(said[1]) > 1


WRITER = """
import sys
from takeaways.recall import write_folder
from takeaways.schemas.database import Database
database = Database.open(sys.argv[1])
while write_folder(database, "a", sys.argv[2]).revision < int(sys.argv[3]):
    pass
database.dispose()
"""


def test_several_writers_leave_the_newest_revision(sqlite_database: Database, workspace: Path) -> None:
    """Two watchers of one workspace never leave an older memory on top of a newer one."""
    remember(sqlite_database, "a", ONE)
    url = str(sqlite_database.engine.url)
    program = [sys.executable, "-W", "error", "-c", WRITER, url, str(workspace), "60"]
    writers = [subprocess.Popen(program) for _ in range(2)]
    for number in range(2, 61):
        remember(sqlite_database, "a", memory(section("Deploys", f"This is revision {number}.")))

    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert "This is revision 60." in files(workspace)["MEMORY.md"]
    assert [path.name for path in workspace.iterdir()] == ["agent-memory"]
