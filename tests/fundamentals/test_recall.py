"""Recall: how a service reads an agent's memory back.

An agent learned in one room that quotes over $40k need a sign-off. These tests show how it knows so in
every other room.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from takeaways.recall import FolderOutcome, NoteStatus, Recall, load_memory, memory_md, snapshot, write_folder
from takeaways.schemas.database import Database
from takeaways.schemas.memories import Lesson
from tests.memories import line, memory, remember, room, section

LEARNED = memory(
    section(
        "Quotes",
        line("Quotes over $40k need sign-off from finance.", Lesson.RULE),
        line("Quotes are sent as PDF.", Lesson.PROCEDURE),
        gist="How quotes are made and approved.",
    )
)


def test_the_first_message_of_a_conversation_carries_a_note(sqlite_database: Database) -> None:
    """What was learned in the sales room is known in the support room."""
    remember(sqlite_database, "agent-7", LEARNED)
    recall = Recall(sqlite_database)

    note = recall.note("agent-7", "support", "conversation-1")
    messages = [
        {
            "role": "user",
            "content": [*note.for_anthropic(), {"type": "text", "text": "Quote 50 seats for ACME."}],
        }
    ]

    assert note.status is NoteStatus.GIVEN
    assert note.text is not None
    assert "Quotes over $40k need sign-off from finance." in note.text
    assert messages[0]["content"][0] == {"type": "text", "text": note.text}


def test_a_running_conversation_keeps_its_note(sqlite_database: Database) -> None:
    """The same bytes for the life of the conversation, so the provider's prompt cache stays valid."""
    remember(sqlite_database, "agent-7", LEARNED)
    recall = Recall(sqlite_database)
    first = recall.note("agent-7", "support", "conversation-1")

    remember(sqlite_database, "agent-7", memory(section("Quotes", "Everything is different now.")))

    assert recall.note("agent-7", "support", "conversation-1") == first
    assert recall.note("agent-7", "support", "conversation-1", compaction=1).revision == 2


def test_an_agent_without_a_memory_has_no_note(sqlite_database: Database) -> None:
    """Nothing is added to the prompt, and the code around it is the same."""
    note = Recall(sqlite_database).note("newborn", "support", "conversation-1")

    assert note.status is NoteStatus.NO_MEMORY_YET
    assert note.text is None
    assert note.for_anthropic() == []


def test_the_workspace_has_the_whole_memory_as_files(sqlite_database: Database, tmp_path: Path) -> None:
    """An agent with a file system reads more when it needs more."""
    remember(sqlite_database, "agent-7", LEARNED)
    room(sqlite_database, "agent-7", "sales", summary="ACME asked for 50 seats.", title="Sales")

    written = write_folder(sqlite_database, "agent-7", tmp_path)

    assert written.outcome is FolderOutcome.WRITTEN
    assert "- Quotes are sent as PDF." in (tmp_path / "agent-memory" / "MEMORY.md").read_text()
    assert "ACME" in (tmp_path / "agent-memory" / "session_summaries" / "sales.md").read_text()


def test_the_memory_can_be_read_as_data(sqlite_database: Database) -> None:
    """Markdown is a view; sections, lines and their times are the memory."""
    remember(sqlite_database, "agent-7", LEARNED)

    with snapshot(sqlite_database) as connection:
        revision = load_memory(connection, "agent-7")

    assert revision.memory == LEARNED
    assert memory_md(revision.memory).startswith("# Memory\n\n## Quotes\n")


@pytest.mark.parametrize("module", ["celery", "kombu", "anthropic", "redis", "typer", "takeaways.workers"])
def test_a_service_that_reads_loads_nothing_of_the_workers(module: str) -> None:
    """Importing recall is quick and needs the database's client alone."""
    program = f"import sys, takeaways.recall; sys.exit({module!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
