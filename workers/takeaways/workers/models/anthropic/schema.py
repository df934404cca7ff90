"""The schemas of our answers as a provider enforces them, with nothing in them that only costs tokens."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

from pydantic import BaseModel

_DEFINITION: Final = "#/$defs/"
_BALLAST: Final = ("title", "default", "description", "discriminator", "minLength", "maxLength", "maxItems")


@cache
def output_schema(answer: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of `answer`, leaned and then brought into the form that the API accepts.

    The server enforces neither lengths nor ranges: the instructions say how long a text may be, and the answer
    is validated again when it comes.
    """
    from anthropic import transform_schema

    transformed: dict[str, Any] = transform_schema(_inlined(_lean(answer.model_json_schema())))
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


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """With each definition that is used once in the place where it is used. Ours do not refer to themselves."""
    definitions: dict[str, Any] = schema.get("$defs", {})
    whole = json.dumps(schema)
    once = {name for name in definitions if whole.count(f'"{_DEFINITION}{name}"') == 1}

    def placed(value: Any) -> Any:
        if isinstance(value, list):
            return [placed(one) for one in value]
        if not isinstance(value, dict):
            return value
        name = str(value.get("$ref", "")).removeprefix(_DEFINITION)
        if name in once:
            return placed(definitions[name])
        return {key: placed(one) for key, one in value.items()}

    made = {key: placed(value) for key, value in schema.items() if key != "$defs"}
    if kept := {name: placed(value) for name, value in definitions.items() if name not in once}:
        made["$defs"] = kept
    return made
