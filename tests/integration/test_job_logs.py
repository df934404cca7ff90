"""What a job writes into the log: who and which job, on every line, and nothing that was said."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from takeaways.schemas.database import Database
from takeaways.schemas.errors import ModelRefused
from takeaways.workers import telemetry
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import pipeline


def forget_loggers() -> None:
    """A logger keeps the configuration of its first line: here that may be another test's."""
    for name, module in list(sys.modules.items()):
        if name.startswith("takeaways."):
            kept = getattr(getattr(module, "log", None), "__dict__", {})
            kept.pop("bind", None)


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root, ours = logging.getLogger(), logging.getLogger("takeaways")
    before = (list(root.handlers), root.level, ours.level)
    stream = io.StringIO()
    forget_loggers()
    telemetry.configure("json", "DEBUG", stream=stream, pool="extraction", process="worker")
    yield stream
    root.handlers[:], root.level = before[0], before[1]
    ours.setLevel(before[2])
    logging.captureWarnings(False)
    structlog.reset_defaults()
    forget_loggers()


def test_every_line_of_a_job_names_its_agent_and_itself(
    log: io.StringIO, sqlite_database: Database, redis_url: str
) -> None:
    """Twenty jobs write at once: the lines of one are found by its id, and show no text of anybody."""
    model = ScriptedModel()
    model.then_extract(ModelRefused("policy"))
    with pipeline(sqlite_database, redis_url, model) as made:
        for agent_id in ("acme/refused", "acme/scout"):
            for number in range(5):
                made.producer.run_completed(
                    agent_id=agent_id,
                    room="quotes",
                    run_id=f"r{number}",
                    status="succeeded",
                    messages=[{"role": "user", "content": f"My daughter's name is Zebulonia {number}."}],
                )
        made.take_in()
        results = made.work()

    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    of_jobs = [line for line in lines if line.get("logger") == "takeaways.workers.jobs.run"]
    endings = {line["agent_id"]: line for line in of_jobs if line["event"] == "ended"}

    assert {line["job_id"] for line in of_jobs} == {result.job_id for result in results}
    assert all(line["kind"] == "extraction" and line["pool"] == "extraction" for line in of_jobs)
    assert (endings["acme/refused"]["level"], endings["acme/refused"]["outcome"]) == ("warning", "refused")
    assert (endings["acme/scout"]["level"], endings["acme/scout"]["outcome"]) == ("info", "remembered")
    assert "Zebulonia" not in log.getvalue()
