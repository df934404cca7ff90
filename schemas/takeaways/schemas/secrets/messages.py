"""Masking a message in its internal form, and short labels beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from takeaways.schemas.parts import AnyPart, Attachment, Parts, ToolCall
from takeaways.schemas.secrets.masking import mask

Mask = Callable[[str], str]


def mask_parts(parts: Parts, masked: Mask = mask) -> Parts:
    """`parts` without secrets in text, arguments, names and types. Ids stay, so that pairs stay pairs."""
    changed = tuple(_part(part, masked) for part in parts)
    return changed if any(one is not other for one, other in zip(changed, parts, strict=True)) else parts


def mask_label(label: str | None, masked: Mask = mask) -> str | None:
    """A name or title without secrets."""
    return masked(label) if label else label


def _part(part: AnyPart, masked: Mask) -> AnyPart:
    if isinstance(part, ToolCall):
        found = {"name": masked(part.name), "arguments": _arguments(part.arguments, masked)}
    elif isinstance(part, Attachment):
        found = {name: masked(getattr(part, name)) for name in ("text", "name", "media_type", "kind")}
    else:
        found = {"text": masked(part.text)}
    changed = {name: value for name, value in found.items() if value != getattr(part, name)}
    return part.model_copy(update=changed) if changed else part


def _arguments(arguments: str, masked: Mask) -> str:
    """JSON stays JSON: where a bare number was a secret, values are masked one by one."""
    changed = masked(arguments)
    if changed == arguments or not _is_json(arguments) or _is_json(changed):
        return changed
    return json.dumps(_values(json.loads(arguments), masked), ensure_ascii=False)


def _values(value: Any, masked: Mask) -> Any:
    if isinstance(value, dict):
        return {masked(key): _values(item, masked) for key, item in value.items()}
    if isinstance(value, list):
        return [_values(item, masked) for item in value]
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, bool | float) or value is None:
        return value
    written = str(value)
    return value if (shown := masked(written)) == written else shown


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
