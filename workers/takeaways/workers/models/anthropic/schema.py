"""The schemas of our answers as a provider enforces them, with nothing in them that only costs tokens."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from pydantic import BaseModel

_SHORT: Final = 20
"""A length limit up to here is that of a label, which the instructions explain."""


@cache
def output_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of `answer`, leaned and then brought into the form that the API accepts.

    The server enforces neither lengths nor ranges, so the answer is validated again when it comes.
    """
    from anthropic import transform_schema

    transformed: dict[str, Any] = transform_schema(_lean(answer.model_json_schema()))
    return transformed


def _lean(schema: Any) -> Any:
    """Without titles, defaults and descriptions. What tells variants apart (`const`) becomes required."""
    if isinstance(schema, list):
        return [_lean(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: {name: _lean(one) for name, one in value.items()}
        if key in ("properties", "$defs")
        else _lean(value)
        for key, value in schema.items()
        if not _is_ballast(key, value)
    }
    constants = [name for name, one in kept.get("properties", {}).items() if "const" in one]
    if constants:
        kept["required"] = [*constants, *(name for name in kept.get("required", ()) if name not in constants)]
    return kept


def _is_ballast(key: str, value: Any) -> bool:
    if key in ("title", "default", "description", "discriminator", "minLength"):
        return True
    return key == "maxLength" and isinstance(value, int) and value <= _SHORT
