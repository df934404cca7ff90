"""Cases from bug reports of agents' memories, one table for all tests. They are not part of the project.

They lie in the folder named by `TAKEAWAYS_CASES`, or else in `../shared/cases` beside the checkout. Where
they are absent, the tests that need them are skipped and say so. The cases speak of `event_id` and
`occurred_at`; `event` and `message` put these names into ours.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from takeaways.schemas.events import Message

_FOLDER = Path(os.environ.get("TAKEAWAYS_CASES") or Path(__file__).parents[2] / "shared" / "cases")


def case(case_id: str) -> dict[str, Any]:
    """The `input` of one case with its shorthands written out. Skips the test where the cases are absent."""
    if not (_FOLDER / "cases.json").is_file():
        pytest.skip(f"the cases are not here: {_FOLDER} (set TAKEAWAYS_CASES to their folder)")
    found: dict[str, Any] = _expanded(_all()[case_id]["input"])
    return found


@cache
def _all() -> dict[str, dict[str, Any]]:
    return {found["id"]: found for found in json.loads((_FOLDER / "cases.json").read_text("utf-8"))}


def _expanded(value: Any) -> Any:
    """`{"$repeat": [unit, n]}` is the unit n times ("{i}" counts from 1), `{"$join": [...]}` one text."""
    match value:
        case {"$repeat": [str(unit), int(times)], **rest} if not rest:
            return "".join(unit.replace("{i}", str(place)) for place in range(1, times + 1))
        case {"$join": list(pieces), **rest} if not rest:
            return "".join(map(_expanded, pieces))
        case dict():
            return {key: _expanded(item) for key, item in value.items()}
        case list():
            return [_expanded(item) for item in value]
    return value


def event(found: dict[str, Any]) -> dict[str, Any]:
    """An event of a case as the CloudEvent that says the same; its version is the suffix of our type."""
    version = f".v{found['v']}" if "v" in found else ""
    data = {
        "room" if key == "room_id" else key: {"id": value} if key == "room_id" else value
        for key, value in found.items()
        if key not in ("v", "event_id", "type", "agent_id", "occurred_at")
    }
    envelope = {
        "specversion": "1.0",
        "id": found.get("event_id"),
        "source": "cases",
        "type": f"takeaways.{found.get('type')}{version}",
        "subject": found.get("agent_id"),
        "time": found.get("occurred_at", "2026-03-02T09:00:00Z"),
        "data": {"status": "succeeded", **data},
    }
    return {key: value for key, value in envelope.items() if value is not None}


def message(found: dict[str, Any]) -> Message:
    """A message of a case as one on the wire: `seq` is its position, its content stays as it is."""
    return Message(
        id=f"m{found['seq']}", role=found["role"], content=found.get("content"), position=found["seq"]
    )
