"""Putting notes at the head of a conversation: the first user message, never the system prompt.

There they break no prompt cache: what stands before them (tools, system prompt) is the same for every
conversation, and in each the notes stay the same bytes. Doing it twice is the same as once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Protocol

from takeaways.recall.escape import untagged
from takeaways.schemas.errors import BadInput


class Noted(Protocol):
    """A `Note` or a `Snapshot`: a text, or None where there is nothing to show."""

    @property
    def text(self) -> str | None: ...


def at_head_anthropic(messages: Sequence[Mapping[str, Any]], *notes: Noted) -> list[dict[str, Any]]:
    """`messages` for the Messages API, with the notes as the first content blocks of the first user message."""
    blocks = [{"type": "text", "text": text} for text in _texts(notes)]
    return _at_head(messages, lambda content: _before(blocks, content))


def at_head_openai(messages: Sequence[Mapping[str, Any]], *notes: Noted) -> list[dict[str, Any]]:
    """`messages` for chat completions, with the notes before the first user message's own words.

    Content that is a string stays one, because many servers take nothing else.
    """
    texts = _texts(notes)
    parts = [{"type": "text", "text": text} for text in texts]
    return _at_head(
        messages,
        lambda content: (
            at_head_text(content, *notes) if isinstance(content, str) else _before(parts, content)
        ),
    )


def at_head_text(text: str, *notes: Noted) -> str:
    """The notes and then `text`, for models that take one string."""
    head = "\n\n".join(_texts(notes))
    return text if not head or text.startswith(head) else f"{head}\n\n{text}"


def as_typed(text: str) -> str:
    """What a person typed, with nothing in it that poses as one of our notes: such a tag begins with `‹`.

    Use it for the words of people before they join the messages; what they say stays readable.
    """
    return untagged(text)


def _texts(notes: Iterable[Noted]) -> list[str]:
    return [note.text for note in notes if note.text]


def _before(blocks: list[dict[str, str]], content: Any) -> list[Any]:
    """The blocks before the others, but after results of tools: the Messages API wants those first."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content else []
    results = list(takewhile(_is_result, content or ()))
    rest = list(content or ())[len(results) :]
    return [*results, *rest] if rest[: len(blocks)] == blocks else [*results, *blocks, *rest]


def _is_result(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "tool_result"


def _at_head(messages: Sequence[Mapping[str, Any]], changed: Any) -> list[dict[str, Any]]:
    result = [dict(message) for message in messages]
    for message in result:
        if message.get("role") == "user":
            message["content"] = changed(message.get("content"))
            return result
    raise BadInput("there is no user message yet; the notes belong at the head of the first one")
