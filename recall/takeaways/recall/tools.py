"""Tools that a model may call, for every way of calling them: Anthropic's, OpenAI's, and plain Python.

A `Toolbox` defines its tools for a provider and answers the calls in a response. Calls of other tools are left
to whoever offers those.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from takeaways.schemas.errors import BadInput
from takeaways.schemas.ids import digest, why_bad


@dataclass(frozen=True, slots=True)
class Call:
    """One call: its arguments as the model wrote them. A repeat has the same `call_id`, and nothing else has."""

    arguments: object
    call_id: str | None = None
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: what a model is told about it, and what answers a call. `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]
    answer: Callable[[Call], dict[str, Any]]


class Toolbox:
    """Some tools together. `turn_id` names one turn of the conversation, in which failures are counted."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools = {tool.name: tool for tool in tools}

    def for_anthropic(self) -> list[dict[str, Any]]:
        """The definitions for `tools` of the Messages API."""
        return [
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in self.tools.values()
        ]

    def for_openai(self) -> list[dict[str, Any]]:
        """The definitions for `tools` of OpenAI's chat completions."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in self.tools.values()
        ]

    def call(
        self, name: str, arguments: object, *, call_id: str | None = None, turn_id: str | None = None
    ) -> dict[str, Any]:
        """Answer one call: a JSON object with `ok`. Raises `BadInput` for a tool that is not in the box.

        `call_id` tells repeats within the turn where `turn_id` names one: some providers number the calls of
        every conversation from 0.
        """
        if (tool := self.tools.get(name)) is None:
            raise BadInput(f"there is no tool {name!r} here, only {', '.join(self.tools) or 'none'}")
        return tool.answer(Call(arguments, _repeats_by(call_id, turn_id), turn_id))

    def answer_anthropic(self, content: Iterable[Any], *, turn_id: str | None = None) -> list[dict[str, Any]]:
        """The `tool_result` blocks for our calls in the content of a response, for the next user message.

        `content` holds blocks of the SDK or plain dicts.
        """
        results = []
        for block in content:
            if _get(block, "type") == "tool_use" and (name := _get(block, "name")) in self.tools:
                call_id = _get(block, "id")
                answer = self.call(name, _get(block, "input"), call_id=call_id, turn_id=turn_id)
                results.append(
                    {
                        "type": "tool_result",
                        "tool_use_id": call_id,
                        "content": json.dumps(answer, ensure_ascii=False),
                        "is_error": not answer["ok"],
                    }
                )
        return results

    def answer_openai(self, message: Any, *, turn_id: str | None = None) -> list[dict[str, Any]]:
        """The messages of role `tool` that answer our calls in an assistant's message, SDK object or dict."""
        results = []
        for call in _get(message, "tool_calls") or ():
            function = _get(call, "function")
            if (name := _get(function, "name")) in self.tools:
                call_id = _get(call, "id")
                answer = self.call(name, _get(function, "arguments"), call_id=call_id, turn_id=turn_id)
                results.append(
                    {
                        "role": "tool",
                        "tool_call_id": call_id,
                        "content": json.dumps(answer, ensure_ascii=False),
                    }
                )
        return results

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools.values())


def _repeats_by(call_id: str | None, turn_id: str | None) -> str | None:
    """The id that tells a repeat of a call; None for an id of another platform that breaks our rule."""
    if call_id is None or why_bad(call_id):
        return None
    within = f"{turn_id}/{call_id}" if turn_id is not None else call_id
    return digest(within) if why_bad(within) else within


def arguments_of(call: Call) -> dict[str, Any]:
    """The arguments as an object; what is none is an empty one, for tools that need nothing."""
    arguments = call.arguments
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            return {}
    return dict(arguments) if isinstance(arguments, Mapping) else {}


def _get(found: Any, name: str) -> Any:
    return found.get(name) if isinstance(found, Mapping) else getattr(found, name, None)
