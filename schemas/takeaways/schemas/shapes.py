"""The shapes in which the model APIs know a message, and the one form that we know: parts.

Read are Anthropic content blocks, OpenAI chat messages and response items, the blocks of Bedrock and Gemini,
MCP content, plain text, any other JSON, and parts themselves, which stay as they are. Whatever stands in a
message, reading it never fails: what has no name here is kept as the text of its JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from takeaways.schemas.attachments import FILE_KINDS, PLAIN_KINDS, attachment
from takeaways.schemas.events import Message
from takeaways.schemas.parts import AnyPart, Attachment, Parts, Text, Thinking, ToolCall, ToolResult
from takeaways.schemas.readable import cleaned, label, shown, whole_number, written
from takeaways.schemas.text import mend

_MAX_NESTING: Final = 20  # of blocks within blocks; below it a value is shown as JSON

Json = dict[str, Any]
Blocks = list[AnyPart]

# Sealed or technical: it says nothing to a reader of the conversation.
_SEALED_KEYS: Final = frozenset({"cache_control", "encrypted_content", "encrypted_index", "signature"})


def normalise(message: Message) -> Parts:
    """Return what a message says as parts: mended text, and bytes as attachments or short placeholders.

    Never raises on JSON. Parts given as content come back equal.
    """
    answers_call = message.role in ("tool", "function")
    if isinstance(message.content, str) and not answers_call and not _has_more(message):
        return tuple(_text(message.content))
    found = [
        *_thought(message.reasoning_content),
        *_content(message.content, 0),
        *_text_of(message.refusal),
        *_recording(message.audio),
        *_calls(message.tool_calls),
        *_calls(message.function_call),
    ]
    return tuple(_as_result(found, message) if answers_call else found)


def _has_more(message: Message) -> bool:
    return not (
        message.tool_calls is None
        and message.function_call is None
        and message.refusal is None
        and message.reasoning_content is None
        and message.audio is None
    )


def _as_result(found: Blocks, message: Message) -> Blocks:
    """In a message of a tool, what is no part of its own is the result."""
    call_id = message.tool_call_id if message.tool_call_id is not None else message.name or ""
    result, others = _one_result(found, call_id=call_id, is_error=False)
    has_own = any(isinstance(part, ToolResult) for part in others)
    return others if has_own and not (result.text or result.cut_chars) else [result, *others]


def _one_result(found: Blocks, *, call_id: Any, is_error: bool) -> tuple[ToolResult, Blocks]:
    """Put the texts of `found` into one result; what is no text stays beside it."""
    said: list[Text | Attachment] = []
    others: Blocks = []
    for part in found:
        if isinstance(part, Text) or (isinstance(part, Attachment) and _is_shown_json(part)):
            said.append(part)
        else:
            others.append(part)
    result = ToolResult(
        call_id=label(call_id),
        text=mend("\n".join(part.text for part in said)),
        is_error=is_error,
        cut_chars=sum(part.cut_chars for part in said),
    )
    return result, others


def _content(value: Any, nesting: int) -> Blocks:
    if isinstance(value, list) and nesting < _MAX_NESTING:
        return [part for item in value for part in _content(item, nesting + 1)]
    if isinstance(value, dict) and nesting < _MAX_NESTING:
        return _block(value, nesting)
    return _text_of(value)


def _block(block: Json, nesting: int) -> Blocks:
    kind = block.get("type")
    inside = partial(_content, nesting=nesting + 1)
    if not isinstance(kind, str):
        return _untyped(block, nesting)
    if kind in ("text", "input_text", "output_text", "summary_text", "refusal"):
        return _text_block(block, kind)
    if kind in ("thinking", "redacted_thinking", "reasoning"):
        return _thinking_block(block)
    if kind in FILE_KINDS:
        return attachment(block, FILE_KINDS[kind], inside)
    if kind in ("tool_call", "function", "custom") or kind.endswith(
        (
            "tool_use",
            "function_call",
            "tool_call",
            "shell_call",
            "computer_call",
            "_search_call",
            "patch_call",
        )
    ):
        return [_call(block)]
    if kind.endswith(("tool_result", "call_output")):
        return _result_block(block, nesting)
    if kind == "attachment":
        return attachment(block, label(block.get("kind")) or "file", inside)
    if isinstance(said := block.get("text"), str) and len(block) == 2:
        return _text(said)
    unsealed = {key: value for key, value in block.items() if key not in _SEALED_KEYS}
    return [Attachment(kind=label(kind) or "file", text=shown(unsealed))]


def _is_shown_json(part: Attachment) -> bool:
    return part.kind not in PLAIN_KINDS and part.size_bytes is None and not part.name


def _untyped(block: Json, nesting: int) -> Blocks:
    """A block that names its kind by its key (Bedrock, Gemini), a bare text, or any other object."""
    inside = partial(_content, nesting=nesting + 1)
    for key in ("toolUse", "functionCall"):
        if isinstance(inner := block.get(key), dict):
            return [_call(inner)]
    for key in ("toolResult", "functionResponse"):
        if isinstance(inner := block.get(key), dict):
            return _result_block(inner, nesting)
    for key in ("inlineData", "fileData", "image", "document", "video"):
        if len(block) == 1 and isinstance(block.get(key), dict):
            return attachment(block, key if key in PLAIN_KINDS else "file", inside)
    if isinstance(said := block.get("text"), str) and len(block) == 1:
        return _text(said)
    return _text(shown(block))


def _text_block(block: Json, kind: str) -> Blocks:
    said = block.get("text") if kind != "refusal" else block.get("refusal", block.get("text"))
    if isinstance(said, dict) and isinstance(said.get("value"), str):
        said = said["value"]
    return _text_of(said, cut_chars=_cut_chars(block))


def _thinking_block(block: Json) -> Blocks:
    for key in ("thinking", "text", "summary", "content"):
        if key in block:
            thoughts = _content(block[key], _MAX_NESTING - 3)
            text = mend("\n".join(part.text for part in thoughts if isinstance(part, Text | Thinking)))
            return [Thinking(text=text, cut_chars=_cut_chars(block))]
    return [Thinking(cut_chars=_cut_chars(block))]


def _result_block(block: Json, nesting: int) -> Blocks:
    call_id = _first(block, ("tool_use_id", "call_id", "tool_call_id", "toolUseId", "id", "name"))
    is_error = block.get("is_error") is True or block.get("status") == "error"
    inside = _content(_first(block, ("content", "text", "output", "response")), nesting + 1)
    result, others = _one_result(inside, call_id=call_id, is_error=is_error)
    if cut_chars := _cut_chars(block):
        result = result.model_copy(update={"cut_chars": result.cut_chars + cut_chars})
    return [result, *others]


def _call(block: Any) -> ToolCall:
    if not isinstance(block, dict):
        return ToolCall(arguments=written(block))
    inner = next((block[key] for key in ("function", "custom") if isinstance(block.get(key), dict)), block)
    return ToolCall(
        # An item of OpenAI's responses has an id of its own beside that of the call.
        id=label(_first(block, ("call_id", "id", "tool_use_id", "toolUseId"))),
        name=label(inner.get("name") or _named_by_kind(block)),
        arguments=written(_first(inner, ("arguments", "input", "args", "action", "operation", "queries"))),
        cut_chars=_cut_chars(block),
    )


def _named_by_kind(block: Json) -> str:
    """`local_shell_call` calls the local shell; the kinds that every call shares name nothing."""
    kind = block.get("type")
    if (
        not isinstance(kind, str)
        or not kind.endswith("_call")
        or kind.endswith(("tool_call", "function_call"))
    ):
        return ""
    return kind.removesuffix("_call")


def _calls(value: Any) -> Iterator[ToolCall]:
    if value is not None:
        yield from map(_call, value if isinstance(value, list) else [value])


def _thought(value: Any) -> Blocks:
    return [] if value is None or value == "" else [Thinking(text=written(value))]


def _recording(value: Any) -> Blocks:
    """What an assistant said aloud: the transcript counts, the sound is an attachment."""
    if not isinstance(value, dict):
        return _text_of(value)
    sound = {key: item for key, item in value.items() if key != "transcript"}
    return [*_text_of(value.get("transcript")), *attachment(sound, "audio", partial(_content, nesting=1))]


def _text_of(value: Any, *, cut_chars: int = 0) -> Blocks:
    return _text(written(value), cut_chars=cut_chars, clean=False)


def _text(said: str, *, cut_chars: int = 0, clean: bool = True) -> Blocks:
    said = cleaned(said) if clean else said
    return [Text(text=said, cut_chars=cut_chars)] if said or cut_chars else []


def _first(block: Json, keys: tuple[str, ...]) -> Any:
    return next((block[key] for key in keys if block.get(key) is not None), None)


def _cut_chars(block: Json) -> int:
    return whole_number(block.get("cut_chars")) or 0
