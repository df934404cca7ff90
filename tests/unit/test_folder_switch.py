"""Replacing a folder at once: after any crash, under any plant, old or new and whole."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from takeaways.recall import switch
from takeaways.recall.switch import NAME, SESSIONS, FolderNotWritten
from takeaways.schemas.errors import BadInput

OLD = {"MEMORY.md": b"# Memory\n\n## Deploy\n\n- Staging uses port 9443.\n", "summary.md": b"old\n"}
NEW = {
    "MEMORY.md": b"# Memory\n" + b"- new\n" * 5_000,
    "summary.md": b"new\n",
    f"{SESSIONS}/r1.md": b"# r1\n",
}


def put(workspace: Path, files: switch.Files, exchange: switch.Exchange | None = None) -> None:
    with switch.opened(workspace) as place:
        switch.replace(place, files, exchange=exchange)


def contents(workspace: Path) -> dict[str, bytes] | None:
    """What a reader finds; None where there is no folder."""
    folder = workspace / NAME
    if not folder.exists():
        return None
    return {
        str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if not file.is_dir()
    }


def cannot_exchange(_place: int, _one: str, _other: str) -> bool:
    """A file system without RENAME_EXCHANGE."""
    return False


# The children make system calls and exit; they touch nothing that a thread of the parent may hold.
forks = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
both_ways = pytest.mark.parametrize("exchange", [None, cannot_exchange], ids=["exchange", "two renames"])


@both_ways
def test_the_folder_is_real_read_only_and_alone(tmp_path: Path, exchange: switch.Exchange | None) -> None:
    """Search tools find the files, agents cannot edit them, and nothing else is left in the workspace."""
    put(tmp_path, OLD, exchange)
    put(tmp_path, NEW, exchange)

    folder = tmp_path / NAME
    assert contents(tmp_path) == NEW
    assert not folder.is_symlink()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / SESSIONS)] == [0o555, 0o555]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*.md")} == {0o444}
    assert os.listdir(tmp_path) == [NAME]  # noqa: PTH208 - names only


def test_only_exactly_what_was_written_counts_as_there(tmp_path: Path) -> None:
    """A file found damaged or edited is written again, not trusted (ST-02)."""
    damages: list[Callable[[Path], object]] = [
        lambda folder: (folder / "MEMORY.md").write_bytes(b"\0" * 300),
        lambda folder: (folder / "MEMORY.md").write_bytes(b""),
        lambda folder: (folder / "summary.md").write_bytes(b"odl\n"),
        lambda folder: (folder / "summary.md").unlink(),
        lambda folder: (folder / "notes.md").write_bytes(b"mine"),
        lambda folder: (folder / "summary.md").chmod(0o644),
        lambda folder: (folder / SESSIONS).rmdir(),
        lambda folder: folder.chmod(0o755),
    ]
    for damage in damages:
        put(tmp_path, OLD)
        with switch.opened(tmp_path) as place:
            assert switch.holds(place, OLD)
        folder = tmp_path / NAME
        folder.chmod(0o755)
        for file in folder.glob("*.md"):
            file.chmod(0o644)
        damage(folder)
        for file in folder.glob("*.md"):
            file.chmod(0o444 if damage is not damages[5] else 0o644)
        if damage is not damages[7]:
            folder.chmod(0o555)

        with switch.opened(tmp_path) as place:
            assert not switch.holds(place, OLD)
            switch.replace(place, OLD)
            assert switch.holds(place, OLD)


# --- crashes and full disks ---------------------------------------------------------------------


Profiler = Callable[[FrameType, str, Any], None]


def _around_system_call(number: int, act: Callable[[str], None]) -> tuple[Profiler, list[int]]:
    """A profiler that acts before or after one of the system calls; the list counts how many there were."""
    made = [0]

    def profile(_frame: FrameType, what: str, function: Any) -> None:
        if what in ("c_call", "c_return") and getattr(function, "__module__", "") in ("posix", "fcntl"):
            # A descriptor is closed even where closing it fails, which a profiler cannot act out.
            if function.__name__ == "close":
                return
            made[0] += 1
            if made[0] == number:
                act(what)

    return profile, made


def _in_a_child(work: Callable[[], None]) -> int:
    """Run `work` in a fork and return its exit code."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@forks
@both_ways
def test_a_crash_at_any_point_leaves_the_old_version_or_the_new_one(
    tmp_path: Path, exchange: switch.Exchange | None
) -> None:
    """A writer killed before or after any of its system calls never leaves half a memory (ST-02)."""
    put(tmp_path, OLD)
    seen: set[str] = set()
    number = 0
    code = 9
    while code == 9:
        number += 1

        def crash(number: int = number) -> None:
            sys.setprofile(_around_system_call(number, lambda _: os._exit(9))[0])
            put(tmp_path, NEW, exchange)

        code = _in_a_child(crash)
        found = contents(tmp_path)
        seen.add("old" if found == OLD else "new" if found == NEW else "absent" if found is None else "mixed")
        put(tmp_path, OLD)
        assert contents(tmp_path) == OLD
        assert os.listdir(tmp_path) == [NAME]  # noqa: PTH208 - what the crash left is gone

    assert code == 0
    assert number > 40
    # Without an exchange there is an instant between two renames, and the next write ends it.
    assert seen == ({"old", "new", "absent"} if exchange else {"old", "new"})


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EACCES])
def test_a_failing_disk_leaves_the_old_version_and_says_so(tmp_path: Path, code: int) -> None:
    """Whichever system call fails, readers keep what they had, and the next write works (ST-02)."""
    put(tmp_path, OLD)
    said: set[str] = set()
    for number in range(1, 400):

        def fail(what: str) -> None:
            if what == "c_call":
                raise OSError(code, os.strerror(code))

        profile, made = _around_system_call(number, fail)
        sys.setprofile(profile)
        try:
            put(tmp_path, NEW)
        except (FolderNotWritten, BadInput) as error:
            said.add(str(error))
        finally:
            sys.setprofile(None)
        assert contents(tmp_path) in (OLD, NEW)
        put(tmp_path, OLD)
        if made[0] < number:
            break

    assert said
    assert all(os.strerror(code) in text for text in said)


@forks
def test_a_disk_that_fills_in_the_middle_of_a_file_leaves_the_old_version(tmp_path: Path) -> None:
    """Half a file is never shown (ST-02)."""
    put(tmp_path, OLD)

    def write() -> None:
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
        try:
            put(tmp_path, NEW)
        except FolderNotWritten:
            os._exit(7)

    assert _in_a_child(write) == 7
    assert contents(tmp_path) == OLD
    assert os.listdir(tmp_path) == [NAME]  # noqa: PTH208 - names only


# --- plants -------------------------------------------------------------------------------------


def _symlink(target: Path) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _hard_link(target: Path) -> Callable[[Path], None]:
    return lambda path: path.hardlink_to(target)


@both_ways
@pytest.mark.parametrize("where", [NAME, f"{NAME}/MEMORY.md", f"{NAME}/{SESSIONS}", f"{NAME}/notes.md"])
@pytest.mark.parametrize(
    "what", ["symlink to a file", "symlink to a folder", "dangling symlink", "fifo", "hard link"]
)
def test_planted_links_and_pipes_are_replaced_and_never_followed(
    tmp_path: Path, where: str, what: str, exchange: switch.Exchange | None
) -> None:
    """An agent that plants a link cannot make us write, delete or show anything elsewhere (SE-06)."""
    workspace, elsewhere = tmp_path / "workspace", tmp_path / "elsewhere"
    workspace.mkdir()
    elsewhere.mkdir()
    victim = elsewhere / "victim.md"
    victim.write_bytes(b"victim")
    plant = {
        "symlink to a file": _symlink(victim),
        "symlink to a folder": _symlink(elsewhere),
        "dangling symlink": _symlink(tmp_path / "nowhere"),
        "fifo": lambda path: os.mkfifo(path),
        "hard link": _hard_link(victim),
    }[what]
    if where != NAME:
        put(workspace, OLD)
        (workspace / NAME).chmod(0o755)
    path = workspace / where
    if path.is_dir():
        path.chmod(0o755)
        path.rmdir()
    path.unlink(missing_ok=True)
    plant(path)

    with switch.opened(workspace) as place:
        assert not switch.holds(place, OLD)
        if (what, where) == ("hard link", NAME):
            with pytest.raises(BadInput, match="not made by Takeaways"):
                switch.replace(place, NEW, exchange=exchange)
        else:
            switch.replace(place, NEW, exchange=exchange)
            assert switch.holds(place, NEW)

    assert victim.read_bytes() == b"victim"
    assert victim.stat().st_nlink == (2 if (what, where) == ("hard link", NAME) else 1)
    assert os.listdir(elsewhere) == ["victim.md"]  # noqa: PTH208 - names only
    assert not (tmp_path / "nowhere").exists()


def test_a_workspace_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """`agents/agent-a -> elsewhere` does not lead us there (SE-06)."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "agent-a").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(BadInput, match="not a link to one"):
        put(tmp_path / "agent-a", NEW)

    assert not any((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("missing", ["missing", "file"])
def test_a_workspace_must_be_there(tmp_path: Path, missing: str) -> None:
    """A mistyped path is said, not made."""
    (tmp_path / "file").touch()

    with pytest.raises(BadInput, match="cannot be opened as a folder"):
        put(tmp_path / missing, NEW)


def test_leftovers_that_are_links_are_unlinked_not_followed(tmp_path: Path) -> None:
    """A name that looks like our temporary folder leads nowhere."""
    victim = tmp_path / "elsewhere"
    victim.mkdir()
    (victim / "keep").touch()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / f".{NAME}.{'0' * 32}").symlink_to(victim)

    put(workspace, NEW)

    assert os.listdir(workspace) == [NAME]  # noqa: PTH208 - names only
    assert (victim / "keep").exists()


@pytest.mark.parametrize("entry", ["MEMORY.md", "thesis.tex"])
def test_somebody_elses_folder_is_left_alone(tmp_path: Path, entry: str) -> None:
    """A folder of that name which a person filled is not ours to delete."""
    (tmp_path / NAME).mkdir()
    (tmp_path / NAME / entry).write_text("mine")

    with pytest.raises(BadInput, match="move it away"):
        put(tmp_path, NEW)
    with switch.opened(tmp_path) as place:
        assert not switch.remove(place)

    assert (tmp_path / NAME / entry).read_text() == "mine"


# --- several writers and readers ----------------------------------------------------------------


def test_writers_take_turns_and_none_waits_for_ever(tmp_path: Path) -> None:
    """A process that keeps the lock delays the memory, and an error says so."""
    with (
        switch.opened(tmp_path),
        pytest.raises(FolderNotWritten, match="locked"),
        switch.opened(tmp_path, lock_seconds=0.05),
    ):
        pass

    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    waiting = threading.Timer(0.1, os.close, (descriptor,))
    waiting.start()
    put(tmp_path, NEW)
    waiting.join()
    assert contents(tmp_path) == NEW


READER = """
import os, sys
workspace = sys.argv[1]
flags = os.O_RDONLY | os.O_DIRECTORY
print("reading", flush=True)
seen = set()
while True:
    try:
        folder = os.open(os.path.join(workspace, "agent-memory"), flags)
    except FileNotFoundError:
        print("ABSENT", flush=True)
        continue
    try:
        texts = []
        for name in ("MEMORY.md", "summary.md", "session_summaries/r1.md"):
            file = os.open(name, os.O_RDONLY, dir_fd=folder)
            texts.append(os.read(file, 1 << 20))
            os.close(file)
    except FileNotFoundError:
        continue  # this version was replaced while it was read
    finally:
        os.close(folder)
    numbers = {number for text in texts for number in text.split()}
    if len(numbers) != 1 or not all(text.endswith(b"\\n") for text in texts):
        print("MIX", numbers, flush=True)
    seen |= numbers
    if b"last" in numbers:
        print("seen", len(seen), flush=True)
        break
"""


def test_a_reader_never_sees_two_versions_at_once(tmp_path: Path) -> None:
    """An agent that reads while the memory is renewed 200 times sees whole revisions only."""

    def version(word: str) -> dict[str, bytes]:
        text = f"{word} ".encode() * 500 + b"\n"
        return {"MEMORY.md": text, "summary.md": text, f"{SESSIONS}/r1.md": text}

    put(tmp_path, version("first"))
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reading\n"
        for number in range(200):
            put(tmp_path, version(f"v{number}"))
        put(tmp_path, version("last"))
        said = reader.stdout.read().split()

    assert said[0] == "seen"
    assert int(said[1]) > 1
    assert os.listdir(tmp_path) == [NAME]  # noqa: PTH208 - names only
