"""Fault points: named places at which a process fails when a test says so, and never otherwise."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from takeaways.schemas.errors import Misconfigured
from takeaways.workers.faults import PLACES, armed

WORKERS = Path(__file__).parents[2] / "workers"


def test_a_process_fails_at_the_named_place_and_passage_only() -> None:
    """A test of faults that hits another moment than it says proves something else than it says."""
    failed: list[signal.Signals] = []
    pass_by = armed("after_claim:3", failed.append)

    for _ in range(2):
        pass_by("after_claim")
        pass_by("in_claim")
    before = list(failed)
    for _ in range(3):
        pass_by("after_claim")

    assert before == []
    assert failed == [signal.SIGKILL]


def test_a_process_can_be_frozen_instead() -> None:
    """A worker that stands still at the worst moment comes back later: that is another fault than a death."""
    failed: list[signal.Signals] = []

    armed("before_job_commit:1:stop", failed.append)("before_job_commit")

    assert failed == [signal.SIGSTOP]


@pytest.mark.parametrize(
    "spec", ["nowhere:1", "after_claim", "after_claim:0", "after_claim:x", "in_claim:1:nap"]
)
def test_a_misspelt_fault_is_refused(spec: str) -> None:
    """A fault that never comes would make every test of it pass."""
    with pytest.raises(Misconfigured, match="TAKEAWAYS_FAULT_AT"):
        armed(spec, print)


def test_every_place_is_in_the_code_once_or_more() -> None:
    """A place that nobody passes would make every test of it pass."""
    source = "".join(file.read_text("utf-8") for file in WORKERS.rglob("*.py"))

    passed = set(re.findall(r'fault_point\("(\w+)"\)', source))

    assert passed == set(PLACES)


def test_without_the_variable_nothing_is_counted_and_with_it_the_process_is_killed() -> None:
    """What is only for tests must not be able to happen in production by itself."""
    script = 'from takeaways.workers.faults import fault_point\nfault_point("in_claim")\nprint("alive")\n'

    alive, dead = (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
        for environment in ({}, {"TAKEAWAYS_FAULT_AT": "in_claim:1"})
    )

    assert alive.stdout == "alive\n"
    assert (dead.stdout, dead.returncode) == ("", -signal.SIGKILL)
