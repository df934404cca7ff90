"""SWE-agent trajectories: one task, one room, one run.

Its older form writes what tools printed into the user's turn. Only the first such message is the person's
task; demonstrations are the system's, everything after is tool output.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from takeaways.schemas.events import Message
from takeaways.workers.importing.message_list import read_message
from takeaways.workers.importing.records import Record
from takeaways.workers.importing.rooms import Draft, Status, Stretch
from takeaways.workers.importing.shape import Context
from takeaways.workers.importing.speech import a_tool, the_system


def fits(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("history"), list)
        and ("info" in value or "trajectory" in value)
    )


def rooms(records: Iterator[Record], context: Context) -> Iterator[Draft]:
    for record in records:
        name = "" if record.alone else str(record.number)
        messages = tuple(_messages(record, context))
        yield Draft(name, context.title, (Stretch(messages, _status(record.value)),), in_file_order=True)


def _status(value: dict[str, Any]) -> Status:
    info = value.get("info")
    ended = info.get("exit_status") if isinstance(info, dict) else None
    return "succeeded" if isinstance(ended, str) and ended.startswith("submitted") else "failed"


def _messages(record: Record, context: Context) -> Iterator[Message]:
    asked = False
    for number, item in enumerate(record.value["history"], start=1):
        where = ", ".join(part for part in (record.name, f"history {number}") if part)
        found = read_message(item, number=number, context=context, line=record.line, record=where)
        if found is None:
            continue
        if item.get("is_demo"):
            found = found.model_copy(update={"author": the_system()})
        elif found.role == "user" and asked:
            found = found.model_copy(update={"role": "tool", "author": a_tool()})
        asked = asked or (found.role == "user" and not item.get("is_demo"))
        if (
            found.role == "tool"
            and found.tool_call_id is None
            and isinstance(item.get("tool_call_ids"), list)
        ):
            found = found.model_copy(update={"tool_call_id": next(iter(item["tool_call_ids"]), None)})
        yield found
