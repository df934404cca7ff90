"""What a provider's failure means for the pipeline, as tables: the error to raise, and how long to wait."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from takeaways.schemas.errors import (
    FromModel,
    ModelFailed,
    ModelOverloaded,
    ModelParked,
    ModelRefused,
    ModelRejected,
    ModelUnavailable,
    ParkedBecause,
    TooLong,
)
from takeaways.workers.models.anthropic.endings import Failure, ending_of
from takeaways.workers.models.anthropic.reply import Incoming, Verdict
from takeaways.workers.models.anthropic.retry_after import MOST_SECONDS, retry_after_seconds
from tests.cases import case

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
INVALID = "invalid_request_error"


def ending(status: int, kind: str = "", message: str = "", **more: Any) -> FromModel:
    return ending_of(Failure(status, kind, message=message, request_id="req_1", **more), "claude-x", NOW)


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (Failure(429, "rate_limit_error"), ModelOverloaded),
        (Failure(429, "rate_limit_error", "ramp_limit_exceeded"), ModelOverloaded),
        (Failure(529, "overloaded_error"), ModelOverloaded),
        (Failure(529), ModelOverloaded),
        (Failure(200, "overloaded_error"), ModelOverloaded),
        (Failure(200, "api_error"), ModelFailed),
        (Failure(200, "a_new_error"), ModelFailed),
        (Failure(500, "api_error"), ModelFailed),
        (Failure(502), ModelFailed),
        (Failure(503), ModelFailed),
        (Failure(504, "timeout_error"), ModelFailed),
        (Failure(408), ModelFailed),
        (Failure(409, "conflict_error"), ModelFailed),
        (Failure(413, "request_too_large"), TooLong),
        (Failure(400, INVALID, message="prompt is too long: 9 tokens > 8 maximum"), TooLong),
        (Failure(400, INVALID, message="This model's maximum context length is 8192 tokens."), TooLong),
        (Failure(400, INVALID, message="input length and `max_tokens` exceed context limit: 9"), TooLong),
        (Failure(400, INVALID, message="messages.0: Input should be a valid list"), ModelRejected),
        (Failure(422), ModelRejected),
        (Failure(405), ModelRejected),
        (Failure(200, INVALID, message="messages.0: odd"), ModelRejected),
        (Failure(400, "exceed_context_size_error"), TooLong),
        (Failure(500, "exceed_context_size_error"), TooLong),
        (Failure(500, message="the request exceeds the available context size"), TooLong),
        (Failure(400, message="ContextWindowExceededError"), TooLong),
        (Failure(400, message="Too many tokens, please wait before trying again."), ModelOverloaded),
        (Failure(400, "ThrottlingException", message="Rate limit exceeded"), ModelOverloaded),
        (Failure(400, INVALID, message="Output blocked by content filtering policy"), ModelRefused),
        (Failure(200, INVALID, message="Output blocked by content filtering policy"), ModelRefused),
        (Failure(500, message="sensitive words detected"), ModelRefused),
        (Failure(403, message="your request did not allow prompt caching"), ModelRejected),
        (
            Failure(
                400, INVALID, message=f'messages.0: "{"we hit the rate limit of the prompt caching " * 2}"'
            ),
            ModelRejected,
        ),
    ],
)
def test_a_failure_is_sorted_by_what_the_pipeline_has_to_do(
    failure: Failure, expected: type[FromModel]
) -> None:
    """Within a stream the status is 200 whatever happened: the error's type goes first."""
    assert type(ending_of(failure, "claude-x", NOW)) is expected


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (Failure(401, "authentication_error"), ParkedBecause.AUTHENTICATION),
        (Failure(401), ParkedBecause.AUTHENTICATION),
        (Failure(403, "permission_error"), ParkedBecause.PERMISSION),
        (Failure(404, "not_found_error"), ParkedBecause.UNKNOWN_MODEL),
        (Failure(402, "billing_error"), ParkedBecause.SPEND_LIMIT),
        (Failure(429, "rate_limit_error", "enforced_spend_limit_reached"), ParkedBecause.SPEND_LIMIT),
        (Failure(429, "rate_limit_error", "contract_spend_limit_reached"), ParkedBecause.SPEND_LIMIT),
        (Failure(402, "billing_error", "linked_organization_spend_limit_reached"), ParkedBecause.SPEND_LIMIT),
        (
            Failure(400, INVALID, message="Your credit balance is too low to access the API."),
            ParkedBecause.SPEND_LIMIT,
        ),
        (
            Failure(
                400, INVALID, message="You have reached your API usage limits. You will regain access on"
            ),
            ParkedBecause.SPEND_LIMIT,
        ),
        (Failure(400, INVALID, message="This organization has been disabled."), ParkedBecause.PERMISSION),
    ],
)
def test_what_no_waiting_cures_parks_the_model(failure: Failure, reason: ParkedBecause) -> None:
    """A spend limit comes as 429 and must not be asked about again in two seconds, by every worker."""
    found = ending_of(failure, "claude-x", NOW)

    assert isinstance(found, ModelParked)
    assert (found.reason, found.model) == (reason, "claude-x")


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("prompt is too long: 204812 tokens > 200000 maximum", 200_000),
        ("prompt is too long: 204,812 tokens > 200,000 maximum", 200_000),
        ("This model's maximum context length is 8192 tokens. However, you asked for 9000", 8_192),
        ("input length and `max_tokens` exceed context limit: 174167 + 64000 > 200000, decrease", 200_000),
        ("request (14429 tokens) exceeds the available context size (8192 tokens)", 8_192),
        ("prompt is too long", None),
    ],
)
def test_the_limit_is_read_out_of_the_message(message: str, limit: int | None) -> None:
    """The next try can be as large as it may be."""
    found = ending(400, INVALID, message)

    assert isinstance(found, TooLong)
    assert found.limit_tokens == limit


def test_an_error_is_told_without_what_was_sent() -> None:
    """It goes into tables and logs: some gateways quote the request in their message."""
    secret = "my password is hunter2 and nobody may know that"

    found = ending(400, INVALID, f'messages.0.content: invalid value "{secret}" here')

    assert secret not in str(found)
    assert "messages.0.content" in str(found)
    assert "req_1" in str(found)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": " 1.5 "}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Mon, 30 Nov 2026 12:01:00 GMT"}, 60.0),
        ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "86400"}, MOST_SECONDS),
        ({"retry-after": "1e300"}, MOST_SECONDS),
        ({"retry-after": "inf"}, MOST_SECONDS),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, MOST_SECONDS),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
        (
            {
                "anthropic-ratelimit-requests-remaining": "3",
                "anthropic-ratelimit-requests-reset": "2026-11-30T12:30:00Z",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-30T12:00:40Z",
            },
            40.0,
        ),
        (
            {"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "whenever"},
            None,
        ),
    ],
)
def test_every_form_of_retry_after_is_understood_and_capped(
    headers: dict[str, str], seconds: float | None
) -> None:
    """Seconds, milliseconds, a date, an exhausted limit's reset; never a day, never a negative time."""
    assert retry_after_seconds(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("message", "headers", "limit"),
    [
        ("This request would exceed the limit of 20,000 input tokens per minute.", {}, 20_000),
        ("slow down", {"Anthropic-Ratelimit-Input-Tokens-Limit": "30000"}, 30_000),
        ("slow down", {"anthropic-ratelimit-tokens-limit": "many"}, None),
        ("slow down", {}, None),
    ],
)
def test_a_rate_limit_says_how_much_may_be_sent_in_a_minute(
    message: str, headers: dict[str, str], limit: int | None
) -> None:
    """A request that is larger is refused for ever, however long one waits."""
    found = ending(429, "rate_limit_error", message, headers=headers)

    assert isinstance(found, ModelOverloaded)
    assert found.limit_tokens == limit


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"error": {"message": "the API's own"}}, "the API's own"),
        ({"message": "cache_control: not permitted"}, "cache_control: not permitted"),
        ({"error": "effort: not supported"}, "effort: not supported"),
        ({"detail": "not allowed"}, "not allowed"),
        (
            {"detail": [{"loc": ["body", "thinking"], "msg": "not permitted", "input": "what was said"}]},
            "body.thinking: not permitted",
        ),
        ({"detail": [None]}, ""),
        ("<html>502</html>", ""),
        (None, ""),
    ],
)
def test_a_gateway_says_what_is_wrong_in_a_form_of_its_own(body: Any, told: str) -> None:
    """What it does not take is left out next time: only if somebody reads the complaint. Input is not repeated."""
    api = body["error"]["message"] if isinstance(body, dict) and isinstance(body.get("error"), dict) else None
    error = SimpleNamespace(
        status_code=400,
        type=None,
        error_code=None,
        api_message=api,
        request_id=None,
        response=SimpleNamespace(headers={}),
        body=body,
    )

    assert Failure.of(error).message == told


@pytest.mark.parametrize("status", [429, 500, 529])
def test_without_a_word_from_the_provider_there_is_a_sensible_wait(status: int) -> None:
    """Not at once, and not for ever."""
    found = ending(status)

    assert isinstance(found, ModelUnavailable)
    assert 1 <= found.retry_after_seconds <= 60


# --- replies --------------------------------------------------------------------------------------


def event(**fields: Any) -> Any:
    """An event as the SDK hands it on: attributes, of which any may be missing."""
    return SimpleNamespace(
        **{name: event(**value) if isinstance(value, dict) else value for name, value in fields.items()}
    )


@pytest.mark.parametrize(
    ("reason", "verdict"),
    [
        ("end_turn", Verdict.WHOLE),
        ("stop_sequence", Verdict.WHOLE),
        ("max_tokens", Verdict.CUT),
        ("refusal", Verdict.REFUSED),
        ("model_context_window_exceeded", Verdict.TOO_LONG),
        ("tool_use", Verdict.UNFINISHED),
        ("pause_turn", Verdict.UNFINISHED),
        ("compaction", Verdict.UNFINISHED),
        ("brand_new_reason", Verdict.UNFINISHED),
    ],
)
def test_only_two_stop_reasons_make_a_whole_answer(reason: str, verdict: Verdict) -> None:
    """Also a reason that is yet to be invented must not pass for success."""
    incoming = Incoming()
    incoming.take(event(type="content_block_delta", delta={"type": "text_delta", "text": "{}"}))
    incoming.take(event(type="message_delta", delta={"stop_reason": reason}))

    reply = incoming.reply()

    assert reply is not None
    assert reply.verdict is verdict


def test_a_stream_that_never_says_why_it_ended_is_no_reply() -> None:
    """Half an answer of a connection that closed properly would look whole."""
    incoming = Incoming()
    incoming.take(event(type="message_start", message={"usage": {"input_tokens": 90, "output_tokens": 1}}))
    incoming.take(event(type="content_block_delta", delta={"type": "text_delta", "text": '{"rooms":[]}'}))

    assert incoming.reply() is None
    assert incoming.usage.input_tokens == 90


def test_thinking_is_no_part_of_the_answer_and_events_may_be_bare() -> None:
    """A thinking block comes first; gateways leave out fields and whole events."""
    incoming = Incoming()
    incoming.take(event(type="ping"))
    incoming.take(event(type="message_start", message={"content": []}))
    incoming.take(event(type="content_block_start", content_block={"type": "thinking", "thinking": "hm"}))
    incoming.take(event(type="content_block_delta", delta={"type": "thinking_delta", "thinking": "hm"}))
    incoming.take(event(type="content_block_start", content_block={"type": "text", "text": "{"}))
    incoming.take(event(type="content_block_delta", delta={"type": "text_delta", "text": "}"}))
    incoming.take(event(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 7}))
    incoming.take(event(type="something_new"))

    reply = incoming.reply()

    assert reply is not None
    assert (reply.text, reply.usage.output_tokens) == ("{}", 7)


def test_input_counts_what_was_cached_and_written_too() -> None:
    """The provider reports the three apart; budgets and prices want the sum and the parts."""
    incoming = Incoming()
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 200,
        "cache_creation_input_tokens": 30,
        "output_tokens": 1,
    }
    incoming.take(event(type="message_start", message={"usage": usage}))
    incoming.take(event(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 5}))

    spent = incoming.usage

    assert (spent.input_tokens, spent.cached_tokens, spent.written_tokens, spent.output_tokens) == (
        240,
        200,
        30,
        5,
    )


def test_the_failures_of_the_reports_are_all_to_be_waited_for() -> None:
    """An overload comes as a status, within a stream, or as a stream that just ends: none is fatal."""
    status, in_stream, closed, _ = case("MA-07")["model"]

    assert isinstance(ending(status["http"], status["body"]["error"]["type"]), ModelOverloaded)
    assert '"overloaded_error"' in in_stream["sse"][-1]
    assert isinstance(ending(in_stream["http"], "overloaded_error"), ModelOverloaded)
    assert closed["then"] == "connection closed"  # the integration tests close one


def test_too_long_is_never_a_reason_to_ask_the_same_again() -> None:
    """The report's session was never remembered, because every retry was as long as the first."""
    (answer,) = case("MA-08")["model"]

    found = ending(answer["http"], answer["body"]["error"]["type"], answer["body"]["error"]["message"])

    assert isinstance(found, TooLong)
    assert found.limit_tokens == 200_000
