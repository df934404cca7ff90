"""Messages as the API writes them: whole, as a stream of events, and as OpenAI's chat completions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from takeaways.workers.testing.claude.prompt_cache import Counted
from takeaways.workers.testing.claude.script import ToolUse

CHUNK: Final = 400


@dataclass(frozen=True, slots=True)
class Answer:
    """A message that the server gives. `thought` comes in a block of its own, before the text."""

    id: str
    model: str
    text: str
    stop_reason: str
    counted: Counted
    output_tokens: int
    thought: str = ""
    category: str | None = None
    calls: tuple[ToolUse, ...] = ()

    def usage(self, output_tokens: int) -> dict[str, Any]:
        return {
            "input_tokens": self.counted.fresh,
            "cache_creation_input_tokens": self.counted.written,
            "cache_read_input_tokens": self.counted.read,
            "output_tokens": output_tokens,
            "service_tier": "standard",
        }

    def blocks(self) -> list[dict[str, Any]]:
        thinking = (
            [{"type": "thinking", "thinking": self.thought, "signature": "c3R1Yg=="}] if self.thought else []
        )
        said = [{"type": "text", "text": self.text}] if self.text else []
        calls = [
            {"type": "tool_use", "id": self._call_id(place), "name": call.name, "input": dict(call.input)}
            for place, call in enumerate(self.calls)
        ]
        return [*thinking, *said, *calls]

    def _call_id(self, place: int) -> str:
        return f"toolu_{self.id}_{place}"

    @property
    def stop_details(self) -> dict[str, Any] | None:
        return {"type": "refusal", "category": self.category} if self.category else None

    def message(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": self.blocks(),
            "stop_reason": self.stop_reason,
            "stop_sequence": None,
            "stop_details": self.stop_details,
            "usage": self.usage(self.output_tokens),
        }

    def events(self) -> Iterator[bytes]:
        """The stream, event by event."""
        empty: dict[str, Any] = {"content": [], "stop_reason": None, "usage": self.usage(1)}
        yield event("message_start", message={**self.message(), **empty})
        yield event("ping")
        for index, block in enumerate(self.blocks()):
            if block["type"] == "tool_use":
                yield event("content_block_start", index=index, content_block={**block, "input": {}})
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
                yield event("content_block_delta", index=index, delta=delta)
                yield event("content_block_stop", index=index)
                continue
            field, kind = (
                ("thinking", "thinking_delta") if block["type"] == "thinking" else ("text", "text_delta")
            )
            yield event("content_block_start", index=index, content_block={**block, field: ""})
            text = block[field]
            for start in range(0, len(text), CHUNK):
                delta = {"type": kind, field: text[start : start + CHUNK]}
                yield event("content_block_delta", index=index, delta=delta)
            yield event("content_block_stop", index=index)
        ending = {"stop_reason": self.stop_reason, "stop_sequence": None, "stop_details": self.stop_details}
        yield event("message_delta", delta=ending, usage=self.usage(self.output_tokens))
        yield event("message_stop")

    def completion(self) -> dict[str, Any]:
        """As OpenAI's API answers."""
        reason = {"max_tokens": "length", "tool_use": "tool_calls"}.get(self.stop_reason, "stop")
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": self._call_id(place),
                    "type": "function",
                    "function": {"name": call.name, "arguments": json.dumps(dict(call.input))},
                }
                for place, call in enumerate(self.calls)
            ]
        total = self.counted.total
        return {
            "id": f"chatcmpl-{self.id}",
            "object": "chat.completion",
            "created": 0,
            "model": self.model,
            "choices": [{"index": 0, "finish_reason": reason, "message": message}],
            "usage": {
                "prompt_tokens": total,
                "completion_tokens": self.output_tokens,
                "total_tokens": total + self.output_tokens,
            },
        }

    def completion_chunks(self) -> Iterator[bytes]:
        """The same as a stream."""
        whole = self.completion()
        chunk = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
        for start in range(0, len(self.text), CHUNK):
            delta = {"role": "assistant", "content": self.text[start : start + CHUNK]}
            yield _data({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if calls := whole["choices"][0]["message"].get("tool_calls"):
            numbered = [{"index": index, **call} for index, call in enumerate(calls)]
            called = {"role": "assistant", "tool_calls": numbered}
            yield _data({**chunk, "choices": [{"index": 0, "delta": called, "finish_reason": None}]})
        last = {"index": 0, "delta": {}, "finish_reason": whole["choices"][0]["finish_reason"]}
        yield _data({**chunk, "choices": [last], "usage": whole["usage"]})
        yield b"data: [DONE]\n\n"


def event(kind: str, **more: Any) -> bytes:
    return f"event: {kind}\n".encode() + _data({"type": kind, **more})


def error_body(kind: str, message: str, code: str = "", request_id: str = "") -> dict[str, Any]:
    details = {"details": {"error_code": code}} if code else {}
    error = {"type": kind, "message": message, **details}
    return {"type": "error", "error": error, **({"request_id": request_id} if request_id else {})}


def _data(value: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def messages_of(body: Any) -> dict[str, Any]:
    """A request of OpenAI's API as one of ours: instructions apart, turns of one role joined, tools as blocks."""
    system: list[str] = []
    turns: list[dict[str, Any]] = []
    for turn in body.get("messages") or ():
        if turn.get("role") in ("system", "developer"):
            system += [block["text"] for block in _blocks_of(turn)]
            continue
        role = "assistant" if turn.get("role") == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += _blocks_of(turn)
        else:
            turns.append({"role": role, "content": _blocks_of(turn)})
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or 4_096
    made: dict[str, Any] = {"model": body.get("model"), "messages": turns, "max_tokens": limit}
    return {**made, "system": "\n".join(system)} if system else made


def _blocks_of(turn: dict[str, Any]) -> list[dict[str, Any]]:
    content = turn.get("content") or ""
    texts = [content] if isinstance(content, str) else [str(one.get("text", "")) for one in content]
    if turn.get("role") == "tool":
        return [{"type": "tool_result", "tool_use_id": turn.get("tool_call_id"), "content": "\n".join(texts)}]
    calls = [
        {"type": "tool_use", "id": call.get("id"), "name": call["function"]["name"], "input": {}}
        for call in turn.get("tool_calls") or ()
    ]
    return [*({"type": "text", "text": text} for text in texts if text), *calls]
