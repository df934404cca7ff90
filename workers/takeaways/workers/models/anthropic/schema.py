"""The schemas of our answers as a provider enforces them, with nothing in them that only costs tokens."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel

_BALLAST = ("title", "default", "description", "discriminator", "minLength", "maxLength", "maxItems")


@cache
def output_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of `answer`, leaned and then brought into the form that the API accepts.

    The server enforces neither lengths nor ranges: the instructions say how long a text may be, and the answer
    is validated again when it comes.
    """
    from anthropic import transform_schema

    transformed: dict[str, Any] = transform_schema(_lean(answer.model_json_schema()))
    return transformed


def _lean(schema: Any) -> Any:
    """Without titles, defaults, descriptions and lengths. What may be null may as well be left out, and what
    tells variants apart (`const`) becomes required.
    """
    if isinstance(schema, list):
        return [_lean(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if {"type": "null"} in (variants := schema.get("anyOf", ())):
        [schema] = [one for one in variants if one != {"type": "null"}]
    kept = {
        key: {name: _lean(one) for name, one in value.items()}
        if key in ("properties", "$defs")
        else _lean(value)
        for key, value in schema.items()
        if key not in _BALLAST
    }
    constants = [name for name, one in kept.get("properties", {}).items() if "const" in one]
    if constants:
        kept["required"] = [*constants, *(name for name in kept.get("required", ()) if name not in constants)]
    return kept
