"""Replacing a whole folder at once, in a place where anybody may have planted anything.

The new folder is written in full beside the old one, forced to disk, and exchanged with it in one
step (`renameat2` with RENAME_EXCHANGE). So `agent-memory/` is a real folder that search tools descend
into (they do not follow symbolic links), readers see the old version or the new one, and after a crash
one of them is there, whole. A file system that cannot exchange (NFS, some FUSE) gets two renames: there
the folder is absent for an instant, and a crash in it leaves it absent until the next write.

Every name is opened relative to its folder's descriptor and without following links.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import functools
import hashlib
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

from takeaways.schemas.errors import BadInput, Transient

NAME: Final = "agent-memory"
SESSIONS: Final = "session_summaries"
LOCK_SECONDS: Final = 10.0

Files = Mapping[str, bytes]
"""Contents by name: `MEMORY.md`, or `session_summaries/room.md`."""

Exchange = Callable[[int, str, str], bool]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LEFTOVER = re.compile(rf"\.{NAME}\.[0-9a-f]{{32}}")
_RENAME_EXCHANGE: Final = 2
_NO_FOLDER: Final = (errno.ENOTDIR, errno.ELOOP)
_MOST_READ: Final = 64 * 1024 * 1024
_log = logging.getLogger(__name__)


class FolderNotWritten(Transient):
    """The folder could not be written now. What stood there before still stands there, whole."""


@contextmanager
def opened(workspace: Path, *, lock_seconds: float = LOCK_SECONDS) -> Iterator[int]:
    """Open a workspace for one writer and remove what crashed writers left. Yields its descriptor."""
    try:
        place = os.open(workspace, _FOLDER)
    except OSError as error:
        raise BadInput(
            f"{workspace} cannot be opened as a folder ({error.strerror}); "
            "name a folder that exists, not a link to one"
        ) from error
    try:
        _lock(place, workspace, lock_seconds)
        for name in _names(place):
            if _LEFTOVER.fullmatch(name):
                _clear_if_possible(name, place)
        yield place
    except OSError as error:
        raise FolderNotWritten(
            f"{workspace / NAME} could not be written: {error.strerror or error}"
        ) from error
    finally:
        os.close(place)


def holds(place: int, files: Files) -> bool:
    """Whether the folder is exactly what `replace` would make of `files`; anything odd makes it another."""
    try:
        with (
            _descriptor(os.open(NAME, _FOLDER, dir_fd=place)) as folder,
            _descriptor(os.open(SESSIONS, _FOLDER, dir_fd=folder)) as sessions,
        ):
            found = {name for name in _names(folder) if name != SESSIONS}
            found |= {f"{SESSIONS}/{name}" for name in _names(sessions)}
            return (
                found == set(files)
                and all(_mode(descriptor) == 0o555 for descriptor in (folder, sessions))
                and all(_content(name, folder, sessions, len(files[name])) == files[name] for name in found)
            )
    except OSError:
        return False


def hash_of(files: Files) -> str:
    """A hash of files by name and content; "" for none."""
    if not files:
        return ""
    found = hashlib.sha256()
    for name, content in sorted(files.items()):
        found.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        found.update(content)
    return found.hexdigest()


def hash_on_disk(place: int) -> str:
    """`hash_of` the folder as it is: "" where there is none, "odd" where something is in it that we never write."""
    try:
        folder_descriptor = os.open(NAME, _FOLDER, dir_fd=place)
    except FileNotFoundError:
        return ""
    except OSError:
        return "odd"
    files: dict[str, bytes] = {}
    try:
        with (
            _descriptor(folder_descriptor) as folder,
            _descriptor(os.open(SESSIONS, _FOLDER, dir_fd=folder)) as sessions,
        ):
            for name in _names(folder):
                if name != SESSIONS:
                    files[name] = _any_content(name, folder)
            for name in _names(sessions):
                files[f"{SESSIONS}/{name}"] = _any_content(name, sessions)
    except OSError:
        return "odd"
    return hash_of(files)


def replace(place: int, files: Files, *, exchange: Exchange | None = None) -> None:
    """Put `files` in place of what the folder was. Raises `BadInput` where somebody else's folder stands."""
    _refuse_foreign(place)
    fresh = f".{NAME}.{secrets.token_hex(16)}"
    try:
        _write(fresh, place, files)
        _switch(fresh, place, exchange or _exchanged)
        os.fsync(place)
    finally:
        # What was replaced, or what could not be put in place.
        _clear_if_possible(fresh, place)


def remove(place: int) -> bool:
    """Take the folder away, if it is there and ours; return whether it was."""
    if not _is_ours(place):
        return False
    stale = f".{NAME}.{secrets.token_hex(16)}"
    os.rename(NAME, stale, src_dir_fd=place, dst_dir_fd=place)
    os.fsync(place)
    _clear(stale, place)
    return True


def _lock(place: int, workspace: Path, seconds: float) -> None:
    """One writer at a time. The lock is on the workspace itself, so there is no file to plant or to leave."""
    give_up_at = time.monotonic() + seconds
    while True:
        try:
            return fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                raise FolderNotWritten(
                    f"another process has kept {workspace} locked for {seconds:g} s"
                ) from None
            time.sleep(0.01)
        except OSError:
            return None  # this file system has no locks for folders; each write is whole all the same


def _write(fresh: str, place: int, files: Files) -> None:
    os.mkdir(fresh, 0o700, dir_fd=place)
    with _descriptor(os.open(fresh, _FOLDER, dir_fd=place)) as folder:
        os.mkdir(SESSIONS, 0o700, dir_fd=folder)
        with _descriptor(os.open(SESSIONS, _FOLDER, dir_fd=folder)) as sessions:
            for name, content in sorted(files.items()):
                _write_file(*_located(name, folder, sessions), content)
            for descriptor in (sessions, folder):
                os.fchmod(descriptor, 0o555)
                os.fsync(descriptor)


def _write_file(name: str, folder: int, content: bytes) -> None:
    with _descriptor(os.open(name, _NEW_FILE, 0o600, dir_fd=folder)) as file:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(file, rest) :]
        os.fchmod(file, 0o444)
        os.fsync(file)


def _switch(fresh: str, place: int, exchange: Exchange) -> None:
    if not _exists(NAME, place):
        os.rename(fresh, NAME, src_dir_fd=place, dst_dir_fd=place)
    elif not exchange(place, fresh, NAME):
        stale = f".{NAME}.{secrets.token_hex(16)}"
        os.rename(NAME, stale, src_dir_fd=place, dst_dir_fd=place)
        try:
            os.rename(fresh, NAME, src_dir_fd=place, dst_dir_fd=place)
        except OSError:
            os.rename(stale, NAME, src_dir_fd=place, dst_dir_fd=place)
            raise
        _clear_if_possible(stale, place)


def _exchanged(place: int, one: str, other: str) -> bool:
    """Exchange two names in one step; False where the system cannot."""
    rename = _renameat2()
    if rename is None:
        return False
    if rename(place, os.fsencode(one), place, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code))


@functools.cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """The C library's own; Python has none."""
    try:
        found = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    found.restype = ctypes.c_int
    return cast("Callable[[int, bytes, int, bytes, int], int]", found)


def _refuse_foreign(place: int) -> None:
    """A folder that somebody filled and that never was ours is not ours to delete."""
    if _exists(NAME, place) and not _is_ours(place):
        kind = os.stat(NAME, dir_fd=place, follow_symlinks=False).st_mode
        if stat.S_ISDIR(kind) or stat.S_ISREG(kind):
            raise BadInput(f"{NAME} is there already and was not made by Takeaways; move it away")


def _is_ours(place: int) -> bool:
    """Ours is a folder that is empty, read-only or laid out like ours, even where something is missing."""
    try:
        with _descriptor(os.open(NAME, _FOLDER, dir_fd=place)) as folder:
            names = _names(folder)
            if not names or not _mode(folder) & 0o222:
                return True
            return SESSIONS in names or {"MEMORY.md", "summary.md"} <= set(names)
    except OSError as error:
        if error.errno not in (*_NO_FOLDER, errno.ENOENT):
            raise
        return False


def _clear_if_possible(name: str, place: int) -> None:
    """What cannot be removed now is tried again by the next writer."""
    try:
        _clear(name, place)
    except (OSError, RecursionError) as error:
        _log.warning("a replaced folder is still there and will be removed later: %s", error)


def _clear(name: str, place: int) -> None:
    """Remove `name` and, if it is a folder, all that is in it."""
    try:
        descriptor = os.open(name, _FOLDER, dir_fd=place)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in _NO_FOLDER:
            raise
        os.unlink(name, dir_fd=place)
        return
    with _descriptor(descriptor) as folder:
        with contextlib.suppress(PermissionError):  # another user's folder, empty perhaps
            os.fchmod(folder, 0o700)
        for entry in _names(folder):
            _clear(entry, folder)
    os.rmdir(name, dir_fd=place)


def _content(name: str, folder: int, sessions: int, size: int) -> bytes | None:
    """The bytes of a file of ours; None for a link, a pipe, a file with a second name or of another size."""
    leaf, where = _located(name, folder, sessions)
    with _descriptor(os.open(leaf, _FILE, dir_fd=where)) as file:
        facts = os.fstat(file)
        if (
            not stat.S_ISREG(facts.st_mode)
            or facts.st_nlink != 1
            or facts.st_size != size
            or _mode(file) != 0o444
        ):
            return None
        return os.read(file, size + 1)


def _any_content(name: str, where: int) -> bytes:
    with _descriptor(os.open(name, _FILE, dir_fd=where)) as file:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _MOST_READ:
            raise OSError(errno.EFBIG, "not a file of ours")
        return os.read(file, facts.st_size + 1)


def _located(name: str, folder: int, sessions: int) -> tuple[str, int]:
    if name.startswith(f"{SESSIONS}/"):
        return name.removeprefix(f"{SESSIONS}/"), sessions
    return name, folder


def _names(folder: int) -> list[str]:
    return os.listdir(folder)


def _mode(descriptor: int) -> int:
    return stat.S_IMODE(os.fstat(descriptor).st_mode)


def _exists(name: str, place: int) -> bool:
    try:
        os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def _descriptor(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
