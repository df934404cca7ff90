"""tau-bench results: a list of tasks. A task is a customer's conversation with the agent, and one room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from takeaways.workers.importing.message_list import read_messages
from takeaways.workers.importing.records import Record
from takeaways.workers.importing.rooms import Draft
from takeaways.workers.importing.shape import Context
from takeaways.workers.importing.speech import identifier
from takeaways.workers.importing.turns import by_user_turn


def fits(value: Any) -> bool:
    traj = value.get("traj") if isinstance(value, dict) else None
    return isinstance(traj, list) and traj != []


def rooms(records: Iterator[Record], context: Context) -> Iterator[Draft]:
    for record in records:
        task = identifier(record.value.get("task_id")) or f"record-{record.number}"
        trial = record.value.get("trial")
        # A file may hold several trials of a task; the first of them is the task itself.
        name = f"task-{task}-trial-{trial}" if isinstance(trial, int) and trial > 0 else f"task-{task}"
        said = read_messages(record.value["traj"], record, context)
        yield Draft(name, f"{context.title}, task {task}", tuple(by_user_turn(said)), in_file_order=True)
