"""Files and folders become rooms."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Final

from takeaways.schemas.errors import BadInput
from takeaways.schemas.ids import derived, why_bad
from takeaways.workers.importing.finish import finished
from takeaways.workers.importing.problems import Problem, Report, Reporter
from takeaways.workers.importing.records import LINES, Record, records_of
from takeaways.workers.importing.rooms import ImportedRoom
from takeaways.workers.importing.shape import Context, Shape
from takeaways.workers.importing.shapes import shape_of

SUFFIXES: Final = LINES | {".json", ".traj"}
_SNIFFED_RECORDS: Final = 100


def conversation_files(path: Path) -> tuple[Path, ...]:
    """The files that `read` opens: `path` itself, or all below it, sorted, without hidden files and folders.

    Raises `BadInput` when there is nothing at `path`.
    """
    if path.is_file():
        return (path,)
    if not path.is_dir():
        raise BadInput(f"there is no file or folder at {path}")
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(folder, name) for name in names if not name.startswith(".")]
    return tuple(sorted((file for file in found if _is_conversation(file)), key=lambda file: file.parts))


def read(
    path: Path, *, agent_id: str, report: Report, undated: datetime | None = None
) -> Iterator[ImportedRoom]:
    """Yield the rooms that `path` holds, file by file; report what could not be read and go on.

    A conversation without times is taken as said at `undated`, by default when its file was last written.
    Raises `BadInput` for a bad agent id, or when there is nothing at `path`.
    """
    if problem := why_bad(agent_id):
        raise BadInput(f"agent id: {problem}")
    if undated is not None and undated.tzinfo is None:
        raise BadInput("undated: a time needs an offset")
    room_ids = _RoomIds(path)
    for file in conversation_files(path):
        try:
            yield from _rooms_of(file, room_ids, agent_id, report, undated)
        except OSError as error:
            report(
                Problem(str(file), None, "", f"it cannot be read: {error.strerror or type(error).__name__}")
            )


def _is_conversation(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES and file.is_file()


class _RoomIds:
    """Rooms are named for their file's path without suffix, and within the file; each name is given once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._prefixes: set[str] = set()
        self._given: dict[str, int] = {}

    def prefix(self, file: Path) -> str:
        """Of two files that differ only in their suffix, the second keeps its own."""
        relative = file.relative_to(self._root) if file != self._root else Path(file.name)
        name = relative.with_suffix("").as_posix()
        prefix = relative.as_posix() if name in self._prefixes else name
        self._prefixes.add(prefix)
        return prefix

    def room_id(self, prefix: str, name: str) -> str:
        """A name that is no id is replaced by its digest."""
        wanted = f"{prefix}/{name}" if name else prefix
        self._given[wanted] = copies = self._given.get(wanted, 0) + 1
        if copies > 1:
            return self.room_id(f"{wanted}~{copies}", "")
        return derived("room", wanted) if why_bad(wanted) else wanted


def _rooms_of(
    file: Path, room_ids: _RoomIds, agent_id: str, report: Report, undated: datetime | None
) -> Iterator[ImportedRoom]:
    reporter = Reporter(str(file), report)
    written = datetime.fromtimestamp(int(file.stat().st_mtime), UTC)
    prefix = room_ids.prefix(file)
    records = records_of(file, reporter)
    sample = list(islice(records, _SNIFFED_RECORDS))
    if not sample:
        reporter.assumed("it holds no record that can be read")
        return
    shape = shape_of(record.value for record in sample)
    if shape is None:
        reporter.lost("it has none of the shapes that import knows; see docs/import.md")
        return
    context = Context(agent_id, file.stem, reporter)
    for draft in shape.rooms(_fitting(chain(sample, records), shape, reporter), context):
        room_id = room_ids.room_id(prefix, draft.name)
        room = finished(draft, room_id=room_id, undated=undated or written, reporter=reporter)
        if room.runs:
            yield room


def _fitting(records: Iterator[Record], shape: Shape, reporter: Reporter) -> Iterator[Record]:
    for record in records:
        if shape.fits(record.value):
            yield record
        elif not record.salvaged:
            reporter.lost(f"no {shape.name}", line=record.line, record=record.name)
