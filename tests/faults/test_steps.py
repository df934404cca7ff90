"""A process dies at one step, for every step there is; the next one goes on, and nothing shows of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from takeaways.schemas.database import Database
from takeaways.schemas.migrations import migrate
from takeaways.schemas.queues import STREAMS
from takeaways.workers.faults import PLACES, VARIABLE, Place
from takeaways.workers.intake.reader import StreamReader, connect_reader
from takeaways.workers.intake.streaming import Streaming, StreamOptions
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.pools.hints import Hints
from takeaways.workers.schedule.decide import Hold
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.testing import ScriptedModel
from tests import published
from tests.faults import checker
from tests.faults.history import History, Known, read_history
from tests.faults.stage import ROOT
from tests.pipeline import Pipeline, pipeline
from tests.waiting import wait_until

POLICY = Policy(lease_seconds=1.0)
pytestmark = pytest.mark.timeout(240)  # an interpreter starts for each step, on a machine that may be busy
EVENTS = [
    *(
        published.run(
            f"r{number}", f"Fact {number}.", f"And {number}.", room=f"room-{number % 2}", minutes=number
        )
        for number in range(7)
    ),
    published.compacted(1, minutes=8),
]
ONE_PROCESS = """
import sys
from takeaways.schemas.database import Database
from takeaways.workers.leases import Heartbeat
from takeaways.workers.testing import ScriptedModel
from tests.faults.test_steps import POLICY, do_everything
from tests.pipeline import pipeline

with pipeline(Database.open(sys.argv[1]), sys.argv[2], ScriptedModel(), POLICY) as system:
    # A beat that is frozen in the middle of its transaction would hold the whole SQLite file.
    system.services.heartbeat = Heartbeat(system.database, lease_seconds=600)
    do_everything(system)
"""


def do_everything(system: Pipeline) -> None:
    """All that workers do, in a fixed order: first the streams, then hints, then jobs."""
    hints = Hints(lambda kind, agent_id, reason: None)
    with connect_reader(system.redis_url) as client:
        for stream in STREAMS:
            streaming = Streaming(
                system.database,
                StreamReader(client, stream),
                stream,
                hints=hints,
                policy=POLICY,
                stop=threading.Event(),
                options=StreamOptions(block_seconds=0.05),
            )
            while streaming.step():
                pass
    hints.close(timeout_seconds=5)
    system.work()


@contextmanager
def in_a_process(system: Pipeline, fault: str) -> Iterator[subprocess.Popen[str]]:
    """The same in a process of its own, which fails at a place. It dies with the block, frozen or not."""
    url = system.database.engine.url.render_as_string(hide_password=False)
    with subprocess.Popen(
        [sys.executable, "-c", ONE_PROCESS, url, system.redis_url],
        env={**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: fault},
        cwd=ROOT,
        text=True,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def without_faults(folder: Path, redis_url: str) -> History:
    """The same work, with nothing going wrong, in another database."""
    database = Database.open(f"sqlite:///{folder / 'undisturbed.db'}")
    migrate(database)
    with pipeline(database, redis_url, ScriptedModel(), POLICY) as system:
        for event in EVENTS:
            system.producer.publish(event)
        do_everything(system)
        system.flush()
    history = read_history(database)
    database.dispose()
    return history


@pytest.fixture
def chosen(request: pytest.FixtureRequest) -> Database:
    """Every other place on each database: storms pass all of them on both."""
    kind = ("sqlite", "postgresql")[PLACES.index(request.getfixturevalue("place")) % 2]
    made: Database = request.getfixturevalue(f"{kind}_database")
    return made


@pytest.mark.parametrize("place", PLACES)
def test_a_process_that_dies_at_a_step_leaves_no_trace(
    place: Place, chosen: Database, redis_url: str, tmp_path: Path
) -> None:
    """Whatever the moment: every event once, every message read once, and the same memory byte for byte."""
    undisturbed = without_faults(tmp_path, redis_url)
    with pipeline(chosen, redis_url, ScriptedModel(), POLICY) as system:
        for event in EVENTS:
            system.producer.publish(event)

        with in_a_process(system, f"{place}:1") as doomed:
            _, complaint = doomed.communicate(timeout=100)
        wait_until(lambda: not is_leased(system))
        do_everything(system)
        system.flush()

    assert doomed.returncode == -signal.SIGKILL, complaint
    history = read_history(chosen)
    known = Known({event.id: event for event in EVENTS})
    assert [
        *checker.everything_once(history, known),
        *checker.one_at_a_time(history),
        *checker.all_read(history),
        *checker.same_memory(history, undisturbed),
        *checker.replayed(history),
        *checker.nothing_left_over(history),
    ] == []
    assert history.memories["ada"].model_dump_json() == undisturbed.memories["ada"].model_dump_json()


@pytest.mark.parametrize("place", ["after_claim", "after_model", "after_step", "before_release"])
def test_a_process_that_is_frozen_at_a_step_changes_nothing_when_it_comes_back(
    place: Place, sqlite_database: Database, redis_url: str, tmp_path: Path
) -> None:
    """A virtual machine that was moved wakes up in the middle of a job whose lease another one has long had."""
    undisturbed = without_faults(tmp_path, redis_url)
    with pipeline(sqlite_database, redis_url, ScriptedModel(), POLICY) as system:
        for event in EVENTS:
            system.producer.publish(event)

        with in_a_process(system, f"{place}:1:stop") as zombie:
            wait_until(lambda: is_stopped(zombie), timeout_seconds=60)
            wait_until(lambda: not is_leased(system))
            system.work()
            zombie.send_signal(signal.SIGCONT)
            _, complaint = zombie.communicate(timeout=100)
        system.flush()
        history = read_history(sqlite_database)

    assert zombie.returncode == 0, complaint
    assert [row["outcome"] for row in history.rows["jobs"]].count(Outcome.FENCED_OFF) == 1
    assert [
        *checker.one_at_a_time(history),
        *checker.all_read(history),
        *checker.same_memory(history, undisturbed),
        *checker.replayed(history),
        *checker.nothing_left_over(history),
    ] == []


def is_leased(system: Pipeline) -> bool:
    return "ada" in system.agent_ids() and system.decision("ada").hold is Hold.LEASED


def is_stopped(process: subprocess.Popen[str]) -> bool:
    state = Path(f"/proc/{process.pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    return state == "T"
