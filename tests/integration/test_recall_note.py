"""The note of a conversation, pinned for its life, on real databases."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, text

from takeaways.recall import Note, NoteStatus, Reach, Recall
from takeaways.recall.deadline import Deadline
from takeaways.schemas.database import Database
from takeaways.schemas.errors import BadInput, StoreUnavailable
from takeaways.schemas.tables import agents, note_texts, notes
from tests.memories import forget, meet, memory, remember, room, section
from tests.waiting import wait_until

ONE = memory(section("Deploys", "Staging uses port 9443."))
TWO = memory(section("Deploys", "Staging uses port 9444."))


@pytest.fixture
def recall(database: Database) -> Recall:
    return Recall(database, timeout_seconds=20)


def pins(database: Database) -> int:
    with database.read() as connection:
        return len(connection.execute(select(notes)).all())


def test_a_conversation_keeps_the_note_it_began_with(database: Database, recall: Recall) -> None:
    """A consolidation in the middle of a conversation changes not one byte of it."""
    remember(database, "a", ONE)
    first = recall.note("a", "r1", "c1")
    remember(database, "a", TWO)

    again = recall.note("a", "r1", "c1")
    other_room = recall.note("a", "r2", "c1")
    other_conversation = recall.note("a", "r1", "c2")

    assert first.status is NoteStatus.GIVEN
    assert first.text is not None
    assert "9443" in first.text
    assert again == first
    for newer in (other_room, other_conversation):
        assert newer.revision == 2
        assert newer.text is not None
        assert "9444" in newer.text


def test_equal_notes_are_stored_once_under_their_hash(database: Database, recall: Recall) -> None:
    """A thousand conversations on one revision cost one text."""
    remember(database, "a", ONE)
    given = {recall.note("a", "r", f"c{number}").text for number in range(5)}

    with database.read() as connection:
        stored = connection.execute(select(note_texts.c.text_hash, note_texts.c.text)).all()
    assert len(given) == len(stored) == 1
    assert pins(database) == 5
    assert stored[0].text_hash == hashlib.sha256(stored[0].text.encode()).hexdigest()


def test_a_compaction_brings_a_new_note(database: Database, recall: Recall) -> None:
    """After a compaction the conversation begins again, with what is known by then."""
    remember(database, "a", ONE)
    room(database, "a", "r1", conversation_id="c1", compaction=0)
    first = recall.note("a", "r1", "c1")
    remember(database, "a", TWO)
    unchanged = recall.note("a", "r1", "c1")

    room(database, "a", "r1", conversation_id="c1", compaction=1)
    second = recall.note("a", "r1", "c1")

    assert unchanged == first
    assert (second.compaction, second.revision) == (1, 2)
    assert recall.note("a", "r1", "c1", compaction=0) == first


def test_a_caller_that_knows_of_the_compaction_first_is_believed(database: Database, recall: Recall) -> None:
    """The platform compacts; the event may still be on its way. The number never goes back."""
    remember(database, "a", ONE)
    room(database, "a", "r1", conversation_id="c1", compaction=0)
    recall.note("a", "r1", "c1")
    remember(database, "a", TWO)
    second = recall.note("a", "r1", "c1", compaction=3)

    assert second.revision == 2
    assert recall.note("a", "r1", "c1") == second
    room(database, "a", "r1", conversation_id="c2", compaction=0)
    assert recall.note("a", "r1", "c1") == second
    assert recall.note("a", "r1", "c2").compaction == 0


def test_no_note_is_pinned_too(database: Database, recall: Recall) -> None:
    """A conversation that began without a memory goes on without one."""
    meet(database, "a")

    assert recall.note("a", "r1", "c1") == Note(None, NoteStatus.NO_MEMORY_YET, 0)
    assert recall.note("nobody", "r1", "c1").status is NoteStatus.NO_MEMORY_YET
    remember(database, "a", ONE)

    assert recall.note("a", "r1", "c1") == Note(None, NoteStatus.NO_MEMORY_YET, 0)
    assert recall.note("a", "r1", "c2").status is NoteStatus.GIVEN


@pytest.mark.parametrize(
    "agent_id", ["agent-a", "Agent-A", "agent-a ", "agent/a", "エージェント", "'; --", "%", "n" * 255]
)
def test_what_was_learned_in_one_room_is_known_in_another_and_to_nobody_else(
    database: Database, recall: Recall, agent_id: str
) -> None:
    """Writing and reading agree on who an agent is, whatever its id (RE-04)."""
    everybody = {"agent-a", "Agent-A", "agent-a ", "agent/a", "agent-b", "エージェント", agent_id}
    remember(database, agent_id, memory(section("Marker", "The marker is heliotrope.")))

    note = recall.note(agent_id, "room-2", "c1")

    assert note.text is not None
    assert "heliotrope" in note.text
    for other in everybody - {agent_id}:
        assert recall.note(other, "room-1", "c1").text is None


@pytest.mark.parametrize(
    ("ids", "compaction", "named"),
    [
        (("", "r", "c"), None, "agent_id"),
        (("a", "r\n", "c"), None, "room_id"),
        (("a", "r", "c" * 256), None, "conversation_id"),
        (("a", "r", "c"), -1, "compaction"),
        (("a", "r", "c"), 2**63, "compaction"),
    ],
)
def test_bad_ids_are_refused_by_name(
    sqlite_database: Database, ids: tuple[str, str, str], compaction: int | None, named: str
) -> None:
    """A mistake of the caller is said at once and never looks like a missing memory."""
    with pytest.raises(BadInput, match=named):
        Recall(sqlite_database).note(*ids, compaction)


def test_an_erasure_leaves_no_note_of_what_was_erased(database: Database, recall: Recall) -> None:
    """Same conversation, same bytes, except after an erasure."""
    remember(database, "a", ONE)
    assert recall.note("a", "r", "c").text is not None

    forget(database, "a")

    assert recall.note("a", "r", "c").status is NoteStatus.NO_MEMORY_YET


def test_a_note_composed_before_an_erasure_is_not_pinned_after_it(database: Database) -> None:
    """A reader that was slow does not bring back what was forgotten meanwhile."""
    remember(database, "a", ONE)
    composing, erased = threading.Event(), threading.Event()

    def slow_count(of: str) -> int:
        composing.set()
        erased.wait(20)
        return len(of) // 4

    answers: list[Note] = []
    slow = Recall(database, timeout_seconds=20, count=slow_count)
    asking = threading.Thread(target=lambda: answers.append(slow.note("a", "r", "c")))
    asking.start()
    composing.wait(20)
    forget(database, "a")
    erased.set()
    asking.join()

    assert answers == [Note(None, NoteStatus.NO_MEMORY_YET, 0)]
    with database.read() as connection:
        assert connection.execute(select(note_texts)).all() == []


def test_of_two_that_compose_a_note_at_once_the_first_to_pin_it_is_believed(database: Database) -> None:
    """Two servers of which one is newer write the note in two ways; a conversation has one, and keeps it."""
    remember(database, "a", ONE)
    composing, pinned = threading.Event(), threading.Event()

    def slow_count(of: str) -> int:
        composing.set()
        pinned.wait(60)
        return len(of) // 4

    answers: list[Note] = []
    slow = Recall(database, timeout_seconds=60, count=slow_count, reach=Reach.TOOLS)
    asking = threading.Thread(target=lambda: answers.append(slow.note("a", "r", "c")))
    asking.start()
    composing.wait(60)
    first = Recall(database, timeout_seconds=60, reach=Reach.FOLDER).note("a", "r", "c")
    pinned.set()
    asking.join()

    assert answers == [first]
    assert slow.note("a", "r", "c") == first
    assert slow.note("a", "r", "another").text != first.text


ASKER = """
import sys
from takeaways.recall import Recall
with Recall(sys.argv[1], timeout_seconds=30) as recall:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(20):
        note = recall.note("a", "r", f"c{number}")
        print(note.status, (note.text or "").encode().hex(), flush=True)
"""


def test_processes_that_ask_at_once_get_the_same_bytes(database: Database, recall: Recall) -> None:
    """Two servers of a platform that begin one conversation never disagree, whatever changes meanwhile."""
    remember(database, "a", ONE)
    url = database.engine.url.render_as_string(hide_password=False)
    askers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", ASKER, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for asker in askers:
        assert asker.stdout is not None
        assert asker.stdout.readline() == "ready\n"
    for asker in askers:
        assert asker.stdin is not None
        asker.stdin.write("\n")
        asker.stdin.flush()
    for number in range(10):
        remember(database, "a", memory(section("Deploys", f"Staging uses port {number}.")))
    answers = [asker.communicate()[0].split("\n")[:-1] for asker in askers]

    assert answers[0] == answers[1] == answers[2]
    assert len(answers[0]) == 20
    assert all(answer.startswith("given ") for answer in answers[0])
    assert pins(database) == 20


# --- when the database is not there -------------------------------------------------------------


@pytest.fixture
def silent_server() -> Iterator[int]:
    """The port of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_silent_database_costs_the_chat_no_more_than_the_timeout(silent_server: int) -> None:
    """The conversation begins without a note, and the result says why."""
    started = time.monotonic()
    with Recall(f"postgresql://u:hunter2@127.0.0.1:{silent_server}/d", timeout_seconds=0.2) as recall:
        note = recall.note("a", "r", "c")

    assert time.monotonic() - started < 8, "the driver by itself waits ten seconds"
    assert (note.text, note.status, note.revision) == (None, NoteStatus.UNAVAILABLE, 0)
    assert "within 0.2 s" in note.detail


def test_a_database_that_is_down_or_has_no_tables_is_said(tmp_path: Path) -> None:
    """The text says what to look at, and holds no password."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        free_port = server.getsockname()[1]
    (tmp_path / "empty.db").touch()
    for url in (f"postgresql://u:hunter2@127.0.0.1:{free_port}/d", f"sqlite:///{tmp_path}/empty.db"):
        with Recall(url, timeout_seconds=20) as recall:
            note = recall.note("a", "r", "c")

        assert note.status is NoteStatus.UNAVAILABLE
        assert "the database did not answer" in note.detail
        assert "hunter2" not in note.detail


def test_a_busy_database_pins_nothing_and_the_next_try_gets_the_note(postgresql_database: Database) -> None:
    """A lock held too long means no note now; nothing is remembered against the conversation."""
    database = postgresql_database
    remember(database, "a", ONE)
    recall = Recall(database, timeout_seconds=0.3)
    with database.write() as connection:
        connection.execute(select(agents.c.agent_id).where(agents.c.agent_id == "a").with_for_update())
        assert recall.note("a", "r", "c").status is NoteStatus.UNAVAILABLE
        wait_until(lambda: waiters(database) == 0)
    assert pins(database) == 0

    assert Recall(database, timeout_seconds=20).note("a", "r", "c").status is NoteStatus.GIVEN


def waiters(database: Database) -> int:
    with database.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar_one())


def test_questions_do_not_pile_up_behind_a_database_that_hangs() -> None:
    """Callers are told at once when too many earlier questions still wait."""
    going_on = threading.Event()
    deadline = Deadline(0.05, most=2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"within 0\.05 s"):
            deadline.within(lambda: going_on.wait(20))
    with pytest.raises(StoreUnavailable, match="earlier questions"):
        deadline.within(lambda: True)

    going_on.set()

    patient = Deadline(20, most=1)
    assert patient.within(lambda: 7) == 7
    with pytest.raises(TimeoutError, match="mine"):
        patient.within(_raise_timeout)
    assert patient.within(lambda: 8) == 8


def _raise_timeout() -> None:
    raise TimeoutError("mine")


def test_a_file_that_is_not_there_is_named_and_not_made(tmp_path: Path) -> None:
    """Whoever copies an address wrongly is told so, instead of reading an empty database of their own for ever."""
    file = tmp_path / "elsewhere.db"

    with Recall(f"sqlite:///{file}") as recall:
        note = recall.note("scout", "quotes", "c1")

    assert note.status is NoteStatus.UNAVAILABLE
    assert note.detail == f"there is no database at {file}"
    assert not file.exists()
