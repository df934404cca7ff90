"""Logs: the words of the endings, and never those of a message."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from pydantic import BaseModel, ValidationError

from takeaways.schemas.errors import Misconfigured
from takeaways.workers import telemetry
from takeaways.workers.jobs.outcomes import Outcome, level_of


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("takeaways")
    before = (list(root.handlers), root.level, ours.level)
    yield
    root.handlers[:], root.level = before[0], before[1]
    ours.setLevel(before[2])
    logging.captureWarnings(False)
    structlog.reset_defaults()


def test_the_table_of_endings_is_complete() -> None:
    """Whoever meets an ending in a log finds it in one place."""
    table = telemetry.__doc__ or ""

    assert [ending for ending in Outcome if f"| `{ending}` |" not in table] == []


def test_a_machine_gets_one_json_object_a_line() -> None:
    """Log collectors need no pattern."""
    stream = io.StringIO()
    telemetry.configure("auto", "INFO", stream=stream, pool="extraction")

    structlog.get_logger("takeaways.workers.test").info("ended", outcome=Outcome.REMEMBERED)

    line = json.loads(stream.getvalue())
    assert (line["event"], line["outcome"], line["pool"]) == ("ended", "remembered", "extraction")
    assert line["level"] == "info"


def test_libraries_speak_through_the_same_log_when_they_warn() -> None:
    """A warning of Celery's stands beside ours, its chatter does not."""
    stream = io.StringIO()
    telemetry.configure("json", "INFO", stream=stream)

    logging.getLogger("celery.worker").info("chatter")
    logging.getLogger("celery.worker").warning("connection lost")

    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["connection lost"]


def test_an_exception_is_logged_without_the_values_that_it_choked_on() -> None:
    """A validation error quotes what was in the field, which may be what somebody said."""
    stream = io.StringIO()
    telemetry.configure("json", "INFO", stream=stream)
    log = structlog.get_logger("takeaways.workers.test")

    try:
        _Strict.model_validate({"number": "my secret diary"})
    except ValidationError:
        log.exception("could not be read")

    line = json.loads(stream.getvalue())
    assert "diary" not in stream.getvalue()
    assert line["error"] == "ValidationError"
    assert "test_telemetry.py" in line["at"]


def test_our_own_errors_are_told_in_full() -> None:
    """Our texts are written for people and quote nothing."""
    assert (
        telemetry.describe(Misconfigured("the folder is missing")) == "Misconfigured: the folder is missing"
    )
    assert telemetry.describe(OSError(28, "No space left on device")) == "OSError: No space left on device"


def test_the_level_says_who_should_look() -> None:
    """What goes on by itself wakes nobody; what a person has to put right does not hide among the good endings."""
    levels = {outcome: level_of(outcome, set_aside=False) for outcome in Outcome}

    assert [outcome for outcome, level in levels.items() if level == logging.ERROR] == [Outcome.FAILED]
    assert levels[Outcome.PARKED] == logging.WARNING
    assert {levels[outcome] for outcome in Outcome if outcome.is_success} == {logging.INFO}
    assert levels[Outcome.OVERLOADED] == levels[Outcome.INTERRUPTED] == logging.INFO
    assert level_of(Outcome.REMEMBERED, set_aside=True) == logging.WARNING


def test_long_values_are_cut() -> None:
    """A value that grew by mistake does not flood the log."""
    stream = io.StringIO()
    telemetry.configure("json", "INFO", stream=stream)

    structlog.get_logger("takeaways.workers.test").info("ended", detail="x" * 5_000)

    assert json.loads(stream.getvalue())["detail"].endswith("… (5000 characters)")


class _Strict(BaseModel):
    number: int
