"""One sample of every shape that was ever sent, decoded for ever; and the schemas that describe them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import redis
from jsonschema import Draft202012Validator

from takeaways.schemas import wire
from takeaways.schemas.events import MODELS, MessagesRecorded, RunCompleted, decode
from takeaways.schemas.queues import FIELD
from takeaways.schemas.transcripts import (
    Attachment,
    Parts,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    normalise,
)

FOLDER = Path(__file__).parents[1] / "payloads"
SAMPLES = sorted(FOLDER.glob("*.json"))


def parts_in(name: str) -> list[Parts]:
    event = decode((FOLDER / name).read_bytes())
    assert isinstance(event.data, RunCompleted | MessagesRecorded)
    return [normalise(message) for message in event.data.messages]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_every_shape_that_we_ever_sent_is_still_read(sample: Path) -> None:
    """Old messages are still in somebody's stream after an upgrade."""
    event = decode(sample.read_bytes())

    assert sample.name.startswith(event.data.TYPE.removeprefix("takeaways."))
    assert event.agent_id == "acme/sales"
    assert event.unknown_fields == 0


def test_every_type_has_a_sample() -> None:
    """A new event comes with its sample."""
    sampled = {decode(sample.read_bytes()).data.TYPE for sample in SAMPLES}

    assert sampled == set(MODELS)


def test_messages_of_anthropic_are_read_from_the_wire() -> None:
    """Text, picture, document, thinking, tool call and result of one run."""
    assert parts_in("run.completed.v1.anthropic.json") == [
        (
            Text(text="What did we quote them?"),
            Attachment(kind="image", media_type="image/png", size_bytes=70),
            Attachment(
                kind="document", media_type="text/plain", name="Price list", text="Prices are in euros."
            ),
        ),
        (
            Thinking(text="Look it up."),
            Thinking(),
            ToolCall(id="toolu_1", name="find_quote", arguments='{"customer": "Bülow"}'),
        ),
        (ToolResult(call_id="toolu_1", text="quote 17: 42,000 €"),),
        (Text(text="42,000 €."),),
    ]


def test_messages_of_openai_are_read_from_the_wire() -> None:
    """Calls stand beside the content, results in messages of their own."""
    assert parts_in("run.completed.v1.openai.json") == [
        (Text(text="You are helpful."),),
        (Text(text="Is the shop up?"), Attachment(kind="image", media_type="image/png", size_bytes=70)),
        (ToolCall(id="call_1", name="ping", arguments='{"host":"shop"}'),),
        (ToolResult(call_id="call_1", text="timeout"),),
        (Text(text="It does not answer."),),
    ]


def test_plain_messages_are_read_from_the_wire() -> None:
    """The least that a platform can send."""
    assert parts_in("run.completed.v1.plain.json") == [
        (Text(text="Quotes over $40k need sign-off."),),
        (Text(text="Understood."),),
    ]
    assert parts_in("run.completed.v1.by-hand.json") == [(Text(text="café \U0001f600 and half \ufffd"),)]


def test_what_a_producer_cut_keeps_its_mark() -> None:
    """The reader knows how much there was."""
    assert parts_in("run.completed.v1.cut.json") == [
        (ToolResult(call_id="call_1", text="the beginning", cut_chars=1_999_987),),
        (Text(text="look"), Attachment(kind="image", media_type="image/png", size_bytes=300_000)),
    ]


def test_a_bare_xadd_is_all_that_another_language_needs(redis_url: str) -> None:
    """No library of ours stands between a shell script and the stream."""
    sample = FOLDER / "run.completed.v1.by-hand.json"
    with redis.Redis.from_url(redis_url) as client:
        client.execute_command("XADD", "takeaways:runs", "*", "event", sample.read_text())

        ((_, fields),) = client.xrange("takeaways:runs")

    assert decode(fields[FIELD.encode()], stream="takeaways:runs").id == "9"


# The JSON Schemas.


def test_the_schema_files_are_what_the_models_say() -> None:
    """After a change of an event: `python -m takeaways.schemas.wire`."""
    written = {file.name: file.read_text("utf-8") for file in wire.FOLDER.glob("*.json")}

    assert written == wire.files()


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.stem)
def test_every_sample_keeps_to_its_schema(sample: Path) -> None:
    """Whoever validates against the files in another language accepts what we send."""
    event: dict[str, Any] = json.loads(sample.read_text("utf-8"))
    schema = json.loads((wire.FOLDER / f"{event['type']}.json").read_text("utf-8"))

    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(event)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"id": ""}, "id"),
        ({"subject": "a\nb"}, "subject"),
        ({"time": 5}, "time"),
        ({"specversion": "2.0"}, "specversion"),
    ],
)
def test_what_the_reader_refuses_the_schema_refuses(change: dict[str, Any], path: str) -> None:
    """A mistake is found where the event is made."""
    event = json.loads((FOLDER / "run.completed.v1.plain.json").read_text("utf-8"))
    schema = wire.schema(RunCompleted)

    errors = Draft202012Validator(schema).iter_errors({**event, **change})

    assert {tuple(error.path) for error in errors} == {(path,)}
