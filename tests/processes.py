"""Processes of ours as they are run for real, on the test's servers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import psutil

from takeaways.schemas.database import Database

CLI: Final = (sys.executable, "-m", "takeaways.workers.cli")


def environment_of(database: Database, redis_url: str, home: Path, **settings: object) -> dict[str, str]:
    """The variables of a process that works there: two jobs at once, no port for metrics, and these `settings`."""
    url = database.engine.url.set(drivername=database.engine.dialect.name)
    known = {
        "home": home,
        "redis_url": redis_url,
        "database_url": url.render_as_string(hide_password=False),
        "concurrency": 2,
        "metrics": "false",
        **settings,
    }
    return {
        **{name: value for name, value in os.environ.items() if "TAKEAWAYS_" not in name},
        **{f"TAKEAWAYS_{name.upper()}": str(value) for name, value in known.items()},
    }


def kill_all(running: Iterable[subprocess.Popen[bytes]]) -> None:
    """Kill what still runs, with its children, and wait for it."""
    for process in running:
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
