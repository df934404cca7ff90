"""What the server does instead of a good answer: faults and odd answers, as values that a test lists in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final


class Break(Enum):
    """How a connection ends in the middle of things."""

    RESET = auto()
    CLOSE = auto()
    HANG = auto()
    ERROR_EVENT = auto()


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A call of a tool that the answer makes, by the tool's name."""

    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scripted:
    """One answer of the server. Everything that is left as it is is as the API would do it.

    `text` stands in place of the answer, `reshape` changes it; `calls` are the tools that it calls. `instead` is sent
    in place of the whole message, as JSON.
    `status` other than 200 is an error with `type`, `message` and `code`. `breaks` ends the connection:
    `after_text` behind half of the answer, else before the first byte. `delay_seconds` is waited before
    the first byte, and the answer comes at `characters_a_second` where set.
    """

    status: int = 200
    type: str = ""
    message: str = ""
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    calls: tuple[ToolUse, ...] = ()
    instead: Mapping[str, Any] | None = None
    reshape: Callable[[str], str] | None = None
    stop_reason: str | None = None
    category: str | None = None
    delay_seconds: float = 0.0
    characters_a_second: float | None = None
    breaks: Break | None = None
    after_text: bool = False


OK: Final = Scripted()
"""A good answer, where one is wanted between faults."""


def rate_limited(retry_after: str | None = "2", **headers: str) -> Scripted:
    """429. `retry_after` is what the header says, in any form; None sends none."""
    told = {} if retry_after is None else {"retry-after": retry_after}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Scripted(
        429, "rate_limit_error", "This request would exceed your rate limit.", headers=told | named
    )


def overloaded(retry_after: str | None = None) -> Scripted:
    """529."""
    told = {} if retry_after is None else {"retry-after": retry_after}
    return Scripted(529, "overloaded_error", "Overloaded", headers=told)


def server_error(status: int = 500) -> Scripted:
    return Scripted(status, "api_error", "Internal server error")


def spend_limit() -> Scripted:
    """429 that no waiting cures."""
    code = "enforced_spend_limit_reached"
    return Scripted(429, "rate_limit_error", "The organization has reached its spend limit.", code)


def unauthorized() -> Scripted:
    return Scripted(401, "authentication_error", "invalid x-api-key")


def forbidden() -> Scripted:
    return Scripted(403, "permission_error", "Your key may not use this model.")


def too_long(tokens: int = 204_812, limit: int = 200_000) -> Scripted:
    return Scripted(400, "invalid_request_error", f"prompt is too long: {tokens} tokens > {limit} maximum")


def reset(*, after_text: bool = False) -> Scripted:
    """The connection is torn down."""
    return Scripted(breaks=Break.RESET, after_text=after_text)


def closed_early() -> Scripted:
    """The stream ends properly, in the middle of the answer."""
    return Scripted(breaks=Break.CLOSE, after_text=True)


def hang(*, after_text: bool = False) -> Scripted:
    """Nothing more comes until the client leaves."""
    return Scripted(breaks=Break.HANG, after_text=after_text)


def slow(characters_a_second: float = 50.0) -> Scripted:
    return Scripted(characters_a_second=characters_a_second)


def late(seconds: float) -> Scripted:
    return Scripted(delay_seconds=seconds)


def error_after_text() -> Scripted:
    """An overload, told within a stream that began with 200. Without streaming it is a 529."""
    return Scripted(type="overloaded_error", message="Overloaded", breaks=Break.ERROR_EVENT, after_text=True)


def cut_json() -> Scripted:
    """Half of the answer, and `max_tokens` as the reason."""
    return Scripted(reshape=lambda text: text[: len(text) // 2], stop_reason="max_tokens")


def half_json() -> Scripted:
    """Half of the answer that claims to be whole."""
    return Scripted(reshape=lambda text: text[: len(text) // 2])


def fenced_json() -> Scripted:
    return Scripted(reshape=lambda text: f"```json\n{text}\n```")


def prose_around() -> Scripted:
    return Scripted(reshape=lambda text: f"Sure! Here it is:\n\n{text}\n\nHope this helps {{really}}.")


def wrong_shape() -> Scripted:
    return Scripted(text='{"lessons": [{"title": "not what was asked for"}]}')


def garbage() -> Scripted:
    return Scripted(text="%PDF-1.7 \x00\ufffd not an answer")


def calling(*calls: ToolUse, text: str = "") -> Scripted:
    """An answer that calls tools."""
    return Scripted(text=text, calls=calls)


def empty() -> Scripted:
    """An answer with no content at all."""
    return Scripted(text="")


def refusal(category: str | None = "cyber") -> Scripted:
    return Scripted(text="", stop_reason="refusal", category=category)


def window_full() -> Scripted:
    """The window ends in the middle of the answer."""
    return Scripted(reshape=lambda text: text[: len(text) // 2], stop_reason="model_context_window_exceeded")


def stopped(reason: str) -> Scripted:
    """The whole answer, with another reason for its end."""
    return Scripted(stop_reason=reason)


FAULTS: Final[Mapping[str, Callable[[], Scripted]]] = {
    "ok": lambda: OK,
    "rate-limited": rate_limited,
    "overloaded": overloaded,
    "server-error": server_error,
    "spend-limit": spend_limit,
    "unauthorized": unauthorized,
    "forbidden": forbidden,
    "too-long": too_long,
    "reset": reset,
    "closed-early": closed_early,
    "hang": hang,
    "slow": slow,
    "error-after-text": error_after_text,
    "cut-json": cut_json,
    "half-json": half_json,
    "fenced-json": fenced_json,
    "prose-around": prose_around,
    "wrong-shape": wrong_shape,
    "garbage": garbage,
    "empty": empty,
    "refusal": refusal,
    "window-full": window_full,
}
"""By the names that `takeaways claude-stub --faults` knows."""
