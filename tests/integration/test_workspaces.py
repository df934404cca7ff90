"""The registered workspaces of a machine: brought up to date once, or watched; edits by hand; erasure."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeaways.recall.workspaces import Synced, Workspaces
from takeaways.schemas.database import Database
from takeaways.schemas.errors import BadInput
from tests.memories import forget, meet, memory, remember, room, section
from tests.waiting import wait_until

ONE = memory(section("Deploys", "Staging uses port 9443."))
TWO = memory(section("Deploys", "Staging uses port 9500."))


def folder(tmp_path: Path, name: str) -> Path:
    made = tmp_path / name
    made.mkdir()
    return made


def text(workspace: Path) -> str:
    return (workspace / "agent-memory" / "MEMORY.md").read_text()


def outcomes(synced: list[Synced]) -> dict[str, str]:
    return {Path(one.path).name: one.outcome for one in synced}


def change_by_hand(workspace: Path, added: str) -> None:
    file = workspace / "agent-memory" / "MEMORY.md"
    file.chmod(0o644)
    file.write_text(file.read_text() + added)
    file.chmod(0o444)


def test_every_workspace_of_an_agent_shows_its_memory(database: Database, tmp_path: Path) -> None:
    """Many agents, many folders, one call."""
    workspaces = Workspaces(database)
    for agent_id, name in (("a", "a1"), ("a", "a2"), ("b", "b1"), ("newborn", "n1")):
        workspaces.register(agent_id, folder(tmp_path, name))
    remember(database, "a", ONE)
    remember(database, "b", TWO)

    first, second = workspaces.sync(), workspaces.sync()

    assert outcomes(first) == {"a1": "written", "a2": "written", "b1": "written", "n1": "absent"}
    assert outcomes(second) == {"a1": "unchanged", "a2": "unchanged", "b1": "unchanged", "n1": "absent"}
    assert "9443" in text(tmp_path / "a2")
    assert "9500" in text(tmp_path / "b1")
    assert not (tmp_path / "n1" / "agent-memory").exists()


def test_a_machine_writes_its_own_workspaces_only(database: Database, tmp_path: Path) -> None:
    """The same path on another machine is another folder."""
    where = folder(tmp_path, "w")
    Workspaces(database, machine="here").register("a", where)
    remember(database, "a", ONE)

    assert Workspaces(database, machine="there").sync() == []
    assert outcomes(Workspaces(database, machine="here").sync()) == {"w": "written"}


def test_only_what_has_changed_is_looked_into(database: Database, tmp_path: Path) -> None:
    """Ten thousand workspaces at rest cost one query."""
    workspaces = Workspaces(database)
    for agent_id in ("a", "b"):
        workspaces.register(agent_id, folder(tmp_path, agent_id))
        remember(database, agent_id, ONE)
    workspaces.sync()

    assert workspaces.sync(check=False) == []
    remember(database, "b", TWO)

    assert outcomes(workspaces.sync(check=False)) == {"b": "written"}
    assert workspaces.sync(check=False) == []


def test_an_edit_by_hand_is_found_and_told_and_not_taken_over(database: Database, tmp_path: Path) -> None:
    """Nobody's change enters the memory past the rules, and nobody wonders where it went."""
    workspaces = Workspaces(database)
    workspaces.register("a", folder(tmp_path, "w"))
    remember(database, "a", ONE)
    workspaces.sync()
    change_by_hand(tmp_path / "w", "- and a rule of mine\n")

    [found] = workspaces.sync()
    [after] = workspaces.sync()

    assert (found.outcome, found.edited) == ("written", True)
    assert (after.outcome, after.edited) == ("unchanged", False)
    assert "rule of mine" not in text(tmp_path / "w")
    [listed] = workspaces.listed()
    assert listed.edited_ms is not None


def test_an_edit_is_told_from_a_new_revision(database: Database, tmp_path: Path) -> None:
    """A folder that is merely behind was not edited."""
    workspaces = Workspaces(database)
    workspaces.register("a", folder(tmp_path, "w"))
    remember(database, "a", ONE)
    workspaces.sync()

    remember(database, "a", TWO)
    [behind] = workspaces.sync()
    change_by_hand(tmp_path / "w", "x")
    remember(database, "a", ONE)
    [both] = workspaces.sync()

    assert (behind.outcome, behind.edited) == ("written", False)
    assert (both.outcome, both.edited) == ("written", True)


@pytest.mark.parametrize("act", ["remove", "add"])
def test_files_that_come_or_go_by_hand_are_edits_too(
    sqlite_database: Database, tmp_path: Path, act: str
) -> None:
    """The folder is ours as a whole."""
    workspaces = Workspaces(sqlite_database)
    workspaces.register("a", folder(tmp_path, "w"))
    remember(sqlite_database, "a", ONE)
    workspaces.sync()
    ours = tmp_path / "w" / "agent-memory"
    ours.chmod(0o755)
    if act == "remove":
        (ours / "summary.md").unlink()
    else:
        (ours / "mine.md").write_text("x")

    [found] = workspaces.sync()

    assert found.edited
    assert sorted(file.name for file in ours.iterdir()) == ["MEMORY.md", "session_summaries", "summary.md"]


def test_what_an_erased_agent_knew_leaves_every_workspace(database: Database, tmp_path: Path) -> None:
    """Without a check: the erasure itself is what is noticed."""
    workspaces = Workspaces(database)
    for name in ("one", "two"):
        workspaces.register("a", folder(tmp_path, name))
    remember(database, "a", ONE)
    workspaces.sync()

    forget(database, "a")

    assert outcomes(workspaces.sync(check=False)) == {"one": "removed", "two": "removed"}
    assert not list(tmp_path.glob("*/agent-memory"))


def test_a_workspace_that_is_gone_holds_up_no_other(database: Database, tmp_path: Path) -> None:
    """It is reported, and written when it is back."""
    workspaces = Workspaces(database)
    for name in ("one", "two"):
        workspaces.register("a", folder(tmp_path, name))
    remember(database, "a", ONE)
    (tmp_path / "one").rmdir()

    assert outcomes(workspaces.sync()) == {"one": "failed", "two": "written"}
    [gone, _] = workspaces.listed()
    assert gone.outcome == "failed"
    assert "cannot be opened" in (gone.detail or "")
    assert workspaces.sync(check=False) == []

    (tmp_path / "one").mkdir()
    assert outcomes(workspaces.sync()) == {"one": "written", "two": "unchanged"}


def test_a_workspace_belongs_to_one_agent(database: Database, tmp_path: Path) -> None:
    """Two memories in one folder would overwrite each other for ever."""
    workspaces = Workspaces(database)
    where = folder(tmp_path, "w")
    workspaces.register("a", where)

    assert workspaces.register("a", f"{where}/../w").path == str(where)
    with pytest.raises(BadInput, match="unregister it first"):
        workspaces.register("b", where)
    with pytest.raises(BadInput, match="is no folder"):
        workspaces.register("b", tmp_path / "missing")


def test_unregistering_takes_the_folder_away(database: Database, tmp_path: Path) -> None:
    """No stale memory is left for the next agent that works there."""
    workspaces = Workspaces(database)
    where = folder(tmp_path, "w")
    workspaces.register("a", where)
    remember(database, "a", ONE)
    workspaces.sync()

    assert workspaces.unregister(where)
    assert not workspaces.unregister(where)
    assert list(where.iterdir()) == []
    assert workspaces.sync() == []


def test_watching_follows_the_memory(database: Database, tmp_path: Path) -> None:
    """From the first memory over new revisions and edits by hand to the erasure."""
    workspaces = Workspaces(database)
    where = folder(tmp_path, "w")
    meet(database, "a")
    workspaces.register("a", where)
    reported: list[Synced] = []

    with _watched(workspaces, reported):
        remember(database, "a", ONE)
        wait_until(lambda: (where / "agent-memory").exists())
        remember(database, "a", TWO)
        wait_until(lambda: "9500" in text(where))
        wait_until(lambda: reported[-1].revision == 2)
        change_by_hand(where, "x")
        wait_until(lambda: reported[-1].edited)
        forget(database, "a")
        wait_until(lambda: not (where / "agent-memory").exists())

    assert [one.outcome for one in reported] == ["written", "written", "written", "removed"]


@contextmanager
def _watched(workspaces: Workspaces, reported: list[Synced]) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(
        target=workspaces.watch,
        args=(stop,),
        kwargs={"every_seconds": 0.02, "check_seconds": 0.2, "report": reported.append},
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)
    assert not thread.is_alive()


def test_the_commands_keep_workspaces_up_to_date(sqlite_database: Database, tmp_path: Path) -> None:
    """`takeaways workspace add` and `takeaways sync`, as an operator uses them, until SIGTERM."""
    where = folder(tmp_path, "w")
    remember(sqlite_database, "a", ONE)
    room(sqlite_database, "a", "quotes", summary="About quotes.")
    environment = {**os.environ, "TAKEAWAYS_DATABASE_URL": str(sqlite_database.engine.url)}

    def takeaways(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "takeaways.workers.cli", *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    assert takeaways("sync").returncode == 3
    added = takeaways("workspace", "add", "a", str(where))
    assert added.stdout == f"{where}: written (revision 1)\n", added.stderr
    assert (where / "agent-memory" / "session_summaries" / "quotes.md").exists()

    with subprocess.Popen(
        [sys.executable, "-m", "takeaways.workers.cli", "sync", "--watch", "--every", "0.05"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as watching:
        remember(sqlite_database, "a", TWO)
        wait_until(lambda: "9500" in text(where))
        watching.send_signal(signal.SIGTERM)
        out, _ = watching.communicate(timeout=60)
    assert watching.returncode == 0
    assert f"{where}: written (revision 2)" in out

    [shown] = json.loads(takeaways("sync", "--json").stdout)
    assert (shown["outcome"], shown["edited_by_hand"]) == ("unchanged", False)
    removed = takeaways("workspace", "remove", str(where), "--json")
    assert json.loads(removed.stdout) == {"path": str(where), "removed": True}
    assert list(where.iterdir()) == []
