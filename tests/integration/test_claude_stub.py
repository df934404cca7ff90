"""The stand-in for Claude's API is strict where the API is, and a user's own tests can lean on it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import pytest

from takeaways.workers.testing.claude import ClaudeServer, Served, dense_count, script
from tests.claude import MODEL
from tests.waiting import wait_until

HELLO = {"model": MODEL, "max_tokens": 1_000, "messages": [{"role": "user", "content": "hello"}]}
CALL = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "seen"}


@pytest.fixture
def server() -> Iterator[ClaudeServer]:
    with ClaudeServer(chat=lambda text: f"You said: {text}") as made:
        yield made


def post(server: ClaudeServer, body: Any, path: str = "/v1/messages", **headers: str) -> tuple[int, Any, Any]:
    """Status, body and headers of an answer."""
    named = {
        "authorization": "Bearer k",
        "anthropic-version": "2026-10-21",
        "content-type": "application/json",
    }
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"{server.url}{path}", data, named | headers)  # noqa: S310 - loopback
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return answer.status, json.load(answer), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error), error.headers


def turns(*contents: Any) -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[place % 2], "content": one} for place, one in enumerate(contents)]


def test_a_message_is_answered_with_usage_a_request_id_and_limits(server: ClaudeServer) -> None:
    """What a client of the real API reads is all there."""
    status, body, headers = post(server, HELLO)

    assert status == 200
    assert body["content"] == [{"type": "text", "text": "You said: hello"}]
    assert (body["stop_reason"], body["usage"]["output_tokens"]) == (
        "end_turn",
        dense_count("You said: hello"),
    )
    assert headers["request-id"] == server.requests[0].id
    assert int(headers["anthropic-ratelimit-requests-remaining"]) > 0
    assert headers["anthropic-ratelimit-input-tokens-reset"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": 0}, "at least 1"),
        ({"max_tokens": 10**9}, "max_tokens"),
        ({"temperature": 0}, "temperature"),
        ({"odd": 1}, "odd: Extra inputs are not permitted"),
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "system", "content": "x"}]}, "role"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "alternate"),
        ({"messages": [{"role": "user", "content": "x"}] * 2}, "alternate"),
        ({"messages": turns("x", "prefill")}, "prefill"),
        ({"messages": turns("")}, "non-empty"),
        ({"messages": turns([])}, "non-empty"),
        ({"messages": turns([{"type": "text", "text": " "}])}, "non-empty"),
        ({"messages": turns("x", [CALL], "no result")}, "tool_result"),
        ({"messages": turns([RESULT])}, "tool_use"),
        ({"messages": turns("x", "y", [RESULT])}, "tool_use"),
        ({"system": [{"type": "text", "text": ""}]}, "system.0"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "thinking.type"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"output_config": {"effort": "extreme"}}, "effort"),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            "additionalProperties",
        ),
        (
            {
                "output_config": {
                    "format": {"type": "json_schema", "schema": {"type": "string", "maxLength": 3}}
                }
            },
            "maxLength",
        ),
        (
            {"system": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}] * 5},
            "cache_control",
        ),
    ],
)
def test_what_the_api_refuses_is_refused(
    server: ClaudeServer, change: dict[str, Any], complaint: str
) -> None:
    """A test that passes here must not fail at the provider."""
    body = {key: value for key, value in {**HELLO, **change}.items() if value is not None}

    status, answer, _ = post(server, body)

    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")
    assert complaint in answer["error"]["message"]


def test_paired_tool_blocks_are_taken(server: ClaudeServer) -> None:
    """The check of pairs must not refuse a conversation with tools."""
    assert post(server, {**HELLO, "messages": turns("x", [CALL], [RESULT], "done", "thanks")})[0] == 200


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (HELLO, {"authorization": ""}, 401),
        ({**HELLO, "model": "claude-unknown"}, {}, 404),
        (b"no json", {}, 400),
        (b"[]", {}, 400),
        ({**HELLO, "messages": turns("x" * 500_000)}, {}, 400),
    ],
)
def test_key_model_json_and_window_are_checked(body: Any, headers: dict[str, str], status: int) -> None:
    """The commonest mistakes answer as they do at the provider."""
    with ClaudeServer(window=200_000) as server:
        found, answer, _ = post(server, body, **headers)

    assert found == status
    assert answer["type"] == "error"


def test_what_is_too_long_says_by_how_much() -> None:
    """Clients read the two numbers out of the message."""
    with ClaudeServer(window=1_000) as server:
        _, answer, _ = post(server, {**HELLO, "messages": turns("x" * 4_000)})

    assert re.fullmatch(r"prompt is too long: 200\d tokens > 1000 maximum", answer["error"]["message"])


def test_an_answer_is_cut_where_its_limit_is(server: ClaudeServer) -> None:
    """`max_tokens` is a limit here too, and the stop reason says so."""
    _, answer, _ = post(server, {**HELLO, "max_tokens": 3})

    assert (answer["stop_reason"], answer["usage"]["output_tokens"]) == ("max_tokens", 3)
    assert answer["content"][0]["text"] == "You sa"


def test_the_sdk_streams_counts_and_lists(server: ClaudeServer) -> None:
    """The provider's own client finds nothing missing, thinking blocks included."""
    with anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0) as client:
        with client.messages.stream(
            model=MODEL,
            max_tokens=100,
            thinking={"type": "adaptive"},
            messages=[{"role": "user", "content": "hello"}],
        ) as stream:
            text = "".join(stream.text_stream)
            whole = stream.get_final_message()
        counted = client.messages.count_tokens(model=MODEL, messages=[{"role": "user", "content": "hello"}])
        models = {model.id: model for model in client.models.list()}

    assert text == "You said: hello"
    assert [block.type for block in whole.content] == ["thinking", "text"]
    assert counted.input_tokens == whole.usage.input_tokens == server.messages[0].input_tokens
    capabilities = models[MODEL].capabilities
    assert models[MODEL].max_input_tokens == 1_000_000
    assert capabilities is not None
    assert (capabilities.structured_outputs.supported, capabilities.thinking.types.enabled.supported) == (
        True,
        False,
    )


def test_the_cache_reads_what_it_wrote_for_the_same_prefix_only(server: ClaudeServer) -> None:
    """A test can see whether its prompt is cached, before it is paid for."""
    long = {"type": "text", "text": "instructions " * 400, "cache_control": {"type": "ephemeral"}}
    short = {"type": "text", "text": "short", "cache_control": {"type": "ephemeral"}}
    tokens = dense_count(long["text"])  # type: ignore[arg-type] # a text by its own words

    def used(**change: Any) -> tuple[int, int]:
        usage = post(server, {**HELLO, **change})[1]["usage"]
        return usage["cache_creation_input_tokens"], usage["cache_read_input_tokens"]

    assert used(system=[long]) == (tokens, 0)
    assert used(system=[long], messages=turns("another question")) == (0, tokens)
    assert used(system=[long, {**long, "text": "more " * 10}]) == (25, tokens)
    assert used(system=[short]) == (0, 0)
    assert used(system=[long], model="claude-opus-5-5") == (tokens, 0)


@pytest.mark.parametrize("stream", [False, True])
def test_openai_clients_are_answered_too(server: ClaudeServer, stream: bool) -> None:
    """Examples with an agent on that API need no second server."""
    messages = [
        {"role": "system", "content": "be brief"},
        *({"role": "user", "content": one} for one in "ab"),
    ]
    body = {"model": MODEL, "messages": messages, "stream": stream}
    data = json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310 - loopback
        f"{server.url}/v1/chat/completions", data, {"authorization": "Bearer k"}
    )

    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
        told = answer.read().decode()

    if stream:
        chunks = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: {")]
        text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
        assert told.endswith("data: [DONE]\n\n")
    else:
        text = json.loads(told)["choices"][0]["message"]["content"]
    assert text == "You said: a\nb"


def test_a_script_is_played_in_order_and_a_rule_decides_afterwards(server: ClaudeServer) -> None:
    """A fault now, a good answer next, and then whatever depends on the request."""
    server.then(script.overloaded(), script.OK, script.rate_limited("3"))
    server.rule = lambda request: script.server_error() if "bad" in request.text else None

    played = [post(server, HELLO) for _ in range(4)]
    ruled = post(server, {**HELLO, "messages": turns("bad")})

    assert [status for status, _, _ in played] == [529, 200, 429, 200]
    assert played[2][2]["retry-after"] == "3"
    assert ruled[0] == 500
    assert [request.status for request in server.messages] == [529, 200, 429, 200, 500]


def test_models_are_what_a_test_wants_them_to_be() -> None:
    """A gateway without schemas, a model without a stated window: all can be had."""
    odd = Served("house", window=None, most_output=None, structured=False, thinking=(), efforts=())
    with ClaudeServer(models=[odd]) as server:
        config = {"format": {"type": "json_schema", "schema": {"type": "string"}}}
        status, _, _ = post(server, {**HELLO, "model": "house", "output_config": config})
        plain, _, _ = post(server, {**HELLO, "model": "house"})

    assert (status, plain) == (400, 200)


def test_stopping_ends_what_hangs(server: ClaudeServer) -> None:
    """A test that is over leaves no thread that waits for ever."""
    server.then(script.hang())
    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(post, server, HELLO)
        wait_until(lambda: len(server.requests) == 1)

        server.stop()

        with pytest.raises(ConnectionError):
            hanging.result(10)


def test_the_command_says_how_to_use_it_and_ends_with_a_signal() -> None:
    """Two lines to paste into another terminal, then a line for each request."""
    command = [sys.executable, "-m", "takeaways.workers.cli", "claude-stub", "--faults", "overloaded"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "100"}
    ) as stub:
        assert stub.stdout is not None
        lines = [stub.stdout.readline() for _ in range(5)]
        exports = dict(re.findall(r"export (\w+)=(\S+)", "".join(lines)))

        class There:
            url = exports["ANTHROPIC_BASE_URL"]

        body = {**HELLO, "model": exports["TAKEAWAYS_MODEL"]}
        statuses = [post(There(), body)[0] for _ in range(2)]  # type: ignore[arg-type] # only its address is used
        stub.send_signal(signal.SIGTERM)
        rest = stub.stdout.read()

    assert statuses == [529, 200]
    assert stub.returncode == 0
    assert "529  /v1/messages  req_000001" in rest
    assert exports["ANTHROPIC_API_KEY"]


def test_a_fault_that_is_not_known_is_answered_with_those_that_are() -> None:
    """The list is where one looks for it."""
    ran = subprocess.run(
        [sys.executable, "-m", "takeaways.workers.cli", "claude-stub", "--faults", "ok,nonsense"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 2
    assert all(name in ran.stderr for name in ("nonsense", *script.FAULTS))
