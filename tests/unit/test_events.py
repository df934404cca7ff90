"""The rules of the wire hold in one reader: what is an event is read, what is none is named and set aside."""

from __future__ import annotations

import base64
import gzip
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeaways.schemas import events, text
from takeaways.schemas.errors import BadInput, DeadLetterReason, UnreadableMessage
from takeaways.schemas.events import Conversation, Event, Message, RoomRef, RunCompleted, decode, encode
from takeaways.schemas.queues import COMPACTIONS_STREAM, RUNS_STREAM
from tests import cases

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
HIDDEN = "what the user said"
R = DeadLetterReason


def raw_event(**changes: Any) -> dict[str, Any]:
    """A small `run.completed` as another language would write it; a change to None takes an attribute out."""
    envelope = {
        "specversion": "1.0",
        "id": "ev-1",
        "source": "billing",
        "type": "takeaways.run.completed.v1",
        "subject": "agent-a",
        "time": "2026-03-02T09:00:00Z",
        "data": {
            "room": {"id": "room-1"},
            "run_id": "run-1",
            "status": "succeeded",
            "messages": [{"role": "user", "content": HIDDEN}],
        },
        **changes,
    }
    return {key: value for key, value in envelope.items() if value is not None}


def with_data(**changes: Any) -> dict[str, Any]:
    event = raw_event()
    return {**event, "data": {**event["data"], **changes}}


def payload(value: Any) -> bytes:
    return json.dumps(value).encode()


def why_refused(wire: bytes, **kwargs: Any) -> UnreadableMessage:
    with pytest.raises(UnreadableMessage) as refused:
        decode(wire, **kwargs)
    assert HIDDEN not in str(refused.value)
    refused.value.detail.encode("utf-8")
    assert "\n" not in refused.value.detail
    return refused.value


def a_run(**changes: Any) -> RunCompleted:
    fields: dict[str, Any] = {
        "room": RoomRef(id="room-1"),
        "run_id": "run-1",
        "status": "succeeded",
        **changes,
    }
    return RunCompleted(**fields)


def an_event(data: Any = None, **changes: Any) -> Event:
    fields: dict[str, Any] = {
        "id": "ev-1",
        "source": "billing",
        "agent_id": "agent-a",
        "time": NOW,
        **changes,
    }
    return Event.of(data or a_run(), **fields)


# What is written is read.


@pytest.mark.parametrize("compress_over_bytes", [None, 0])
def test_an_event_that_was_written_reads_back_equal(compress_over_bytes: int | None) -> None:
    """Gzipped or not, the reader has what the producer had, and the same hash."""
    message = Message(role="user", content=[{"type": "text", "text": "schön"}, None, 1.5], time=NOW)
    event = an_event(a_run(messages=(message,), conversation=Conversation(id="c", compaction=2)))

    read = decode(encode(event, compress_over_bytes=compress_over_bytes), stream=RUNS_STREAM)

    assert read == event
    assert read.body_hash == event.body_hash


def test_the_hash_is_of_what_an_event_says_and_not_of_when_or_how_it_was_sent() -> None:
    """The same run published again is a duplicate; another one under the same id is a conflict."""
    first = decode(payload(raw_event()))
    again = decode(payload(dict(reversed(raw_event(time="2027-01-01T00:00:00Z", source="other").items()))))
    other = decode(payload(with_data(status="failed")))

    assert first.body_hash == again.body_hash
    assert first.body_hash != other.body_hash


def test_an_offset_is_kept() -> None:
    """The wall clock of the person counts when "tomorrow" is worked out."""
    zone = timezone(timedelta(hours=5, minutes=30))
    event = an_event(a_run(ended_at=NOW.astimezone(zone)), time=NOW.astimezone(zone))

    read = decode(encode(event))

    assert isinstance(read.data, RunCompleted)
    assert read.data.ended_at is not None
    assert read.time.utcoffset() == read.data.ended_at.utcoffset() == timedelta(hours=5, minutes=30)


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-03-02T09:00:00.123456789+01:00", "2026-03-02T08:00:00.123456+00:00"),
        ("2026-03-02t09:00:00z", "2026-03-02T09:00:00+00:00"),
        ("2026-03-02 09:00:00-00:00", "2026-03-02T09:00:00+00:00"),
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59+00:00"),
    ],
)
def test_every_time_of_rfc_3339_is_read(written: str, moment: str) -> None:
    """Go writes nanoseconds, databases write a space, and some years have a leap second."""
    assert decode(payload(raw_event(time=written))).time == datetime.fromisoformat(moment)


@pytest.mark.parametrize(
    "written",
    [
        *(
            "2026-03-02",
            "2026-03-02T09:00:00",
            "2026-03-02T09:00Z",
            "0000-01-01T00:00:00Z",
            "2026-02-30T00:00:00Z",
        ),
        *("1700000000", 1700000000, 99999999999999999999, "yesterday", "", True, ["2026-03-02T09:00:00Z"]),
    ],
)
def test_what_is_no_time_with_an_offset_is_refused(written: Any) -> None:
    """A number may be seconds or milliseconds, a time without offset may be anywhere: neither is guessed."""
    assert why_refused(payload(raw_event(time=written))).reason is R.NOT_AN_EVENT
    assert why_refused(payload(with_data(ended_at=written))).reason is R.BAD_FIELD


def test_an_offset_with_seconds_is_written_as_utc() -> None:
    """Local times before standard time have offsets that RFC 3339 cannot say."""
    old = datetime(1880, 1, 1, tzinfo=timezone(timedelta(minutes=53, seconds=28)))

    read = decode(encode(an_event(a_run(ended_at=old), time=old)))

    assert isinstance(read.data, RunCompleted)
    assert read.time == read.data.ended_at == old


# Other people's CloudEvents.


@pytest.mark.parametrize(
    "changes",
    [
        {"datacontenttype": "application/json; charset=utf-8"},
        {"datacontenttype": "Application/JSON"},
        {"datacontenttype": "application/vnd.acme+json"},
        {"datacontenttype": None},
        {"specversion": None},
        {"dataschema": "https://example.com/s", "partitionkey": "7", "myextension": 5, "sampledrate": None},
        {"data": None, "data_base64": base64.b64encode(payload(raw_event()["data"])).decode()},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_output_of_cloudevents_sdks_is_read(changes: dict[str, Any]) -> None:
    """Extension attributes and the ways to say JSON differ from one SDK to the next."""
    assert decode(payload(raw_event(**changes))).body_hash == decode(payload(raw_event())).body_hash


def test_a_traceparent_travels_along() -> None:
    """A trace goes on from the service into the worker."""
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    assert decode(encode(an_event(traceparent=trace))).traceparent == trace


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"datacontenttype": "text/plain"}, R.NOT_AN_EVENT),
        ({"contentencoding": "br", "data": None, "data_base64": "e30="}, R.NOT_AN_EVENT),
        ({"data_base64": "e30="}, R.NOT_AN_EVENT),
        ({"data": None, "data_base64": "not base64!"}, R.NOT_AN_EVENT),
        ({"data": None, "data_base64": 5}, R.NOT_AN_EVENT),
        ({"data": None, "data_base64": "e30=", "contentencoding": "gzip"}, R.NOT_AN_EVENT),
        (
            {
                "data": None,
                "data_base64": base64.b64encode(gzip.compress(b"x" * 99)[:-9] + b"\xff" * 9).decode(),
                "contentencoding": "gzip",
            },
            R.NOT_AN_EVENT,
        ),
        ({"data": None, "data_base64": base64.b64encode(b'{"a":').decode()}, R.NOT_JSON),
        ({"data": None}, R.BAD_FIELD),
        ({"data": "text"}, R.BAD_FIELD),
        ({"specversion": "2.0"}, R.UNKNOWN_VERSION),
    ],
)
def test_an_envelope_that_cannot_be_opened_is_set_aside(changes: dict[str, Any], reason: R) -> None:
    """The reason says whether the sender must change the envelope or the data."""
    assert why_refused(payload(raw_event(**changes))).reason is reason


# Versions, types, streams, unknown fields.


@pytest.mark.parametrize(
    ("type_name", "reason"),
    [
        ("takeaways.run.completed.v2", R.UNKNOWN_VERSION),
        ("takeaways.run.completed", R.UNKNOWN_VERSION),
        ("takeaways.run.completed.v1.0", R.UNKNOWN_VERSION),
        ("takeaways.run.archived.v1", R.UNKNOWN_TYPE),
        ("run.completed", R.UNKNOWN_TYPE),
        ("com.example.other", R.UNKNOWN_TYPE),
    ],
)
def test_a_version_or_type_that_is_not_known_is_named(type_name: str, reason: R) -> None:
    """The dead letters tell a worker that is too old from a sender that is wrong."""
    assert why_refused(payload(raw_event(type=type_name))).reason is reason


def test_an_event_on_the_wrong_stream_is_set_aside() -> None:
    """A compaction among the runs would wait for a pool that never reads it."""
    assert why_refused(payload(raw_event()), stream=COMPACTIONS_STREAM).reason is R.WRONG_STREAM


def test_unknown_fields_are_ignored_and_counted_at_every_depth() -> None:
    """A newer producer is never stopped by an older worker."""
    data = raw_event()["data"]
    data["messages"][0]["mood"] = "good"
    newer = {**data, "extra": {"deep": [1, 2, 3]}, "room": {"id": "room-1", "colour": "red"}}

    event = decode(payload(raw_event(data=newer)))

    assert event.unknown_fields == 3
    assert event.data == decode(payload(raw_event())).data
    assert event.body == newer


def test_a_writer_refuses_an_unknown_field() -> None:
    """A misspelt field is found by the developer, not by the reader."""
    with pytest.raises(ValueError, match="extra"):
        a_run(statsu="succeeded")


# Ids.


@pytest.mark.parametrize("bad", ["", "x" * 256, "a\x00b", "\ud83d", 5, True, [], {"a": 1}])
def test_a_bad_id_sets_the_whole_event_aside(bad: Any) -> None:
    """An id is never mended: that could make two agents one."""
    assert why_refused(payload({**raw_event(), "id": bad})).reason is R.BAD_ID
    assert why_refused(payload({**raw_event(), "subject": bad})).reason is R.BAD_ID
    assert why_refused(payload(with_data(run_id=bad))).reason is R.BAD_ID
    assert why_refused(payload(with_data(messages=[{"role": "user", "id": bad}]))).reason is R.BAD_ID


@pytest.mark.parametrize("field", ["id", "source", "agent_id"])
def test_an_event_with_a_bad_id_is_not_made(field: str) -> None:
    """The developer learns which argument is wrong, without the id itself in the log."""
    with pytest.raises(BadInput, match=f"^{field}: .*U\\+0000 at 6"):
        an_event(**{field: "secret\x00"})


def test_half_a_surrogate_pair_in_text_is_no_reason_to_refuse() -> None:
    """Somebody cut an emoji in two; the rest of the message still counts."""
    message = Message(role="user", content=[{"te\ud83dxt": "\ud83d"}, "\ud83d"])

    read = decode(encode(an_event(a_run(messages=(message,)))))

    assert isinstance(read.data, RunCompleted)
    assert text.mend_json(read.data.messages[0].content) == [{"te\ufffdxt": "\ufffd"}, "\ufffd"]
    assert decode(payload(with_data(room={"id": "r", "title": "a\ud83d\nb"}))).data.room.title == "a\ufffd b"  # type: ignore[union-attr]


# Hostile and broken entries.


def deep(levels: int, opening: str = "[", closing: str = "]") -> bytes:
    content = opening * levels + closing * levels
    return payload(with_data(messages=[{"role": "user", "content": "@"}])).replace(b'"@"', content.encode())


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        (deep(10_000), R.NOT_JSON),
        (deep(500), R.NOT_JSON),
        (deep(900, '{"a":', "}").replace(b":}", b":1}"), R.NOT_JSON),
        (payload(with_data(x=1)).replace(b'"x": 1', b'"x": ' + b"9" * 5_000), R.NOT_JSON),
        (payload(with_data(x=1)).replace(b'"x": 1', b'"x": NaN'), R.NOT_JSON),
        (payload(with_data(x=1)).replace(b'"x": 1', b'"x": -Infinity'), R.NOT_JSON),
        (payload(with_data(x=1)).replace(b'"x": 1', b'"x": 1e400'), R.NOT_JSON),
        (payload(with_data(x=1)).replace(b'"x": 1', b'"run_id": "run-2"'), R.NOT_JSON),
        (payload(with_data(agent={"window": 9223372036854775808})), R.BAD_FIELD),
        (payload(with_data(agent={"window": -1})), R.BAD_FIELD),
        (payload(with_data(agent={"window": 5.0})), R.BAD_FIELD),
        (payload(with_data(agent={"window": "5"})), R.BAD_FIELD),
        (payload(with_data(agent={"generation": 0})), R.BAD_FIELD),
        (payload(with_data(status="SUCCEEDED")), R.BAD_FIELD),
        (payload(with_data(messages=[{"role": "narrator"}])), R.BAD_FIELD),
        (payload(with_data(messages=[{"role": "\ud83d"}])), R.BAD_FIELD),
        (payload(with_data(room={"id": "r", "kind": "hall"})), R.BAD_FIELD),
        (payload(with_data(room={"id": "r", "title": "t" * 1_001})), R.BAD_FIELD),
        (b"\xef\xbb\xbf" + payload(raw_event()), R.NOT_JSON),
        (payload(raw_event())[:-1], R.NOT_JSON),
        (b" " * (events.MAX_ENTRY_BYTES + 1), R.TOO_LARGE),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else str(value),
)
def test_a_hostile_entry_is_named_and_harms_nothing(wire: bytes, reason: R) -> None:
    """One bad entry never stops the next, and the reason never quotes a message."""
    assert why_refused(wire).reason is reason


def test_content_that_is_nested_as_deep_as_allowed_is_read_and_hashed() -> None:
    """The bound is one that every later step can bear, and no real message comes near it."""
    event = decode(deep(events.MAX_DEPTH - 4))

    assert len(event.body_hash) == 64
    assert why_refused(deep(events.MAX_DEPTH - 3)).reason is R.NOT_JSON


def test_a_gzip_bomb_is_not_unpacked() -> None:
    """Sixteen kilobytes that would fill the memory are refused after the bound, not after all of it."""
    bomb = base64.b64encode(gzip.compress(b" " * (events.MAX_ENTRY_BYTES + 1))).decode()

    refused = why_refused(payload(raw_event(data=None, data_base64=bomb, contentencoding="gzip")))

    assert refused.reason is R.TOO_LARGE


def test_a_million_unknown_fields_are_counted_and_not_listed() -> None:
    """A careless sender costs some time and no memory."""
    event = decode(payload(with_data(**{f"f{number}": 0 for number in range(100_000)})))

    assert event.unknown_fields == 100_000


def test_the_name_of_a_bad_field_is_safe_to_store() -> None:
    """Names of fields come from outside too: no line break of theirs forges a log line."""
    refused = why_refused(
        payload(with_data(messages=[{"role": "user", "author": {"id": "a", "kind": "x\n"}}]))
    )

    assert refused.detail.startswith("messages.0.author.kind: ")


@pytest.mark.parametrize("content", [object(), b"\xff", {"a": object()}, [lambda: None]])
def test_content_that_is_not_json_is_refused_by_the_writer(content: Any) -> None:
    """The developer learns which event of which agent holds it."""
    with pytest.raises(BadInput, match=r"run\.completed.*agent-a"):
        an_event(a_run(messages=(Message(role="user", content=content),)))


def test_content_that_is_nested_too_deeply_is_refused_by_the_writer() -> None:
    """What no reader would take in is not published."""
    content: Any = "x"
    for _ in range(events.MAX_DEPTH):
        content = [content]

    with pytest.raises(BadInput, match="200 levels"):
        an_event(a_run(messages=(Message(role="user", content=content),)))


def test_objects_of_an_sdk_and_numbers_beyond_json_travel() -> None:
    """People pass the blocks that their SDK gave them; NaN becomes null, as JavaScript does it."""
    block = events.RoomRef(id="any pydantic object")
    message = Message(role="assistant", content=[block, float("nan"), (1, 2)])

    read = decode(encode(an_event(a_run(messages=(message,)))))

    assert read.body["messages"][0]["content"] == [{"id": block.id, "kind": "room"}, None, [1, 2]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec=None)), inner),
    max_leaves=20,
)


@given(st.one_of(st.binary(), JSON.map(payload), JSON.map(lambda value: payload(raw_event(data=value)))))
def test_whatever_lies_on_the_stream_is_read_or_refused_with_a_reason(wire: bytes) -> None:
    """No entry can raise anything that the intake does not expect."""
    try:
        decode(wire)
    except UnreadableMessage as error:
        error.detail.encode("utf-8")


# The cases.


def test_each_malformed_item_of_the_case_gets_a_reason() -> None:
    """One malformed item once stopped a consumer for good (QL-07)."""
    case = cases.case("QL-07")
    wires = [*map(str.encode, case["wire"]), *map(bytes.fromhex, case["wire_hex"])]

    reasons = [why_refused(wire).reason for wire in wires]

    assert set(reasons) <= {R.NOT_JSON, R.NOT_AN_EVENT, R.BAD_ID}
    (good,) = case["then"]
    assert decode(payload(cases.event(good)), stream=RUNS_STREAM).id == "ev-9"


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        (payload({"type": "takeaways.run.completed.v1"}), R.NOT_AN_EVENT),
        (payload({**raw_event(), "id": {"a": 1}, "subject": []}), R.BAD_ID),
        (payload(with_data(room={"id": 5}, run_id=True)), R.BAD_ID),
        (payload(raw_event()).replace(b'"id": "ev-1"', b'"id": "ev-1", "id": "ev-2"'), R.NOT_JSON),
        (payload([raw_event()]), R.NOT_AN_EVENT),
        (payload(payload(raw_event()).decode()), R.NOT_AN_EVENT),
        (payload(raw_event()).decode().encode("utf-16"), R.NOT_JSON),
    ],
)
def test_the_same_faults_in_our_own_form_get_a_reason(wire: bytes, reason: R) -> None:
    """The whole kind of the case: no id, ids that are no text, a key twice, a list, JSON in JSON (QL-07)."""
    assert why_refused(wire).reason is reason


def test_versions_and_unknown_fields_of_the_case_follow_one_rule() -> None:
    """The version is the suffix of the type, as text: `1.0`, `0`, `2` and none are not `v1` (QL-08)."""
    found: dict[str, object] = {}
    for event in cases.case("QL-08")["events"]:
        try:
            found[event["event_id"]] = decode(payload(cases.event(event))).unknown_fields
        except UnreadableMessage as error:
            found[event["event_id"]] = error.reason

    assert found == {
        "ev-1": R.UNKNOWN_VERSION,
        "ev-2": 0,
        "ev-3": R.UNKNOWN_VERSION,
        "ev-4": R.UNKNOWN_VERSION,
        "ev-5": R.UNKNOWN_VERSION,
        "ev-6": R.UNKNOWN_TYPE,
        "ev-7": 1,
    }


def test_numbers_of_the_case_overflow_nothing() -> None:
    """Numbers of thousands of digits once raised an error that nobody caught (QL-09)."""
    for wire in cases.case("QL-09")["wire_templates"]:
        assert why_refused(wire.encode()).reason in (R.NOT_JSON, R.NOT_AN_EVENT)


@pytest.mark.parametrize(
    "number", ["9" * 5_000, "9223372036854775808", "-1", "1e400", "99999999999999999999"]
)
@pytest.mark.parametrize("field", ["position", "ordinal"])
def test_such_numbers_in_our_own_fields_are_refused(field: str, number: str) -> None:
    """The whole kind of the case: none of them reaches the database or the clock (QL-09)."""
    wire = payload(with_data(messages=[{"role": "user", field: "@"}])).replace(b'"@"', number.encode())

    assert why_refused(wire).reason in (R.NOT_JSON, R.BAD_FIELD)
