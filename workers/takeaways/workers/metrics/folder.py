"""The files through which the processes of a pool share their counters with the one that serves them.

Each process counts into files of its own, by `prometheus_client`'s multi-process mode; a scrape adds them up.
Files of dead processes stay, since counters never go back. They are merged into one before they become many.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import Metric
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

log = structlog.get_logger(__name__)

VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Read by `prometheus_client` when it is imported: processes get it in their environment."""
MOST_FILES: Final = 40
_MERGED: Final = "merged"


@contextlib.contextmanager
def shared_folder() -> Iterator[dict[str, str]]:
    """A folder for the processes that are started with these variables. One that the environment names is kept."""
    if os.environ.get(VARIABLE):
        yield {}
        return
    try:
        folder = tempfile.mkdtemp(prefix="takeaways-metrics-")
    except OSError as error:
        log.warning("no folder for metrics, so each process has its own", error=error.strerror)
        yield {}
        return
    try:
        yield {VARIABLE: folder}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Shared(Collector):
    """What all processes that count into `folder` have counted together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._collector: Any = MultiProcessCollector(None, str(folder))  # type: ignore[no-untyped-call] # it has no types
        self._lock = threading.Lock()

    def collect(self) -> Iterable[Metric]:
        # One at a time: while files are merged, a second reader would see them twice or not at all.
        with self._lock:
            merge_dead(self._folder)
            return list(self._collector.collect())

    def describe(self) -> Iterable[Metric]:
        return ()


def merge_dead(folder: Path, *, most_files: int = MOST_FILES) -> None:
    """Add the counters of dead processes up into one file a type, once there are many files."""
    files = sorted(folder.glob("*.db"))
    if len(files) <= most_files:
        return
    for kind in ("counter", "histogram"):
        dead = [file for file in files if file.name.startswith(f"{kind}_") and not _is_alive(file)]
        if not dead:
            continue
        sums: dict[str, float] = {}
        for file in dead:
            for key, value, _, _ in MmapedDict.read_all_values_from_file(str(file)):  # type: ignore[no-untyped-call] # it has no types
                sums[key] = sums.get(key, 0.0) + value
        unfinished = folder / f"{kind}.unfinished"
        unfinished.unlink(missing_ok=True)
        merged: Any = MmapedDict(str(unfinished))  # type: ignore[no-untyped-call] # it has no types
        for key, value in sums.items():
            merged.write_value(key, value, 0.0)
        merged.close()
        for file in dead:
            file.unlink()
        unfinished.rename(folder / f"{kind}_{_MERGED}.db")


def _is_alive(file: Path) -> bool:
    process = file.stem.rpartition("_")[2]
    if process == _MERGED:
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
