"""JSON Schemas of the events, one file a type, for those who publish from other languages.

They are made from the models of `events` by `python -m takeaways.schemas.wire` and checked in; a test fails
when they drift. They describe what to write: fields that they do not name are refused by writers, and ignored
by readers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from takeaways.schemas.events import MODELS, Data
from takeaways.schemas.ids import ID_PATTERN, MAX_ID_LENGTH

FOLDER: Final = Path(__file__).parent
_ID: Final = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_ID_LENGTH,
    "pattern": ID_PATTERN,
}


def files() -> dict[str, str]:
    """The name and content of every schema file, as it should be."""
    return {f"{name}.json": _text(schema(model)) for name, model in MODELS.items()}


def schema(model: type[Data]) -> dict[str, Any]:
    """The schema of one event: the envelope of CloudEvents around the data of `model`."""
    data = model.model_json_schema(ref_template="#/$defs/{model}")
    definitions = data.pop("$defs", {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": model.TYPE,
        "description": f"One entry of the stream {model.STREAM}. {data.pop('description', '')}".strip(),
        "type": "object",
        "required": ["specversion", "id", "source", "type", "subject", "time"],
        "properties": {
            "specversion": {"const": "1.0"},
            "id": {
                **_ID,
                "description": "With the source it names the event: the same again is a duplicate.",
            },
            "source": {**_ID, "description": "Who publishes: the name or address of the service."},
            "type": {"const": model.TYPE},
            "subject": {**_ID, "description": "The id of the agent."},
            "time": {
                "type": "string",
                "format": "date-time",
                "description": "When it happened, with offset.",
            },
            "datacontenttype": {"type": "string", "description": "application/json, or nothing."},
            "traceparent": {"type": "string"},
            "contentencoding": {"const": "gzip", "description": "data_base64 holds gzipped JSON."},
            "data": data,
            "data_base64": {"type": "string", "contentEncoding": "base64"},
        },
        "oneOf": [{"required": ["data"]}, {"required": ["data_base64"]}],
        "$defs": definitions,
    }


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True) + "\n"
