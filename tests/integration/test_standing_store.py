"""Standing notes in real databases: many writers at once, repeats, crashes, outages, erasure."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from takeaways.recall.standing import Code, MemoryStore, Refused, SnapshotStatus, StandingNotes, Target
from takeaways.schemas import tables
from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.errors import BadInput, StoreUnavailable
from takeaways.workers.erasure.forgetting import forget_agent, forget_person
from tests.cases import case
from tests.memories import room

AGENT = "acme/agent-7"
ALL = [table for name, table in tables.metadata.tables.items() if name.startswith("standing_note")]


def standing(database: Database | MemoryStore | str, **options: Any) -> StandingNotes:
    return StandingNotes(
        database, **{"memory": True, "user": True, "timeout_seconds": 60, "snapshot_seconds": 60, **options}
    )


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def notes(request: pytest.FixtureRequest) -> StandingNotes:
    """Notes in each kind of store."""
    if request.param == "memory":
        return standing(MemoryStore())
    return standing(request.getfixturevalue(f"{request.param}_database"))


def add(notes: StandingNotes, content: str, **options: Any) -> dict[str, Any]:
    return notes.call({"action": "add", "content": content}, agent_id=AGENT, **options)


def entries(notes: StandingNotes) -> tuple[str, ...]:
    return notes.view(Target.MEMORY, AGENT).entries


# --- many at once -------------------------------------------------------------------------------


TIGHT = 20 * len("fact 0 00") + 19
"""Characters for exactly 20 of the entries below."""


ADDS = """
import sys
from takeaways.recall.standing import StandingNotes
url, process, tight = sys.argv[1], sys.argv[2], int(sys.argv[3])
cap_for = lambda target, owner: tight if owner == "tight" else 10_000
with StandingNotes(url, memory=True, cap_for=cap_for, timeout_seconds=60) as notes:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(8):
        for agent_id in ("roomy", "tight"):
            notes.call({"action": "add", "content": f"fact {process} {number:02}"}, agent_id=agent_id)
"""


@pytest.mark.timeout(300)  # eight interpreters start on a machine that may be busy
def test_eight_processes_that_add_at_once_lose_nothing_and_never_exceed_the_cap(database: Database) -> None:
    """Read, change and write without care kept 25 of 200; here room for 20 of 64 means exactly 20 (C1, C3)."""
    url = database.engine.url.render_as_string(hide_password=False)
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [
        subprocess.Popen([sys.executable, "-c", ADDS, url, str(number), str(TIGHT)], **pipes)
        for number in range(8)
    ]

    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    ended = together(
        *(lambda process=process: process.communicate("go\n", timeout=100) for process in processes)
    )

    assert len(ended) == 8
    assert [process.returncode for process in processes] == [0] * 8
    notes = standing(database, memory_chars=TIGHT)
    roomy, tight = notes.view(Target.MEMORY, "roomy"), notes.view(Target.MEMORY, "tight")
    assert sorted(roomy.entries) == [
        f"fact {process} {number:02}" for process in range(8) for number in range(8)
    ]
    assert roomy.version == 64
    assert (len(tight.entries), tight.usage, tight.version) == (20, f"{TIGHT}/{TIGHT}", 20)


def together(*work: Callable[[], Any]) -> list[Any]:
    """Run all at the same moment, each on a thread; their results in order."""
    barrier = threading.Barrier(len(work))

    def started(one: Callable[[], Any]) -> Any:
        barrier.wait()
        return one()

    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result() for future in [pool.submit(started, one) for one in work]]


def test_the_same_entry_from_several_writers_is_stored_once(notes: StandingNotes) -> None:
    """(C2, C11)"""
    answers = together(*[lambda: add(notes, "the same")] * 6)

    assert sorted(answer["changed"] for answer in answers) == [False] * 5 + [True]
    assert (entries(notes), notes.view(Target.MEMORY, AGENT).version) == (("the same",), 1)


def test_of_two_that_remove_an_entry_one_is_told_that_it_is_gone(notes: StandingNotes) -> None:
    """(C4)"""
    add(notes, "one")
    add(notes, "two")

    answers = together(*[lambda: notes.call({"action": "remove", "old_text": "one"}, agent_id=AGENT)] * 2)

    assert sorted(answer["code"] for answer in answers) == [Code.NO_MATCH, Code.REMOVED]
    assert entries(notes) == ("two",)


def test_replacing_races_removing(notes: StandingNotes) -> None:
    """Whoever is second works on what the first left (C5)."""
    add(notes, "base")

    replaced, removed = together(
        lambda: notes.call({"action": "replace", "old_text": "base", "content": "new"}, agent_id=AGENT),
        lambda: notes.call({"action": "remove", "old_text": "base"}, agent_id=AGENT),
    )

    assert [replaced["ok"], removed["ok"]].count(True) == 1
    assert entries(notes) == (("new",) if replaced["ok"] else ())


def test_writers_with_old_pictures_drop_nothing(notes: StandingNotes) -> None:
    """The later full rewrite dropped the other one's entry (NT-08)."""
    found = case("NT-08")
    for number in range(15):
        agent_id = f"agent-{number}"
        for line in found["file"]["entries"]:
            notes.call({"action": "add", "content": line}, agent_id=agent_id)

        together(
            *(
                lambda calls=calls, agent_id=agent_id: [notes.call(call, agent_id=agent_id) for call in calls]
                for calls in found["parallel"]
            )
        )

        assert sorted(notes.view(Target.MEMORY, agent_id).entries) == ["from worker 1", "from worker 2"]


def test_a_note_that_stays_locked_is_a_conflict_and_nothing_is_written(postgresql_database: Database) -> None:
    """The model may try again later; nobody waits for ever (C6)."""
    notes = standing(postgresql_database)
    add(notes, "one")
    with postgresql_database.write() as connection:
        connection.execute(select(tables.standing_notes).with_for_update())

        answer = add(notes, "two")

    assert (answer["code"], answer["retryable"]) == (Code.CONFLICT, True)
    assert entries(notes) == ("one",)
    assert add(notes, "two")["ok"]


def test_a_caller_that_read_an_older_version_is_told_so(notes: StandingNotes) -> None:
    """A page that a person edits does not overwrite what the agent wrote meanwhile (C7)."""
    add(notes, "one")
    add(notes, "two")

    stale = add(notes, "three", expected_version=1)

    assert stale["code"] == Code.CONFLICT
    assert stale["version"] == 2
    assert add(notes, "two", expected_version=1)["ok"]
    assert add(notes, "three", expected_version=2)["ok"]


# --- repeats ------------------------------------------------------------------------------------


def test_a_call_that_is_repeated_has_one_effect_and_one_answer(notes: StandingNotes) -> None:
    """A redelivered `remove` must not hit another entry (C8)."""
    add(notes, "port 1")
    remove = {"action": "remove", "old_text": "port"}
    first = notes.call(remove, agent_id=AGENT, call_id="call-1")
    add(notes, "port 2")

    assert notes.call(remove, agent_id=AGENT, call_id="call-1") == first
    assert entries(notes) == ("port 2",)


def test_a_call_that_is_repeated_at_the_same_moment_has_one_effect(notes: StandingNotes) -> None:
    """(C8)"""
    add(notes, "x")

    answers = together(*[lambda: add(notes, "new", call_id="call-1")] * 4)

    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["changed"]
    assert notes.view(Target.MEMORY, AGENT).version == 2


def test_a_refusal_is_repeated_too_and_counted_once(notes: StandingNotes) -> None:
    """(C8, F1)"""
    refused = [
        notes.call({"action": "remove", "old_text": "x"}, agent_id=AGENT, call_id="call-1", turn_id="t")
        for _ in range(6)
    ]

    assert all(answer == refused[0] for answer in refused)
    assert refused[0]["code"] == Code.NO_MATCH


def test_a_call_id_that_is_used_for_something_else_is_refused(notes: StandingNotes) -> None:
    """(C9)"""
    add(notes, "one", call_id="call-1")

    assert add(notes, "two", call_id="call-1")["code"] == Code.IDEMPOTENCY_MISMATCH
    assert add(notes, "one", call_id="call-2")["code"] == Code.UNCHANGED
    assert entries(notes) == ("one",)


def test_a_crash_before_the_commit_leaves_neither_the_change_nor_the_answer(database: Database) -> None:
    """Both are one transaction (C10)."""
    notes = standing(database)
    with database.write() as connection:
        # The answer cannot be stored, as if the process died there.
        connection.execute(text("ALTER TABLE standing_note_calls RENAME TO elsewhere"))

    assert add(notes, "one", call_id="call-1")["code"] == Code.UNAVAILABLE
    with database.write() as connection:
        connection.execute(text("ALTER TABLE elsewhere RENAME TO standing_note_calls"))
    assert entries(notes) == ()

    assert add(notes, "one", call_id="call-1")["changed"]


# --- outages ------------------------------------------------------------------------------------


def test_a_database_that_is_away_is_never_an_empty_note() -> None:
    """The model is told that notes cannot be reached, and the chat goes on (C12)."""
    notes = standing("postgresql://nobody@127.0.0.1:1/none", timeout_seconds=3, snapshot_seconds=3)

    answer = add(notes, "one")
    snapshot = notes.snapshot(AGENT, "r", "c")

    assert (answer["code"], answer["retryable"]) == (Code.UNAVAILABLE, True)
    assert (snapshot.status, snapshot.text) == (SnapshotStatus.UNAVAILABLE, None)
    with pytest.raises(StoreUnavailable):
        notes.view(Target.MEMORY, AGENT)


@pytest.mark.parametrize("stored", ['{"not": "a list"}', "[1, 2]", "5"])
def test_a_row_that_cannot_be_read_is_never_an_empty_note(database: Database, stored: str) -> None:
    """Writing over it would lose what is still in it (C12)."""
    notes = standing(database)
    add(notes, "one")
    value = f"'{stored}'" if database.is_sqlite else f"'{stored}'::jsonb"
    with database.write() as connection:
        connection.exec_driver_sql(f"UPDATE standing_notes SET entries = {value}")  # noqa: S608

    assert add(notes, "two")["code"] == Code.CORRUPT_STORE
    assert notes.snapshot(AGENT, "r", "c").status is SnapshotStatus.UNAVAILABLE
    assert [made.version for made in notes.history(Target.MEMORY, AGENT)] == [1]
    assert notes.undo(Target.MEMORY, AGENT, 1).entries == ("one",)
    assert add(notes, "two")["ok"]


def test_an_empty_entry_of_a_hand_is_passed_over(database: Database) -> None:
    """It shows nothing, and no `old_text` could ever name it."""
    notes = standing(database)
    add(notes, "one")
    value = '\'["one", "", "  ", "two"]\'' + ("" if database.is_sqlite else "::jsonb")
    with database.write() as connection:
        connection.exec_driver_sql(f"UPDATE standing_notes SET entries = {value}")  # noqa: S608

    assert add(notes, "three")["entry_count"] == 3
    assert notes.view(Target.MEMORY, AGENT).entries == ("one", "two", "three")


def test_broken_json_in_a_row_is_never_an_empty_note(sqlite_database: Database) -> None:
    """(C12)"""
    notes = standing(sqlite_database)
    add(notes, "one")
    with sqlite_database.write() as connection:
        connection.exec_driver_sql("UPDATE standing_notes SET entries = '[\"one\"'")

    assert add(notes, "two")["code"] == Code.CORRUPT_STORE
    assert notes.undo(Target.MEMORY, AGENT, 1).entries == ("one",)


# --- history and forgetting ---------------------------------------------------------------------


def test_an_earlier_version_can_be_brought_back_as_a_new_one(notes: StandingNotes) -> None:
    """Nothing that a model deletes is gone at once (X4)."""
    add(notes, "one")
    add(notes, "two", call_id="call-2")
    notes.call({"action": "remove", "old_text": "one"}, agent_id=AGENT)

    view = notes.undo(Target.MEMORY, AGENT, 2)

    assert (view.entries, view.version) == (("one", "two"), 4)
    history = notes.history(Target.MEMORY, AGENT)
    assert [(made.version, made.made_by, made.entries) for made in history] == [
        (4, "undo", ("one", "two")),
        (3, "tool", ("two",)),
        (2, "tool", ("one", "two")),
        (1, "tool", ("one",)),
    ]
    assert (history[2].agent_id, history[2].call_id) == (AGENT, "call-2")


def test_undo_keeps_to_the_cap_and_the_checks(database: Database) -> None:
    """An old version is no way around today's rules (X4)."""
    add(standing(database), "x" * 100)
    smaller = standing(database, memory_chars=50)
    smaller.call({"action": "replace", "old_text": "x", "content": "small"}, agent_id=AGENT)

    with pytest.raises(Refused, match="room for 50"):
        smaller.undo(Target.MEMORY, AGENT, 1)
    with pytest.raises(BadInput, match="no revision 9"):
        smaller.undo(Target.MEMORY, AGENT, 9)


def test_a_revision_can_be_redacted_once_its_text_is_gone_from_the_note(notes: StandingNotes) -> None:
    """What should never have been written is forgotten, that there was something is not (S14)."""
    add(notes, "something private", call_id="call-1")
    with pytest.raises(BadInput, match="remove the text from the note first"):
        notes.redact(Target.MEMORY, AGENT, 1)
    notes.call({"action": "remove", "old_text": "private"}, agent_id=AGENT, call_id="call-2")

    notes.redact(Target.MEMORY, AGENT, 1)

    [_, redacted] = notes.history(Target.MEMORY, AGENT)
    assert (redacted.version, redacted.entries) == (1, None)
    with pytest.raises(BadInput, match="no revision 1"):
        notes.undo(Target.MEMORY, AGENT, 1)


def test_after_redacting_no_table_holds_the_text(database: Database) -> None:
    """Answers to tool calls quote what was removed, and running conversations show it (S14)."""
    notes = standing(database)
    add(notes, "something private", call_id="call-1")
    notes.snapshot(AGENT, "r", "c")
    notes.call({"action": "remove", "old_text": "private"}, agent_id=AGENT, call_id="call-2")

    notes.redact(Target.MEMORY, AGENT, 1)

    assert "private" not in dump(database)


def dump(database: Database) -> str:
    with database.read() as connection:
        return str([connection.execute(select(table)).all() for table in ALL])


def filled(database: Database) -> StandingNotes:
    """One agent and two persons, with history, answers, failures and pins."""
    notes = standing(database)
    for agent_id, user_id in ((AGENT, "dana"), ("other", "ben"), ("other", "dana")):
        for target in ("memory", "user"):
            change = {"action": "add", "content": f"{target} of {agent_id} and {user_id}", "target": target}
            notes.call(
                change,
                agent_id=agent_id,
                user_id=user_id,
                call_id=f"{agent_id} {user_id} {target}",
                turn_id="t",
            )
        notes.call({}, agent_id=agent_id, user_id=user_id, turn_id="t")
        notes.snapshot(agent_id, "r", "c", user_id=user_id)
    return notes


def test_erasing_an_agent_leaves_nothing_of_its_note(database: Database) -> None:
    """Store, revisions, answers, failures and pins (I5)."""
    notes = filled(database)

    with database.write() as connection:
        forget_agent(connection, AGENT, now_ms(connection))

    assert f"memory of {AGENT}" not in dump(database)
    assert "memory of other" in dump(database)
    assert notes.view(Target.USER, "dana").entries == (f"user of {AGENT} and dana", "user of other and dana")
    with database.read() as connection:
        for table in (tables.standing_note_calls, tables.standing_note_turns, tables.standing_note_pins):
            query = select(func.count()).select_from(table).where(table.c.agent_id == AGENT)
            assert connection.execute(query).scalar_one() == 0


def test_erasing_a_person_leaves_nothing_of_their_note(database: Database) -> None:
    """In none of the agents that shared it (I5)."""
    notes = filled(database)

    with database.write() as connection:
        forget_person(connection, "other", "dana", now_ms(connection))

    assert "user of" not in dump(database).replace("user of other and ben", "")
    assert notes.view(Target.USER, "ben").entries == ("user of other and ben",)
    assert notes.view(Target.MEMORY, AGENT).entries == (f"memory of {AGENT} and dana",)


def test_erase_forgets_in_every_store(notes: StandingNotes) -> None:
    """(I5)"""
    add(notes, "one", call_id="call-1")
    notes.snapshot(AGENT, "r", "c")

    notes.erase(Target.MEMORY, AGENT)

    assert notes.history(Target.MEMORY, AGENT) == []
    assert notes.snapshot(AGENT, "r", "c").text is None
    assert add(notes, "one", call_id="call-1")["version"] == 1


# --- conversations ------------------------------------------------------------------------------


def test_a_conversation_shows_the_same_bytes_from_every_process(database: Database) -> None:
    """After a restart too: they are stored (P3)."""
    add(standing(database), "one")
    first = standing(database).snapshot(AGENT, "r", "c")
    add(standing(database), "two")

    assert standing(database).snapshot(AGENT, "r", "c") == first
    assert "- one" in (first.text or "")


def test_a_compaction_that_was_taken_in_renews_the_notes(database: Database) -> None:
    """The number comes from the room's events where the call does not know it (P4)."""
    notes = standing(database)
    notes.snapshot(AGENT, "r", "c")
    add(notes, "one")
    room(database, AGENT, "r", conversation_id="c", compaction=3)

    snapshot = notes.snapshot(AGENT, "r", "c")

    assert (snapshot.compaction, snapshot.status) == (3, SnapshotStatus.SHOWN)


def test_snapshots_that_are_asked_for_at_once_are_the_same(notes: StandingNotes) -> None:
    """While the note is written to (P3)."""
    add(notes, "0")

    texts = together(*[lambda: notes.snapshot(AGENT, "r", "c").text] * 4, *[lambda: str(add(notes, "1"))] * 2)

    assert len(set(texts[:4])) == 1


def test_answers_and_counts_are_kept_for_a_week(database: Database) -> None:
    """Tables do not grow with every call for ever."""
    notes = standing(database)
    add(notes, "one", call_id="old")
    notes.call({}, agent_id=AGENT, turn_id="old")
    week_ms = 7 * 24 * 3600 * 1000
    with database.write() as connection:
        for table in (tables.standing_note_calls, tables.standing_note_turns):
            connection.execute(update(table).values(at_ms=table.c.at_ms - week_ms - 1))

    add(notes, "two", call_id="new")
    notes.call({}, agent_id=AGENT, turn_id="new")

    with database.read() as connection:
        assert connection.execute(select(tables.standing_note_calls.c.call_id)).scalars().all() == ["new"]
        assert connection.execute(select(tables.standing_note_turns.c.turn_id)).scalars().all() == ["new"]
