"""Publishing from a shell, on a real server: what arrives is what a service would have published."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from redis import Redis

from takeaways.schemas.events import Event, MessagesRecorded, RoomRef, RunCompleted, decode, encode
from takeaways.schemas.queues import COMPACTIONS_STREAM, FIELD, RUNS_STREAM
from takeaways.workers.cli import main
from takeaways.workers.exits import Exit

Published = Callable[[str], list[Event]]


@pytest.fixture
def published(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Published:
    monkeypatch.setenv("TAKEAWAYS_REDIS_URL", redis_url)

    def read(stream: str) -> list[Event]:
        with Redis.from_url(redis_url) as client:
            entries: Any = client.xrange(stream)
        return [decode(fields[FIELD.encode()], stream=stream) for _, fields in entries]

    return read


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_a_run_is_published_with_its_messages(published: Published) -> None:
    """Somebody who tries things out needs no service for it."""
    code = run(
        *("publish", "run", "scout", "quotes", "--run-id", "r1", "--user", "dana"),
        *("-m", "user: Quotes over $40k need sign-off: always.", "-m", "assistant: Noted."),
    )

    [event] = published(RUNS_STREAM)
    assert code == 0
    assert isinstance(event.data, RunCompleted)
    assert (event.agent_id, event.data.run_id, event.data.status) == ("scout", "r1", "succeeded")
    assert [message.content for message in event.data.messages] == [
        "Quotes over $40k need sign-off: always.",
        "Noted.",
    ]


def test_an_address_that_is_none_is_a_setting_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script does not try again for ever what only a person can put right."""
    monkeypatch.setenv("TAKEAWAYS_REDIS_URL", "http://redis:6379")

    assert run("publish", "run", "scout", "quotes") == Exit.MISCONFIGURED


def test_a_failed_run_says_so(published: Published) -> None:
    """A failed run does not count toward an extraction."""
    assert run("publish", "run", "scout", "quotes", "--failed") == 0

    [event] = published(RUNS_STREAM)
    assert isinstance(event.data, RunCompleted)
    assert event.data.status == "failed"


def test_a_compaction_travels_on_its_own_stream(published: Published) -> None:
    """A compaction starts a consolidation, so it goes to the pool that consolidates."""
    assert run("publish", "compaction", "scout", "quotes", "c1", "2") == 0

    [event] = published(COMPACTIONS_STREAM)
    assert event.agent_id == "scout"


def test_a_message_needs_a_role(published: Published, capsys: pytest.CaptureFixture[str]) -> None:
    """Text whose speaker is not known would be learned from the wrong person."""
    assert run("publish", "run", "scout", "quotes", "-m", "Quotes need sign-off.") == 2

    assert published(RUNS_STREAM) == []
    assert "begins with one of user" in capsys.readouterr().err


def events_on_stdin(monkeypatch: pytest.MonkeyPatch, *lines: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(lines))))


def event(number: int) -> bytes:
    data = MessagesRecorded(room=RoomRef(id="quotes"), run_id=f"r{number}", messages=())
    return encode(Event.of(data, id=f"e{number}", source="test", agent_id="scout", time=datetime.now(UTC)))


def test_events_are_published_from_stdin(published: Published, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another program wrote as CloudEvents is published under the ids that it gave."""
    events_on_stdin(monkeypatch, event(1), b"", event(2))

    assert run("publish", "json") == 0

    assert [one.id for one in published(RUNS_STREAM)] == ["e1", "e2"]
    assert {one.source for one in published(RUNS_STREAM)} == {"test"}


def test_one_bad_line_means_that_nothing_is_published(
    published: Published, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a file in the stream is worse than none; the line is named, its text is not repeated."""
    events_on_stdin(monkeypatch, event(1), b'{"specversion": "1.0", "data": "my diary"}')

    assert run("publish", "json") == 1

    complaint = capsys.readouterr().err
    assert published(RUNS_STREAM) == []
    assert "stdin:2:" in complaint
    assert "diary" not in complaint


def test_a_server_that_is_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code says that trying again later may work."""
    monkeypatch.setenv("TAKEAWAYS_REDIS_URL", "redis://me:hunter2@127.0.0.1:1/0")

    assert run("publish", "run", "scout", "quotes") == 5

    assert "hunter2" not in capsys.readouterr().err
