"""Bounding a message: every part keeps its beginning, and says how much it lost.

The long parts are shortened to one common length, so that a sentence beside a huge tool result stays whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from takeaways.schemas.parts import AnyPart, Attachment, Parts, Text, Thinking, ToolCall, ToolResult
from takeaways.schemas.text import head, utf8_length

PART_BYTES: Final = 64  # what a part costs beside its strings: nobody may send a million empty ones for free


def size_bytes(parts: Parts) -> int:
    """About how many bytes `parts` take on the wire, before JSON escapes."""
    return sum(_label_bytes(part) + utf8_length(_text(part)) for part in parts)


def cut(parts: Parts, max_bytes: int) -> Parts:
    """Return `parts` in at most `max_bytes` (of `size_bytes`), cut between characters as people see them.

    What fits stays the same object. Where the ids and names of very many parts would fill half of the room,
    the first parts are kept, and a last, empty one says how many characters the others had.
    """
    if size_bytes(parts) <= max_bytes:
        return parts
    kept = _first(parts, max_bytes // 2)
    left_out = sum(len(_text(part)) + part.cut_chars for part in parts[len(kept) :])
    end = (Text(text="", cut_chars=left_out),) if len(kept) < len(parts) else ()
    room = max_bytes - sum(map(_label_bytes, (*kept, *end)))
    limit = _common_limit([utf8_length(_text(part)) for part in kept], room)
    return (*(_shortened(part, limit) for part in kept), *end)


def _first(parts: Parts, label_bytes: int) -> Parts:
    spent = 0
    for count, part in enumerate(parts):
        spent += _label_bytes(part)
        if spent > label_bytes:
            return parts[: max(count, 1)]
    return parts


def _common_limit(sizes: Sequence[int], room: int) -> int:
    """The largest limit for each that keeps the sum within `room`; what is smaller leaves the rest more."""
    for place, size in enumerate(ordered := sorted(sizes)):
        share = max(room, 0) // (len(ordered) - place)
        if size > share:
            return share
        room -= size
    return max(ordered, default=0)


def _shortened(part: AnyPart, max_bytes: int) -> AnyPart:
    whole = _text(part)
    kept = head(whole, max_bytes)
    if len(kept) == len(whole):
        return part
    field = "arguments" if isinstance(part, ToolCall) else "text"
    return part.model_copy(update={field: kept, "cut_chars": part.cut_chars + len(whole) - len(kept)})


def _text(part: AnyPart) -> str:
    return part.arguments if isinstance(part, ToolCall) else part.text


def _label_bytes(part: AnyPart) -> int:
    match part:
        case Text() | Thinking():
            return PART_BYTES
        case ToolCall():
            return PART_BYTES + utf8_length(part.id) + utf8_length(part.name)
        case ToolResult():
            return PART_BYTES + utf8_length(part.call_id)
        case Attachment():
            return PART_BYTES + sum(map(utf8_length, (part.kind, part.media_type, part.name)))
