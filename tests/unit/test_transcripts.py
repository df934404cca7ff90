"""Messages of every model API become parts: nothing said is lost, no bytes get through, any JSON is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from takeaways.schemas.events import Message
from takeaways.schemas.text import mend
from takeaways.schemas.transcripts import (
    PARTS,
    Attachment,
    Part,
    Parts,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    cut,
    normalise,
    size_bytes,
)
from tests import cases
from tests.data import DATA, NO_DATA

PNG = "iVBORw0KGgo" * 40
LINK = "https://a.example/cat.png"
PICTURE = Attachment(kind="image", media_type="image/png", size_bytes=330)
LINKED = Attachment(kind="image", name=LINK)
CALL = ToolCall(id="c", name="f", arguments="{}")
RESULT = ToolResult(call_id="c", text="x")


def parts_of(content: Any = None, role: Any = "user", **fields: Any) -> list[Part]:
    return list(normalise(Message(role=role, content=content, **fields)))


def shown(parts: Parts) -> str:
    return json.dumps(PARTS.dump_python(parts, mode="json"), ensure_ascii=False)


# Plain text, and whatever stands in its place.


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("Hello\r\nthere\x00", [Text(text="Hello\nthere\ufffd")]),
        ("", []),
        (None, []),
        ([], []),
        (["one", "two"], [Text(text="one"), Text(text="two")]),
        ({"type": "text", "text": "one block"}, [Text(text="one block")]),
        ({"text": "no type"}, [Text(text="no type")]),
        ({"answer": 42, "why": ["a", None]}, [Text(text='{"answer": 42, "why": ["a", null]}')]),
        (5, [Text(text="5")]),
        (True, [Text(text="true")]),
    ],
)
def test_content_that_is_no_list_of_blocks_is_text(content: Any, parts: list[Part]) -> None:
    """Plain strings are the commonest message; structured answers are kept as their JSON."""
    assert parts_of(content) == parts


# Anthropic.


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        ({"type": "text", "text": "hi", "citations": None, "cache_control": {}}, [Text(text="hi")]),
        ({"type": "thinking", "thinking": "hm", "signature": "c2ln"}, [Thinking(text="hm")]),
        ({"type": "redacted_thinking", "data": "RW5j" * 99}, [Thinking()]),
        (
            {"type": "tool_use", "id": "t1", "name": "grep", "input": {"pattern": "é"}},
            [ToolCall(id="t1", name="grep", arguments='{"pattern": "é"}')],
        ),
        (
            {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
            [ToolCall(id="s1", name="web_search", arguments='{"query": "q"}')],
        ),
        (
            {"type": "tool_result", "tool_use_id": "t1", "content": "done", "is_error": True},
            [ToolResult(call_id="t1", text="done", is_error=True)],
        ),
        ({"type": "tool_result", "tool_use_id": "t1"}, [ToolResult(call_id="t1")]),
        (
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [
                    {"type": "text", "text": "line 1"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                    {"type": "text", "text": "line 2"},
                ],
            },
            [
                ToolResult(call_id="t1", text="line 1\nline 2"),
                Attachment(kind="image", media_type="image/png", size_bytes=330),
            ],
        ),
        (
            {
                "type": "web_search_tool_result",
                "tool_use_id": "s1",
                "content": [
                    {"type": "web_search_result", "url": "https://a.example", "encrypted_content": PNG}
                ],
            },
            [ToolResult(call_id="s1", text='{"type": "web_search_result", "url": "https://a.example"}')],
        ),
        (
            {"type": "image", "source": {"type": "url", "url": "https://a.example/cat.png"}},
            [Attachment(kind="image", name="https://a.example/cat.png")],
        ),
        (
            {
                "type": "document",
                "title": "Terms",
                "source": {"type": "text", "media_type": "text/plain", "data": "Pay in 30 days."},
            },
            [Attachment(kind="document", media_type="text/plain", name="Terms", text="Pay in 30 days.")],
        ),
        (
            {
                "type": "document",
                "source": {"type": "content", "content": [{"type": "text", "text": "Chapter 1"}]},
                "context": "From the wiki",
            },
            [Attachment(kind="document", text="From the wiki\nChapter 1")],
        ),
        (
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PNG}},
            [Attachment(kind="document", media_type="application/pdf", size_bytes=330)],
        ),
        ({"type": "container_upload", "file_id": "file_1"}, [Attachment(kind="file", name="file_1")]),
        (
            {"type": "brand_new", "says": "something"},
            [Attachment(kind="brand_new", text='{"type": "brand_new", "says": "something"}')],
        ),
    ],
    ids=lambda value: value.get("type", "") if isinstance(value, dict) else "",
)
def test_a_block_of_anthropic_becomes_parts(block: Any, parts: list[Part]) -> None:
    """Claude's messages are read as they are; a document is nobody's words, a picture is only named."""
    assert parts_of([block]) == parts


def test_a_sentence_beside_a_tool_result_stays_the_users_own() -> None:
    """Dropping an orphaned result once dropped what the user had typed with it (EX-03)."""
    (message,) = map(cases.message, cases.case("EX-03")["room"])

    result, sentence = normalise(message)

    assert isinstance(result, ToolResult)
    assert isinstance(sentence, Text)
    assert "Thursdays, not Fridays" in sentence.text


def test_calls_and_results_of_the_case_stay_pairs() -> None:
    """A compaction in between splits no pair and invents no result (EX-02)."""
    room = [cases.message(found) for found in cases.case("EX-02")["room"] if "role" in found]

    call, result, wish = (part for message in room for part in normalise(message))

    assert call == ToolCall(id="c1", name="read_file", arguments='{"path": "app.toml"}')
    assert result == ToolResult(call_id="c1", text="retries = 5")
    assert wish == Text(text="Keep retries at 5 everywhere.")


# OpenAI and others.


def test_a_chat_message_of_openai_with_tool_calls_becomes_text_and_calls() -> None:
    """Arguments are the JSON text that the model wrote; they are not parsed and cannot fail."""
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free text"}},
        {"id": "c3", "type": "function", "function": {"name": "h", "arguments": {"a": 1}}},
    ]

    assert parts_of("Let me look.", "assistant", tool_calls=calls) == [
        Text(text="Let me look."),
        ToolCall(id="c1", name="f", arguments='{"a": 1}'),
        ToolCall(id="c2", name="g", arguments="free text"),
        ToolCall(id="c3", name="h", arguments='{"a": 1}'),
    ]
    assert parts_of(None, "assistant", function_call={"name": "f", "arguments": "{}"}) == [
        ToolCall(name="f", arguments="{}")
    ]


@pytest.mark.parametrize(
    ("content", "fields", "parts"),
    [
        ("42", {"tool_call_id": "c1"}, [ToolResult(call_id="c1", text="42")]),
        (None, {"tool_call_id": "c1"}, [ToolResult(call_id="c1")]),
        (
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
            {"tool_call_id": "c1"},
            [ToolResult(call_id="c1", text="a\nb")],
        ),
        ({"rows": 3}, {"tool_call_id": 7}, [ToolResult(call_id="7", text='{"rows": 3}')]),
        ("old style", {"role": "function", "name": "f"}, [ToolResult(call_id="f", text="old style")]),
        ([{"type": "tool_result", "call_id": "q", "content": "x"}], {}, [ToolResult(call_id="q", text="x")]),
    ],
)
def test_what_a_tool_says_is_a_result_and_never_speech(content: Any, fields: Any, parts: list[Part]) -> None:
    """A web page that asks to be remembered must not look like the user."""
    assert parts_of(content, fields.pop("role", "tool"), **fields) == parts


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}, PICTURE),
        ({"type": "image_url", "image_url": {"url": LINK}}, LINKED),
        ({"type": "input_image", "image_url": LINK}, LINKED),
        ({"type": "image", "data": PNG, "mimeType": "image/png"}, PICTURE),
        ({"image": {"format": "png", "source": {"bytes": PNG}}}, PICTURE),
        (
            {"inlineData": {"mimeType": "image/png", "data": PNG}},
            PICTURE.model_copy(update={"kind": "file"}),
        ),
        (
            {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
            Attachment(kind="audio", media_type="audio/wav", size_bytes=330),
        ),
        (
            {
                "type": "file",
                "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"},
            },
            Attachment(kind="file", media_type="application/pdf", size_bytes=330, name="a.pdf"),
        ),
        (
            {"type": "resource", "resource": {"uri": LINK, "mimeType": "text/markdown", "text": "# A"}},
            Attachment(kind="file", media_type="text/markdown", name=LINK, text="# A"),
        ),
        ({"type": "refusal", "refusal": "I cannot."}, Text(text="I cannot.")),
        ({"type": "output_text", "text": "hi", "annotations": []}, Text(text="hi")),
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}, CALL),
        ({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}, CALL),
        ({"type": "function_call_output", "call_id": "c", "output": "x"}, RESULT),
        (
            {"type": "local_shell_call", "id": "lsh_1", "call_id": "c", "action": {"command": ["ls"]}},
            ToolCall(id="c", name="local_shell", arguments='{"command": ["ls"]}'),
        ),
        (
            {"type": "web_search_call", "id": "c", "action": {"query": "x"}, "status": "completed"},
            ToolCall(id="c", name="web_search", arguments='{"query": "x"}'),
        ),
        ({"type": "local_shell_call_output", "call_id": "c", "output": "x"}, RESULT),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, Thinking(text="hm")),
        ({"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}, CALL),
        ({"functionCall": {"name": "f", "args": {}}}, CALL.model_copy(update={"id": ""})),
        (
            {"toolResult": {"toolUseId": "b", "content": [{"text": "x"}], "status": "error"}},
            ToolResult(call_id="b", text="x", is_error=True),
        ),
    ],
)
def test_a_part_of_another_api_becomes_one_of_ours(block: Any, part: Part) -> None:
    """OpenAI chat and responses, Bedrock, Gemini and MCP: whoever publishes sends what it has."""
    assert parts_of([block]) == [part]


def test_a_voice_note_says_what_its_transcript_says() -> None:
    """Who speaks instead of typing is heard, too."""
    note = {
        "type": "input_audio",
        "input_audio": {"data": PNG, "format": "wav"},
        "transcript": "Call me Ann.",
    }

    assert parts_of([note]) == [
        Attachment(kind="audio", media_type="audio/wav", size_bytes=330),
        Text(text="Call me Ann."),
    ]


def test_what_a_model_refused_thought_and_said_aloud_is_kept() -> None:
    """They stand beside the content of a chat message, where who reads only `content` loses them."""
    parts = parts_of(
        None,
        "assistant",
        refusal="I cannot do that.",
        reasoning_content="The user wants…",
        audio={"id": "a", "data": PNG, "transcript": "Hello", "expires_at": 5},
    )

    assert parts == [
        Thinking(text="The user wants…"),
        Text(text="I cannot do that."),
        Text(text="Hello"),
        Attachment(kind="audio", size_bytes=330),
    ]


# Bytes.


def test_images_of_the_case_leave_only_their_type_and_size() -> None:
    """Six megabytes of picture in a transcript once made every later request fail (EX-07)."""
    parts = [part for found in cases.case("EX-07")["room"] for part in normalise(cases.message(found))]

    text = shown(tuple(parts))

    assert len(text) < 2_000
    assert Attachment(kind="image", media_type="image/png", size_bytes=4_718_595) in parts
    assert "see [image/png, 1500000 bytes] end-of-image" in text
    assert "bottom-left" in text


@pytest.mark.parametrize("where", ["text", "arguments", "result", "unknown"])
def test_inline_bytes_are_named_wherever_they_stand(where: str) -> None:
    """A picture pasted into a text or handed to a tool is as long as one in a block of its own."""
    url = f"see data:image/png;charset=utf-8;base64,{PNG} end"
    block = {
        "text": {"type": "text", "text": url},
        "arguments": {"type": "tool_use", "input": {"html": url, "data": PNG}},
        "result": {"type": "tool_result", "content": [url]},
        "unknown": {"type": "new", "html": [url], "data": PNG},
    }[where]

    text = shown(normalise(Message(role="user", content=[block])))

    assert "see [image/png, 330 bytes] end" in text
    assert "iVBORw" not in text


def test_a_short_data_url_and_long_words_are_left_alone() -> None:
    """Only what can be nothing but bytes is taken out: people write about data URLs too."""
    said = f"use data:image/gif;base64,R0lGODlhAQ== or {'a' * 5_000}"

    assert parts_of(said) == [Text(text=said)]


# Parts themselves, and any JSON.

LABEL = st.text(max_size=20).map(mend)
COUNT = st.integers(0, 2**40)
SOME_TEXT = st.text().map(mend)
ANY_PART = st.one_of(
    st.builds(Text, text=SOME_TEXT.filter(bool), cut_chars=COUNT),
    st.builds(Thinking, text=SOME_TEXT, cut_chars=COUNT),
    st.builds(ToolCall, id=LABEL, name=LABEL, arguments=SOME_TEXT, cut_chars=COUNT),
    st.builds(ToolResult, call_id=LABEL, text=SOME_TEXT, is_error=st.booleans(), cut_chars=COUNT),
    st.builds(
        Attachment,
        kind=LABEL.filter(bool),
        media_type=LABEL,
        size_bytes=st.none() | COUNT,
        name=LABEL,
        text=SOME_TEXT,
        cut_chars=COUNT,
    ),
)
TEXTS = st.text(st.characters(codec=None))
KEYS = TEXTS | st.sampled_from(
    [
        "type",
        "text",
        "content",
        "id",
        "name",
        "input",
        "data",
        "source",
        "url",
        "image_url",
        "cut_chars",
        "toolUse",
    ]
)
KINDS = st.sampled_from(
    ["text", "thinking", "tool_use", "tool_result", "tool_call", "image", "document", "attachment", "refusal"]
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats() | TEXTS | KINDS,
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
    max_leaves=30,
)
ROLES = st.sampled_from(["user", "assistant", "system", "tool", "function"])


@given(st.lists(ANY_PART).map(tuple))
def test_parts_given_as_content_come_back_equal(parts: Parts) -> None:
    """A producer may send parts, and does when it cut a message; reading them changes nothing."""
    assert normalise(Message(role="user", content=PARTS.dump_python(parts, mode="json"))) == parts


@given(ROLES, ANY_JSON, ANY_JSON, ANY_JSON)
@example("user", [[[[[[]]]]]], [float("nan")], 10**5_000)
@example("tool", {"type": "tool_result", "content": {"type": "tool_result"}}, None, None)
@example("user", {"type": ""}, None, None)
def test_any_json_becomes_parts_that_serialise_and_stay(
    role: Any, content: Any, calls: Any, call_id: Any
) -> None:
    """One odd message must not stop a room, and reading twice is reading once."""
    message = Message(role=role, content=content, tool_calls=calls, tool_call_id=call_id)

    parts = normalise(message)

    as_content = json.loads(PARTS.dump_json(parts))
    assert normalise(Message(role=role, content=as_content)) == parts


def test_content_nested_deeper_than_any_stack_is_shown_and_not_followed() -> None:
    """The wire refuses such depth; a caller in the same process meets no crash either."""
    content: Any = {"type": "text", "text": "bottom"}
    for _ in range(5_000):
        content = {"type": "tool_result", "content": [content]}

    assert "nested too deeply" in shown(normalise(Message(role="user", content=content)))


def test_the_nul_of_the_case_is_marked_and_the_written_escape_kept() -> None:
    """PostgreSQL refuses NUL; a text that speaks of \\u0000 is no NUL (ST-01)."""
    room = [json.loads(line) for line in cases.case("ST-01")["room_wire"]]

    parts = [part for found in room for part in normalise(cases.message(found))]

    assert parts == [
        ToolResult(call_id="z\ufffdz", text="bin\ufffdary \\u0000 literal"),
        Text(text="Name is A\ufffdB"),
    ]


# Cutting.


@given(st.lists(ANY_PART, max_size=8).map(tuple), st.integers(0, 2_000))
def test_what_is_cut_fits_and_accounts_for_every_character(parts: Parts, max_bytes: int) -> None:
    """Nobody mistakes a cut message for a whole one, and its size was known before."""
    bounded = cut(parts, max_bytes)

    def told(some: Parts) -> int:
        return sum(len(p.arguments if isinstance(p, ToolCall) else p.text) + p.cut_chars for p in some)

    assert told(bounded) == told(parts)
    assert size_bytes(bounded) <= max_bytes or len(bounded) <= 2
    assert cut(bounded, max_bytes) == bounded or len(bounded) <= 2


def test_a_message_that_fits_is_the_same_object() -> None:
    """Intake bounds every message; nearly all fit."""
    parts = (Text(text="short"),)

    assert cut(parts, 1_000) is parts


def test_a_sentence_beside_a_huge_result_stays_whole() -> None:
    """The lesson often stands behind the long output (EX-08)."""
    wish = Text(text="Note it: always page that export by 1000.")
    bounded = cut((ToolResult(call_id="q", text="x" * 2_000_000), wish), 64 * 1024)

    assert bounded[1] is wish
    assert bounded[0].cut_chars > 1_900_000
    assert 60_000 < size_bytes(bounded) <= 64 * 1024


def test_more_parts_than_there_is_room_for_end_in_a_count() -> None:
    """A million empty blocks cost no more than a long text."""
    bounded = cut(tuple(ToolCall(id=str(place), arguments="{}") for place in range(10_000)), 64 * 1024)

    assert size_bytes(bounded) <= 64 * 1024
    assert bounded[-1] == Text(text="", cut_chars=2 * (10_000 - len(bounded) + 1))


def test_a_message_that_a_producer_cut_keeps_its_mark() -> None:
    """A reader that cuts again adds to the count."""
    (part,) = cut(tuple(parts_of([{"type": "text", "text": "x" * 200, "cut_chars": 1_000}])), 164)

    assert part == Text(text="x" * 100, cut_chars=1_100)


# Real conversations.


def real_messages() -> list[dict[str, Any]]:
    if not DATA.is_dir():
        pytest.skip(NO_DATA)
    found = [m for task in json.loads((DATA / "tau-airline/trial-0.json").read_text()) for m in task["traj"]]
    for file in sorted((DATA / "swe-agent").glob("*.traj")):
        found += json.loads(file.read_text())["history"]
    for file in sorted((DATA / "claude-code").glob("*.jsonl")):
        for record in map(json.loads, file.read_text().splitlines()):
            if isinstance(record, dict) and isinstance(record.get("message"), dict):
                found.append(record["message"])
    return found


def test_every_word_of_real_conversations_is_kept() -> None:
    """Messages of three platforms: each text, argument and result is in the parts, whole."""
    messages = real_messages()

    for raw in messages:
        parts = normalise(
            Message(
                **{key: raw[key] for key in ("role", "content", "tool_calls", "tool_call_id") if raw.get(key)}
            )
        )
        kept = shown(parts)
        for text in texts_of(raw):
            assert json.dumps(mend(text), ensure_ascii=False)[1:-1] in kept

    assert len(messages) > 500


def texts_of(raw: dict[str, Any]) -> list[str]:
    content = raw.get("content")
    items = content if isinstance(content, list) else [content]
    blocks = [item for item in items if isinstance(item, dict)]
    texts = [item for item in items if isinstance(item, str)]
    texts += [block["text"] for block in blocks if block.get("type") == "text"]
    texts += [block["content"] for block in blocks if isinstance(block.get("content"), str)]
    return texts + [call["function"]["arguments"] for call in raw.get("tool_calls") or []]
