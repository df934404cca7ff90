"""Refusing what the Messages API refuses, in its words where they matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from takeaways.workers.testing.claude.served import Served

_KNOWN: Final = frozenset(
    {
        "cache_control",
        "container",
        "diagnostics",
        "inference_geo",
        "max_tokens",
        "messages",
        "metadata",
        "model",
    }
    | {"output_config", "service_tier", "speed", "stop_sequences", "stream", "system", "thinking"}
    | {"tool_choice", "tools", "user_profile_id", "workspace_id"}
)
_GONE: Final = ("temperature", "top_p", "top_k")
_MOST_BREAKPOINTS: Final = 4
_SCHEMA_WORDS: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "anyOf", "allOf", "enum", "const"}
    | {"$ref", "$defs", "description", "title", "format", "minItems"}
)


@dataclass(frozen=True)
class Refused(Exception):
    """An error answer of the API."""

    status: int
    type: str
    message: str


def invalid(message: str) -> Refused:
    return Refused(400, "invalid_request_error", message)


def check(body: dict[str, Any], model: Served, *, counting: bool = False) -> None:
    """Raises `Refused` for a request that the API would not take. `counting`: without what only an answer needs."""
    for name in _GONE:
        if name in body:
            raise invalid(f"{name}: this parameter is no longer supported")
    if unknown := sorted(body.keys() - _KNOWN):
        raise invalid(f"{unknown[0]}: Extra inputs are not permitted")
    if not counting:
        _check_max_tokens(body.get("max_tokens"), model)
    _check_turns(body.get("messages"))
    _check_system(body.get("system"))
    _check_output(body.get("output_config") or {}, model)
    _check_thinking(body, model)
    if sum("cache_control" in block for block in blocks(body)) > _MOST_BREAKPOINTS:
        raise invalid(f"A maximum of {_MOST_BREAKPOINTS} blocks with cache_control may be provided")


def blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every block in the order in which a prompt is made of them: tools, system, messages."""
    yield from body.get("tools") or ()
    yield from as_blocks(body.get("system") or ())
    for turn in body.get("messages") or ():
        yield from as_blocks(turn.get("content") or ())


def as_blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _check_max_tokens(value: Any, model: Served) -> None:
    if value is None:
        raise invalid("max_tokens: Field required")
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise invalid("max_tokens: Input should be an integer of at least 1")
    if model.most_output is not None and value > model.most_output:
        raise invalid(f"max_tokens: {value} > {model.most_output}, the most that {model.name} gives out")


def _check_turns(turns: Any) -> None:
    if not isinstance(turns, list) or not turns:
        raise invalid("messages: at least one message is required")
    open_calls: set[str] = set()
    for number, turn in enumerate(turns):
        role = turn.get("role") if isinstance(turn, dict) else None
        if role not in ("user", "assistant"):
            raise invalid(f"messages.{number}.role: Input should be 'user' or 'assistant'")
        if role != ("user", "assistant")[number % 2]:
            raise invalid(
                'messages: roles must alternate between "user" and "assistant", beginning with "user"'
            )
        open_calls = _check_content(turn.get("content"), number, role, open_calls)
    if turns[-1]["role"] == "assistant":
        raise invalid("messages: the conversation must end with a user message; prefill is not supported")


def _check_content(content: Any, number: int, role: str, open_calls: set[str]) -> set[str]:
    where = f"messages.{number}"
    if not content or not isinstance(content, str | list):
        raise invalid(f"{where}: all messages must have non-empty content")
    answered: set[str] = set()
    called: set[str] = set()
    for place, block in enumerate(as_blocks(content)):
        kind = block.get("type")
        if kind == "text" and not str(block.get("text") or "").strip():
            raise invalid(f"{where}.content.{place}: text content blocks must be non-empty")
        if kind == "tool_use" and role == "assistant":
            called.add(str(block.get("id")))
        if kind == "tool_result":
            if block.get("tool_use_id") not in open_calls:
                raise invalid(
                    f"{where}.content.{place}: a `tool_result` needs its `tool_use` in the message before"
                )
            answered.add(str(block.get("tool_use_id")))
    if open_calls - answered:
        raise invalid(f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after")
    return called


def _check_system(system: Any) -> None:
    for place, block in enumerate(as_blocks(system or ())):
        if block.get("type") != "text" or not str(block.get("text") or "").strip():
            raise invalid(f"system.{place}: text content blocks must be non-empty")


def _check_output(config: dict[str, Any], model: Served) -> None:
    effort, wanted = config.get("effort"), config.get("format")
    if effort is not None and effort not in model.efforts:
        raise invalid(f"output_config.effort: {model.name} does not support the effort {effort!r}")
    if wanted is None:
        return
    if not model.structured:
        raise invalid(f"output_config.format: structured outputs are not supported by {model.name}")
    if wanted.get("type") != "json_schema":
        raise invalid("output_config.format.type: Input should be 'json_schema'")
    _check_schema(wanted.get("schema"), "output_config.format.schema")


def _check_schema(schema: Any, where: str) -> None:
    if not isinstance(schema, dict):
        raise invalid(f"{where}: Input should be an object")
    if unknown := sorted(schema.keys() - _SCHEMA_WORDS):
        raise invalid(f"{where}: {unknown[0]!r} is not supported")
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        raise invalid(f"{where}: for 'object' type, 'additionalProperties' must be explicitly set to false")
    for group in ("properties", "$defs"):
        for name, inner in (schema.get(group) or {}).items():
            _check_schema(inner, f"{where}.{name}")
    for inner in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
        _check_schema(inner, where)
    if "items" in schema:
        _check_schema(schema["items"], where)


def _check_thinking(body: dict[str, Any], model: Served) -> None:
    kind = (body.get("thinking") or {}).get("type")
    if kind is not None and kind not in model.thinking:
        raise invalid(f"thinking.type: {model.name} does not support {kind!r}")
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        raise invalid("tool_choice: Forced tool use is not supported by this model")
