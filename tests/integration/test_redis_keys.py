"""What a running pool leaves on Redis is what the docs describe, and nothing else."""

from __future__ import annotations

import fnmatch
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from takeaways.schemas import queues
from tests.waiting import wait_until

PAGE = Path(__file__).parents[2] / "docs" / "redis-and-tables.md"
# A broken entry ends as a dead letter and needs no model.
BROKEN: Final[dict[Any, Any]] = {queues.FIELD: "not JSON"}


def described() -> list[str]:
    """The keys of the page's table, as patterns."""
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `takeaways:")]
    return [key for row in rows for key in re.findall(r"`([^`]+)`", row.split("|")[1])]


@pytest.mark.timeout(300)
def test_a_running_pool_makes_only_keys_that_are_described(redis_url: str, tmp_path: Path) -> None:
    """Whoever looks into Redis finds each key in the docs, with its lifetime."""
    environment = {
        **os.environ,
        "TAKEAWAYS_REDIS_URL": redis_url,
        "TAKEAWAYS_HOME": str(tmp_path),
        "TAKEAWAYS_DATABASE_URL": f"sqlite:///{tmp_path / 'takeaways.db'}",
    }
    client = redis.Redis.from_url(redis_url, decode_responses=True)
    client.xadd(queues.RUNS_STREAM, BROKEN)
    seen: set[str] = set()

    def is_at_work() -> bool:
        seen.update(client.scan_iter("*"))
        taken_in = client.exists(queues.RUNS_STREAM) and client.xinfo_groups(queues.RUNS_STREAM)
        bound = f"{queues.BROKER_PREFIX}_kombu.binding.{queues.Kind.EXTRACTION}"
        return bool(
            taken_in and taken_in[0]["pending"] == 0 and taken_in[0]["entries-read"] and bound in seen
        )

    with (tmp_path / "log").open("w") as log:
        pool = subprocess.Popen(
            [sys.executable, "-m", "takeaways.workers.cli", "worker", "extraction"],
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(is_at_work, timeout_seconds=60)
    finally:
        pool.send_signal(signal.SIGTERM)
        pool.wait(40)
        seen.update(client.scan_iter("*"))
        client.close()

    patterns = described()
    assert [key for key in sorted(seen) if not any(fnmatch.fnmatch(key, p) for p in patterns)] == []
