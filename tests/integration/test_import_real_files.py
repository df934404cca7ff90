"""Import of real conversations, where they are: nothing well-formed is lost, whatever tool wrote the file.

They are not ours to ship. `TAKEAWAYS_DATA` names the folder; without it, `../shared/data` beside the
repository is used, and where that is absent too the tests skip.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from takeaways.schemas.events import decode, encode
from takeaways.workers.importing import ImportedRoom, Problem, conversation_files, events_of, read
from tests.data import DATA, needs_data

NOW = datetime(2026, 3, 2, tzinfo=UTC)

pytestmark = needs_data


def imported(path: Path) -> tuple[list[ImportedRoom], list[Problem]]:
    problems: list[Problem] = []
    return list(read(path, agent_id="scout", report=problems.append, undated=NOW)), problems


def well_formed(file: Path) -> Iterator[Any]:
    """What the file holds that somebody said, counted without any of the code under test."""
    if file.suffix == ".jsonl":
        for line in file.read_text("utf-8").splitlines():
            record = json.loads(line)
            message = record.get("message") if isinstance(record, dict) else None
            if isinstance(message, dict) and "content" in message:
                yield record
        return
    value = json.loads(file.read_text("utf-8"))
    if isinstance(value, list):
        for task in value:
            yield from task["traj"]
    elif "history" in value:
        yield from value["history"]
    elif "steps" in value:
        for step in value["steps"]:
            yield from step.get("messages", ())
    elif "conversation_list" in value:
        yield from value["conversation_list"]
    else:
        for turns in value["conversation"].values():
            yield from turns if isinstance(turns, list) else ()


def test_no_well_formed_message_of_any_file_is_lost() -> None:
    """Thousands of real messages of six tools: each is there once, under an id of its own."""
    for file in conversation_files(DATA):
        rooms, _ = imported(file)

        ids = [(room.room_id, message.id) for room in rooms for run in room.runs for message in run.messages]
        assert len(ids) == sum(1 for _ in well_formed(file)) > 0, file.name
        assert len(set(ids)) == len(ids), file.name


def test_what_was_left_out_of_real_files_is_just_what_is_broken_in_them() -> None:
    """A report that cries wolf is read by nobody."""
    _, problems = imported(DATA)

    lost = [(Path(problem.file).name, problem.line) for problem in problems if problem.lost]
    assert lost == [("edge_cases.jsonl", line) for line in (10, 11, 13, 14, 15, 16)]


def test_the_whole_folder_imported_twice_is_the_same_events() -> None:
    """Ids and bodies are equal, so that the inbox takes the second import for what it is."""
    first, second = (
        [event for room in imported(DATA)[0] for event in events_of(room, "scout", published_at=NOW)]
        for _ in range(2)
    )

    assert [(event.id, event.body_hash) for event in first] == [
        (event.id, event.body_hash) for event in second
    ]
    assert len({event.id for event in first}) == len(first)


def test_every_event_of_real_files_survives_the_wire() -> None:
    """What goes into the stream comes out of it: nothing ends in the dead letters."""
    for room in imported(DATA)[0]:
        for event in events_of(room, "scout", published_at=NOW):
            arrived = decode(encode(event), stream=event.data.STREAM)

            assert (arrived.data, arrived.unknown_fields) == (event.data, 0)
