"""A secret that comes in anywhere comes out nowhere."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis
from sqlalchemy import LargeBinary, select
from typer.testing import CliRunner

from takeaways.recall import Recall, write_folder
from takeaways.schemas.database import Database
from takeaways.schemas.errors import AnswerUnreadable, DeadLetterReason
from takeaways.schemas.events import Author, Message, RoomRef
from takeaways.schemas.memories import Lesson
from takeaways.schemas.queues import FIELD, STREAMS
from takeaways.schemas.secrets import mask
from takeaways.schemas.tables import metadata
from takeaways.workers import telemetry
from takeaways.workers.cli.commands import application
from takeaways.workers.intake import deadletters
from takeaways.workers.intake.reader import StreamReader, connect_reader
from takeaways.workers.models.answers import (
    Accounted,
    ConsolidationAnswer,
    CreateSection,
    ExtractionAnswer,
    Fate,
    Learned,
    NewLine,
    Quote,
    RoomLearned,
)
from takeaways.workers.models.requests import ConsolidationRequest, ExtractionRequest
from takeaways.workers.secrets.scan import scan
from takeaways.workers.testing import ScriptedModel
from tests import memories
from tests.pipeline import Pipeline, pipeline

CORE = "Q9w8" * 9
TOKEN = "gh" + "p_" + CORE  # joined, so that no scanner trips over this file
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def leaking(request: ExtractionRequest) -> ExtractionAnswer:
    """A model that puts the secret everywhere, as if it had seen it elsewhere."""
    room = request.rooms[0]
    quote = Quote(message=room.excerpts[0].label, quote="rotate the token")
    learned = Learned(
        kind=Lesson.FACT, topic=f"Token {TOKEN}"[:120], text=f"The token is {TOKEN} now", evidence=(quote,)
    )
    return ExtractionAnswer(
        rooms=(RoomLearned(room=room.label, summary=f"Rotate {TOKEN}\nand more", candidates=(learned,)),)
    )


def merging(request: ConsolidationRequest) -> ConsolidationAnswer:
    one = request.candidates[0]
    line = NewLine(kind=one.kind, text=f"{one.text}, or {TOKEN}", candidates=(one.label,))
    return ConsolidationAnswer(
        edits=(CreateSection(title=f"About {TOKEN}", gist=f"{TOKEN} and so on", lines=(line,)),),
        account=tuple(
            Accounted(candidate=each.label, fate=Fate.MERGED if each is one else Fate.DROPPED, reason=TOKEN)
            for each in request.candidates
        ),
    )


@pytest.fixture
def logs() -> Iterator[io.StringIO]:
    """All that our logging writes."""
    stream, before = io.StringIO(), list(logging.getLogger().handlers)
    telemetry.configure("json", "DEBUG", stream=stream)
    yield stream
    root = logging.getLogger()
    root.handlers[:] = before


def everything_in(database: Database) -> str:
    """Every text, JSON and byte of every table, but for what dead letters keep as it was published."""
    found: list[str] = []
    with database.read() as connection:
        for table in metadata.sorted_tables:
            columns = [one for one in table.c if not isinstance(one.type, LargeBinary)]
            found += [repr(tuple(row)) for row in connection.execute(select(*columns))]
    return "\n".join(found)


def publish(system: Pipeline, run_id: str = "run-1", **more: Any) -> None:
    messages = [
        Message(
            id=f"{run_id}-1",
            role="user",
            content=f"Please rotate the token {TOKEN} today.",
            author=Author(id="dana", name=f"Dana {TOKEN}", kind="person"),
            time=NOON,
        ),
        Message(
            id=f"{run_id}-2",
            role="assistant",
            content=[{"type": "tool_use", "id": "c1", "name": "rotate", "input": {"token": TOKEN}}],
            time=NOON,
        ),
        Message(
            id=f"{run_id}-3",
            role="tool",
            tool_call_id="c1",
            content=[
                {"type": "text", "text": f"rotated {TOKEN}"},
                {"type": "document", "source": {"type": "text", "data": TOKEN}, "title": f"{TOKEN}.txt"},
            ],
            time=NOON,
        ),
    ]
    system.producer.run_completed(
        agent_id="scout",
        agent_name=f"Scout {TOKEN}",
        room=RoomRef(id="ops", title=f"Ops {TOKEN}"),
        run_id=run_id,
        status="succeeded",
        messages=messages,
        **more,
    )


def test_a_secret_in_every_place_of_a_conversation_and_an_answer_is_kept_in_none(
    database: Database, redis_url: str, tmp_path: Path, logs: io.StringIO
) -> None:
    """Text, arguments, file names, titles, topics, summaries, reasons: one place left out is a leak."""
    model = ScriptedModel(extractions=[leaking], consolidations=[merging])
    with pipeline(database, redis_url, model) as system:
        publish(system)
        # A stream keeps its newest entry until there is another.
        system.producer.run_completed(agent_id="scout", room="other", run_id="run-2", messages=[])
        system.take_in()
        with connect_reader(redis_url) as client:
            for stream in STREAMS:
                StreamReader(client, stream).trim()
        system.flush()
        note = Recall(database).note("scout", "new-room", "c1")
        written = write_folder(database, "scout", tmp_path)

        assert "[masked: GitHub token]" in repr(model.extraction_requests)
        assert CORE not in repr(model.extraction_requests) + repr(model.consolidation_requests)
        assert written.revision == 1
        assert note.text is not None
        assert "The token is [masked: GitHub token] now" in note.text
        folder = "".join(file.name + file.read_text() for file in tmp_path.rglob("*.md"))
        assert CORE not in note.text + folder
        assert CORE not in everything_in(database)
        assert CORE not in logs.getvalue()
        with redis.Redis.from_url(redis_url, decode_responses=True) as client:
            dump = "".join(str(client.xrange(key)) for key in client.scan_iter("takeaways:*", _type="stream"))
        assert CORE not in dump
        assert list(scan(database)) == []


def test_an_error_that_quotes_a_secret_is_stored_and_logged_without_it(
    sqlite_database: Database, redis_url: str, logs: io.StringIO
) -> None:
    """Providers quote the key that they did not accept."""
    error = AnswerUnreadable(f"bad token {TOKEN}")
    with pipeline(sqlite_database, redis_url, ScriptedModel(extractions=[error])) as system:
        publish(system)
        system.take_in()

        system.flush()

        assert "bad token [masked: GitHub token]" in everything_in(sqlite_database)
        assert CORE not in everything_in(sqlite_database)
        assert "[masked: GitHub token]" in logs.getvalue()
        assert CORE not in logs.getvalue()


def test_a_dead_letter_is_kept_as_it_was_and_shown_without_secrets(
    sqlite_database: Database, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must be possible to publish it again; nobody must read a password off the screen."""
    with pipeline(sqlite_database, redis_url, ScriptedModel()) as system:
        with redis.Redis.from_url(redis_url) as client:
            client.xadd(STREAMS[0], {FIELD: json.dumps({"id": "e1", "why": f"token {TOKEN}"})})
        system.take_in()
        monkeypatch.setenv("TAKEAWAYS_DATABASE_URL", sqlite_database.engine.url.render_as_string())
        (letter,) = deadletters.list_open(sqlite_database, reason=DeadLetterReason.NOT_AN_EVENT)

        shown = CliRunner().invoke(application, ["dead-letters", "show", letter.id])
        found = CliRunner().invoke(application, ["scan", "--json"])

        assert CORE.encode() in deadletters.show(sqlite_database, letter.id).raw
        assert "[masked: GitHub token]" in shown.output
        assert CORE not in shown.output
        assert found.exit_code == 1
        (leak,) = json.loads(found.output)
        assert leak == {
            "table": "dead_letters",
            "column": "raw",
            "row": {"dead_letter_id": letter.id},
            "kinds": {"GitHub token": 1},
        }


def test_what_was_stored_before_its_kind_was_known_is_masked_on_read_and_found_by_scan(
    database: Database, tmp_path: Path
) -> None:
    """A memory may be older than the detector, or come from somebody's import."""
    section = memories.section(f"Keys {TOKEN}", f"The key is {TOKEN}", gist=f"about {TOKEN}")
    memories.remember(database, "scout", memories.memory(section))
    room_id = f"room-{TOKEN}".lower()
    memories.room(database, "scout", "ops", summary=f"They used {TOKEN}", title=TOKEN)
    memories.room(database, "scout", room_id, summary="ok")

    note = Recall(database).note("scout", "ops", "c1")
    write_folder(database, "scout", tmp_path)

    texts = "".join(file.name + file.read_text() for file in tmp_path.rglob("*.md"))
    assert note.text is not None
    assert CORE not in note.text + texts
    assert mask(room_id) == room_id or CORE.lower() not in texts
    leaks = {(leak.table, leak.column): leak for leak in scan(database)}
    assert {("section_texts", "content"), ("rooms", "summary"), ("rooms", "title")} <= set(leaks)
    assert leaks["section_texts", "content"].kinds == {"GitHub token": 3}
    assert CORE not in repr(leaks)
    assert list(scan(database, agent_id="somebody-else")) == []


def test_the_memory_as_json_is_masked_too(sqlite_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program reads ends in a log as easily as what a person reads."""
    section = memories.section("Keys", f"The key is {TOKEN}")
    memories.remember(sqlite_database, "scout", memories.memory(section))
    monkeypatch.setenv("TAKEAWAYS_DATABASE_URL", sqlite_database.engine.url.render_as_string())

    shown = CliRunner().invoke(application, ["memory", "show", "scout", "--json"])

    assert "The key is [masked: GitHub token]" in shown.output
    assert CORE not in shown.output
