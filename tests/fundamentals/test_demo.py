"""The whole pipeline, once: what `takeaways demo` shows is what really happened.

Three rooms, one agent. In one Dana says that quotes over $40k need sign-off; in a fourth, new room the
agent is told so before it answers. Real Valkey, real database, real worker processes.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from takeaways.workers.demo import story


@pytest.fixture(scope="module")
def shown() -> Iterator[dict[str, Any]]:
    """What the demo says, for programs."""
    ran = subprocess.run(
        [sys.executable, "-m", "takeaways.workers.cli", "demo", "--json"], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    yield told
    shutil.rmtree(told["home"])


def test_every_fact_that_matters_arrived(shown: dict[str, Any]) -> None:
    """Rules, preferences and corrections are remembered, what was replaced or planted is not."""
    assert shown["ok"]
    assert [fact for fact in shown["facts"] if not fact["is_so"]] == []
    assert len(shown["facts"]) == len(story().learned) + len(story().unlearned) + 1


def test_what_was_said_in_one_room_is_known_in_another(shown: dict[str, Any]) -> None:
    """The note that begins the new room's conversation carries the rule that Dana stated elsewhere."""
    assert shown["note"].startswith("<agent-memory")
    assert story().question.needs.stands_in(shown["note"])


def test_the_memory_lies_in_the_workspace_as_files(shown: dict[str, Any]) -> None:
    """The agent reads its memory as a folder: the index, the whole, and a summary of each room."""
    folder = Path(shown["folder"])

    assert (folder / "MEMORY.md").read_text("utf-8") == shown["memory"]
    assert (folder / "summary.md").exists()
    assert len(list((folder / "session_summaries").iterdir())) == 3


def test_every_step_ended_and_tells_how_long_it_took(shown: dict[str, Any]) -> None:
    """The path of a message: published, taken in, read, merged, recalled."""
    steps = [step["step"] for step in shown["steps"]]

    assert steps == ["start", "publish", "take in", "extract", "consolidate", "recall", "stop"]
    assert all(step["seconds"] >= 0 for step in shown["steps"])


def test_no_process_is_left_behind(shown: dict[str, Any]) -> None:
    """A demo that ends has ended."""
    left = [
        process.pid for process in psutil.process_iter(["cmdline"]) if shown["home"] in _command_line(process)
    ]

    assert left == []


def _command_line(process: psutil.Process) -> str:
    return " ".join(process.info["cmdline"] or ())
