"""The health check of a pool: it says yes only when both of its processes work on this very host."""

from __future__ import annotations

import json
import socket

import pytest

from takeaways.schemas.queues import RUNS_STREAM, Kind
from takeaways.workers.cli import main
from takeaways.workers.exits import Exit
from takeaways.workers.intake.reader import StreamReader, connect_reader
from takeaways.workers.local.embedded import free_port
from takeaways.workers.pools import readiness
from takeaways.workers.settings import Settings

HOST = socket.gethostname()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody is, nobody is waited for."""
    monkeypatch.setattr(readiness, "ANSWER_SECONDS", 0.3)


def test_a_host_without_a_pool_is_not_ready(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rollout stops at a pod whose processes do not come up, and the operator reads which of them."""
    monkeypatch.setenv("TAKEAWAYS_REDIS_URL", redis_url)

    with pytest.raises(SystemExit) as ended:
        main(["ready", "extraction", "--json"])

    answer = json.loads(capsys.readouterr().out)
    assert ended.value.code == Exit.FAILED
    assert answer["ready"] is False
    assert len(answer["missing"]) == 2
    assert all(HOST in missing for missing in answer["missing"])


def test_an_intake_of_another_host_does_not_count(redis_url: str) -> None:
    """A pod is judged by itself: others that work must not hide that it does not."""
    with connect_reader(redis_url) as client:
        reader = StreamReader(client, RUNS_STREAM, consumer="elsewhere:1:a")
        reader.read(block_seconds=0.01)
        settings = Settings(redis_url=redis_url)

        assert f"no intake of {RUNS_STREAM} reads on {HOST}" in readiness.missing(
            settings, client, Kind.EXTRACTION, host=HOST
        )
        assert readiness.missing(settings, client, Kind.EXTRACTION, host="elsewhere") == [
            "no Celery worker of the extraction pool answers on elsewhere"
        ]


def test_a_redis_that_is_away_is_told_from_a_pool_that_is_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Starting the pool again would not help, so the exit code differs."""
    monkeypatch.setenv("TAKEAWAYS_REDIS_URL", f"redis://127.0.0.1:{free_port()}/0")

    with pytest.raises(SystemExit) as ended:
        main(["ready", "extraction"])

    assert ended.value.code == Exit.UNAVAILABLE
    assert "Redis does not answer" in capsys.readouterr().err
