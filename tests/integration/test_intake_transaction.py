"""What a batch of events leaves in the database. Every test runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.errors import DeadLetterReason
from takeaways.schemas.events import AgentRef, Author, Conversation, Message, to_ms
from takeaways.schemas.queues import RUNS_STREAM, Kind
from takeaways.schemas.tables import agents, candidates, messages, system
from takeaways.workers.intake.entries import Entry, read_entry
from takeaways.workers.intake.taken import Hint, Taken, TakenIn
from takeaways.workers.intake.transaction import take_in
from takeaways.workers.schedule.boot import current_boot
from tests.published import (
    POLICY,
    agent_row,
    at,
    compacted,
    edited,
    entries,
    everything,
    forget_agent,
    forget_person,
    forget_room,
    letters,
    message_rows,
    outcomes,
    recorded,
    room_row,
    run,
    run_rows,
    texts,
    withdrawn,
)


def took(database: Database, *published: Any) -> TakenIn:
    """Take in events (or entries) as one batch."""
    batch = [one if isinstance(one, Entry) else entries(one)[0] for one in published]
    return take_in(database, batch, policy=POLICY)


def one_by_one(database: Database, *published: Any) -> None:
    for one in published:
        took(database, one)


def mark_read(database: Database) -> None:
    with database.write() as connection:
        connection.execute(update(messages).values(read_by="job-1"))
        connection.execute(update(agents).values(messages_read=agents.c.messages_total))


@pytest.fixture(autouse=True)
def booted(database: Database) -> str:
    """A server has started, and it is an hour after the story begins."""
    boot_id = current_boot(database, pinned=None, fresh=True)
    with database.write() as connection:
        offset_ms = to_ms(at(60)) - now_ms(connection)
        connection.execute(update(system).values(clock_offset_ms=offset_ms))
    return boot_id


# Counting


def test_the_fifth_run_hints_an_extraction_and_the_sixth_does_not_hint_again(database: Database) -> None:
    """Reaction comes on the step to due; a hint for each event of a busy agent would flood the queue."""
    first = took(database, *(run(f"r{number}", "hello") for number in range(4)))
    fifth = took(database, run("r4", "hello"))
    with database.read() as connection:
        wait_ms = agent_row(database)["wake_at_ms"] - now_ms(connection)
    sixth = took(database, run("r5", "hello"))

    assert first.hints == ()
    assert fifth.hints == (Hint(Kind.EXTRACTION, "ada", "runs"),)
    assert 0 < wait_ms <= POLICY.hint_again_seconds * 1000, (
        "the sweep repeats what may be lost, and no sooner"
    )
    assert sixth.hints == ()
    assert agent_row(database)["runs_total"] == 6


def test_runs_in_all_rooms_count_together(database: Database) -> None:
    """An agent learns after five runs, wherever they were."""
    taken = took(database, *(run(f"r{number}", "hello", room=f"room-{number}") for number in range(5)))

    assert taken.hints == (Hint(Kind.EXTRACTION, "ada", "runs"),)


def test_a_failed_run_does_not_count_but_its_messages_are_kept(database: Database) -> None:
    """What the user said in a failed run is as true as ever."""
    took(database, run("r1", "prefer tabs", status="failed"))

    row = agent_row(database)
    assert (row["runs_total"], row["last_success_ms"], row["messages_total"]) == (0, None, 1)
    assert texts(database) == {"r1#0": "prefer tabs"}


def test_a_runs_first_final_status_stands(database: Database) -> None:
    """A platform that reports a run twice with different endings must not count it on the second."""
    took(database, run("r1", "hello", status="failed"))

    took(database, run("r1", "hello", Message(id="new", role="user", content="more"), id="again"))

    assert agent_row(database)["runs_total"] == 0
    assert [row["status"] for row in run_rows(database)] == ["failed"]
    assert texts(database) == {"r1#0": "hello", "new": "more"}
    assert outcomes(database)["again"] == Taken.REPEATED


@pytest.mark.parametrize("kind", ["task", "document"])
def test_task_and_document_runs_leave_nothing_behind(database: Database, kind: str) -> None:
    """Steps of a task are not a conversation; only what is posted in a room enters memory."""
    taken = took(database, run("r1", "step", kind=kind))

    assert taken.outcomes == {Taken.NOT_A_ROOM: 1}
    assert outcomes(database) == {"run:r1": Taken.NOT_A_ROOM}
    assert everything(database) == {"agents": [], "rooms": [], "runs": [], "messages": []}


def test_idle_counts_from_the_latest_end_and_never_from_the_future(database: Database) -> None:
    """A producer whose clock runs a year ahead must not put off the consolidation for a year."""
    took(database, run("r1", minutes=30))
    assert agent_row(database)["last_success_ms"] == to_ms(at(30))

    one_by_one(database, run("r0", minutes=10), run("r2", minutes=600_000))

    latest_ms = agent_row(database)["last_success_ms"]
    assert to_ms(at(60)) <= latest_ms <= to_ms(at(70))
    assert agent_row(database)["wake_at_ms"] == latest_ms + POLICY.idle_ms


def test_the_agents_model_is_that_of_its_latest_run(database: Database) -> None:
    """A late event of an older run must not bring the old, smaller model back."""
    took(database, run("r2", minutes=20, agent_ref=AgentRef(model="large", window=200_000)))

    took(database, run("r1", minutes=10, agent_ref=AgentRef(model="small", window=8_000)))

    row = agent_row(database)
    assert (row["model"], row["model_window"]) == ("large", 200_000)


# Everything arrives twice


def test_a_batch_that_comes_again_changes_nothing(database: Database) -> None:
    """Streams deliver at least once, so the second time must be without effect."""
    published = [run("r1", "one"), recorded("r2", "two"), run("r2"), compacted(1), edited("r1#0", 1, "uno")]
    took(database, *published)
    before = everything(database)

    taken = took(database, *published, *published)

    assert taken.outcomes == {Taken.DUPLICATE: 10}
    assert taken.hints == ()
    assert everything(database) == before


def test_the_same_event_twice_in_one_batch_counts_once(database: Database) -> None:
    """A producer that retries puts both copies side by side."""
    taken = took(database, run("r1", "hello"), run("r1", "hello"))

    assert taken.outcomes == {Taken.TAKEN_IN: 1, Taken.DUPLICATE: 1}
    assert agent_row(database)["runs_total"] == 1


@pytest.mark.parametrize("together", [True, False])
def test_a_known_event_id_with_another_content_is_a_dead_letter(database: Database, together: bool) -> None:
    """A producer that gives two events one id learns of it; neither is silently lost."""
    first, second = run("r1", "hello"), run("r1", "something else")

    if together:
        taken = took(database, first, second)
    else:
        took(database, first)
        taken = took(database, second)

    assert taken.outcomes[Taken.DEAD_LETTER] == 1
    (letter,) = letters(database)
    assert letter["reason"] == DeadLetterReason.CONFLICTING_PAYLOAD
    assert b"something else" in letter["raw"]
    assert "something" not in letter["detail"]
    assert texts(database) == {"r1#0": "hello"}


def test_one_message_in_two_events_is_one(database: Database) -> None:
    """Messages sent ahead come again in the run's own event."""
    said = Message(id="m1", role="user", content="hello")

    one_by_one(database, recorded("r1", said), run("r1", said))

    row = agent_row(database)
    assert (row["messages_total"], row["arrivals_total"]) == (1, 1)


# Order of arrival


def test_the_order_of_arrival_makes_no_difference(database: Database) -> None:
    """Two streams and several intakes promise no order, so none may be relied on."""
    published = [
        recorded("r1", Message(role="user", content="ahead", ordinal=0), minutes=1),
        run("r1", Message(role="user", content="last", ordinal=1), minutes=5),
        edited("r1#0", 1, "edited once", minutes=6),
        edited("r1#0", 2, "edited twice", minutes=7),
        withdrawn("r1#1", 1, minutes=8),
        compacted(1, minutes=9),
        run("r2", minutes=12, conversation=Conversation(id="c1", compaction=1)),
    ]
    seen = []
    for number, order in enumerate(itertools.islice(_orders(published), 12)):
        agent = f"agent-{number}"
        one_by_one(database, *(_for(agent, one) for one in order))
        rows = message_rows(database, agent)
        row = agent_row(database, agent)
        seen.append(
            (
                {key: (texts(database, agent)[key], m["state"], m["said_at_ms"]) for key, m in rows.items()},
                [row[name] for name in ("runs_total", "compactions_total", "last_success_ms")],
                row["messages_total"] - row["messages_read"],
            )
        )

    assert all(one == seen[0] for one in seen)
    assert seen[0][0] == {
        "r1#0": ("edited twice", "stored", to_ms(at(5))),
        "r1#1": ("", "deleted", to_ms(at(5))),
    }
    assert seen[0][1:] == ([2, 1, to_ms(at(12))], 1)


def _orders(published: list[Any]) -> Any:
    yield published
    yield published[::-1]
    shuffler = random.Random(7)
    while True:
        yield shuffler.sample(published, len(published))


def _for(agent: str, one: Any) -> Any:
    return replace(one, agent_id=agent, id=f"{agent}:{one.id}")


def test_an_edit_that_comes_first_waits_for_its_message(database: Database) -> None:
    """The edited words stand, and the message is not read before it is here."""
    took(database, edited("r1#0", 1, "new words"))
    assert message_rows(database)["r1#0"]["state"] == "awaited"
    assert agent_row(database)["messages_total"] == 0

    took(database, run("r1", "old words", minutes=5))

    row = message_rows(database)["r1#0"]
    assert (row["state"], row["revision"], row["said_at_ms"]) == ("stored", 1, to_ms(at(5)))
    assert texts(database) == {"r1#0": "new words"}
    assert agent_row(database)["messages_total"] == 1


def test_an_edit_of_a_message_that_was_read_makes_it_unread_again(database: Database) -> None:
    """A correction must reach the memory although the first wording was learned from."""
    took(database, run("r1", "port 8080"))
    mark_read(database)

    took(database, edited("r1#0", 1, "port 9090"))

    row, agent = message_rows(database)["r1#0"], agent_row(database)
    assert (row["read_by"], row["arrival"]) == (None, 2)
    assert agent["messages_total"] - agent["messages_read"] == 1


def test_a_deleted_message_keeps_nothing_of_its_words(database: Database) -> None:
    """Who deletes a message expects it to be gone, read or not."""
    took(database, run("r1", "my secret"))

    took(database, withdrawn("r1#0", 1))

    row, agent = message_rows(database)["r1#0"], agent_row(database)
    assert (row["state"], row["parts"]) == ("deleted", [])
    assert agent["messages_total"] - agent["messages_read"] == 0


@pytest.mark.parametrize("change", [withdrawn("r1#0", 1), edited("r1#0", 1, "port 9090")])
def test_what_was_learned_from_a_changed_message_is_retired(database: Database, change: Any) -> None:
    """The memory must not go on saying what nobody says any more."""
    took(database, run("r1", "port 8080"))
    mark_read(database)
    with database.write() as connection:
        connection.execute(
            insert(candidates).values(
                agent_id="ada",
                candidate_id="c1",
                place=0,
                room_id="kitchen",
                job_id="job-1",
                kind="fact",
                topic="ports",
                text="The port is 8080.",
                said_at_ms=1,
                evidence=[{"message_id": "r1#0", "quote": "port 8080"}],
            )
        )
        connection.execute(update(agents).values(candidates_total=1))

    took(database, change)

    with database.read() as connection:
        assert connection.execute(select(candidates.c.state)).scalars().all() == ["withdrawn"]
    row = agent_row(database)
    assert row["candidates_total"] - row["candidates_settled"] == 0


def test_a_lower_revision_changes_nothing(database: Database) -> None:
    """Edits overtake each other; the newest words are those of the highest revision."""
    one_by_one(database, run("r1", "first"), edited("r1#0", 3, "third"))

    taken = took(database, edited("r1#0", 2, "second"))

    assert taken.outcomes == {Taken.SUPERSEDED: 1}
    assert texts(database) == {"r1#0": "third"}


def test_a_message_without_a_time_was_said_at_its_runs_end(database: Database) -> None:
    """Wherever the end of the run becomes known first."""
    one_by_one(
        database,
        recorded("r1", "ahead", minutes=1),
        run("r1", minutes=5),
        run("r2", minutes=6),
        recorded("r2", "late", minutes=9),
    )

    said = {key: row["said_at_ms"] for key, row in message_rows(database).items()}
    assert said == {"r1#0": to_ms(at(5)), "r2#0": to_ms(at(6))}


def test_times_keep_the_offset_of_who_sent_them(database: Database) -> None:
    """A note says "on Tuesday evening" in the user's own day."""
    took(database, run("r1", Message.model_validate({"role": "user", "time": "2026-03-02T23:30:00+05:30"})))

    row = message_rows(database)["r1#0"]
    assert (row["said_at_ms"], row["offset_minutes"]) == (1_772_474_400_000, 330)


def test_arrivals_are_numbered_without_gap_or_twin(database: Database) -> None:
    """A cursor over anything else skipped rows for ever."""
    took(database, run("r1", "a", "b"), run("r2", "c"), run("x1", "d", agent="bob"))
    took(database, run("r3", "e", "f"))

    assert sorted(row["arrival"] for row in message_rows(database).values()) == [1, 2, 3, 4, 5]
    assert agent_row(database)["arrivals_total"] == 5
    assert agent_row(database, "bob")["arrivals_total"] == 1


def test_authors_are_derived_where_they_are_not_given(database: Database) -> None:
    """A tool's words must never pass for a person's."""
    took(
        database,
        run(
            "r1",
            Message(role="user", content="1"),
            Message(role="assistant", content="2"),
            Message(role="tool", content="3", tool_call_id="t"),
            Message(role="system", content="4"),
            Message(role="user", content="5", author=Author(id="bot-7", kind="agent")),
            user_id="maria",
        ),
    )

    rows = message_rows(database)
    assert {key: (row["author_id"], row["author_kind"]) for key, row in rows.items()} == {
        "r1#0": ("maria", "person"),
        "r1#1": ("ada", "agent"),
        "r1#2": ("tool", "tool"),
        "r1#3": ("system", "system"),
        "r1#4": ("bot-7", "agent"),
    }


# Compactions


def test_a_compaction_hints_a_consolidation_once(database: Database) -> None:
    """The same compaction, told twice under different event ids, is one."""
    first = took(database, compacted(1, minutes=1, last="m9"))
    second = took(database, compacted(1, minutes=2))

    assert first.hints == (Hint(Kind.CONSOLIDATION, "ada", "compacted"),)
    assert (second.hints, second.outcomes) == ((), {Taken.REPEATED: 1})
    assert agent_row(database)["compactions_total"] == 1
    assert room_row(database)["boundary_message_id"] == "m9"


def test_a_run_that_knows_of_a_compaction_first_does_not_swallow_it(database: Database) -> None:
    """The two streams are read by different processes."""
    took(database, run("r1", conversation=Conversation(id="c1", compaction=1)))

    taken = took(database, compacted(1))

    assert taken.hints == (Hint(Kind.CONSOLIDATION, "ada", "compacted"),)


def test_a_late_event_does_not_bring_an_old_conversation_back(database: Database) -> None:
    """The note that a room gets is keyed by its conversation."""
    one_by_one(
        database,
        run("r2", minutes=20, conversation=Conversation(id="new")),
        run("r1", minutes=10, conversation=Conversation(id="old", compaction=4)),
    )

    room = room_row(database)
    assert (room["conversation_id"], room["compaction"]) == ("new", 0)


# Erasure


def test_what_is_dated_before_an_erasure_does_not_enter_and_what_is_later_does(database: Database) -> None:
    """A late event must not bring back what its user had erased."""
    one_by_one(database, run("r1", "old"), forget_agent(minutes=10))

    one_by_one(database, run("r2", "late", minutes=9), run("r3", "new life", minutes=11))

    assert texts(database) == {"r3#0": "new life"}
    assert outcomes(database)["run:r2"] == Taken.OUTDATED
    row = agent_row(database)
    assert (row["generation"], row["runs_total"] - row["runs_served"]) == (2, 1)


def test_what_is_dated_before_the_erasure_of_its_room_does_not_enter_and_other_rooms_stay(
    database: Database,
) -> None:
    """A room's tombstone has the room's date; nothing else of the agent is held to it."""
    one_by_one(database, run("r1", "old"), forget_room(minutes=10))

    one_by_one(
        database,
        run("r2", "late", minutes=9),
        run("r3", "elsewhere", minutes=9, room="garden"),
        run("r4", "new life", minutes=11),
    )

    assert texts(database) == {"r3#0": "elsewhere", "r4#0": "new life"}
    assert outcomes(database)["run:r2"] == Taken.OUTDATED


def test_deletions_happen_in_their_place_in_the_stream(database: Database) -> None:
    """In one batch too: what stands before goes, what comes after stays."""
    took(
        database,
        run("r1", "before", minutes=1),
        forget_room(minutes=2),
        run("r2", "after", minutes=3),
        run("r3", "elsewhere", minutes=1, room="garden"),
    )

    assert texts(database) == {"r2#0": "after", "r3#0": "elsewhere"}
    assert room_row(database)["generation"] == 2


def test_a_generation_decides_where_it_is_given(database: Database) -> None:
    """Clocks differ between services; a number does not."""
    took(database, forget_agent(minutes=10))

    one_by_one(
        database,
        run("r1", "of the old one", minutes=20, agent_ref=AgentRef(generation=1)),
        run("r2", "of the new one", minutes=5, agent_ref=AgentRef(generation=2)),
    )

    assert texts(database) == {"r2#0": "of the new one"}


def test_an_erasure_that_comes_twice_spares_the_new_life(database: Database) -> None:
    """A service that repeats its request under a new id must not erase what was said since."""
    one_by_one(database, forget_agent(minutes=10), run("r1", "new life", minutes=11))

    taken = took(database, forget_agent(minutes=9.5))

    assert taken.outcomes == {Taken.OUTDATED: 1}
    assert texts(database) == {"r1#0": "new life"}


def test_what_an_erased_person_said_before_does_not_enter_again(database: Database) -> None:
    """Others in the room, and what the person says later, are not touched."""
    took(database, forget_person("maria", minutes=10))

    one_by_one(
        database,
        run("r1", "maria, before", Message(role="assistant", content="to maria"), minutes=5, user_id="maria"),
        run("r2", "tom, before", minutes=6, user_id="tom"),
        run("r3", "maria, later", minutes=11, user_id="maria"),
    )

    assert texts(database) == {"r2#0": "tom, before", "r3#0": "maria, later"}
    assert [row["user_id"] for row in run_rows(database)] == [None, "tom", "maria"]


def test_an_edit_does_not_bring_back_what_an_erased_person_said(database: Database) -> None:
    """The edit was on its way while the message was erased."""
    one_by_one(database, run("r1", "mine", user_id="maria"), forget_person("maria", minutes=10))

    taken = took(database, edited("r1#0", 1, "mine, corrected", minutes=9))

    assert taken.outcomes == {Taken.OUTDATED: 1}
    assert texts(database) == {}


# What cannot be taken in


def test_poison_between_good_events_stops_none_of_them(database: Database) -> None:
    """One producer's bug must not hold up everybody's memory, and nothing of it may get lost."""
    bad = {
        b"{": DeadLetterReason.NOT_JSON,
        b"\xff\xfe": DeadLetterReason.NOT_JSON,
        b"[]": DeadLetterReason.NOT_AN_EVENT,
        _envelope(type="takeaways.run.completed.v9"): DeadLetterReason.UNKNOWN_VERSION,
        _envelope(type="something.else"): DeadLetterReason.UNKNOWN_TYPE,
        _envelope(subject="a\x00b"): DeadLetterReason.BAD_ID,
        _envelope(data={"status": "succeeded"}): DeadLetterReason.BAD_FIELD,
    }
    batch: list[Any] = []
    for number, raw in enumerate(bad):
        batch.append(run(f"r{number}", f"good {number}"))
        batch.append(read_entry(RUNS_STREAM, f"{100 + number}-0", {b"event": raw}))
    batch.append(read_entry(RUNS_STREAM, "199-0", {b"event": b"{}", b"more": b"x"}))

    taken = took(database, *batch)

    assert len(taken.done) == len(batch)
    assert taken.left == ()
    assert len(texts(database)) == len(bad)
    stored = {bytes(letter["raw"]): letter["reason"] for letter in letters(database)}
    assert {raw: stored[raw] for raw in bad} == bad
    assert len(stored) == len(bad) + 1


def test_a_dead_letter_names_the_event_where_it_can_be_made_out(database: Database) -> None:
    """Whoever publishes it must be found."""
    raw = _envelope(type="takeaways.run.completed.v9", id="e7", source="shop", subject="ada")

    took(database, read_entry(RUNS_STREAM, "1-0", {b"event": raw}))

    (letter,) = letters(database)
    assert (letter["source"], letter["event_id"], letter["agent_id"]) == ("shop", "e7", "ada")


def test_nul_and_half_surrogates_are_mended_in_text(database: Database) -> None:
    """PostgreSQL refuses them; the rest of the message is worth keeping."""
    raw = _envelope(
        data={
            "room": {"id": "kitchen"},
            "run_id": "r1",
            "status": "succeeded",
            "messages": [{"role": "user", "content": "a\x00b \ud800 c \U0001f600"}],
        }
    )

    taken = took(database, read_entry(RUNS_STREAM, "1-0", {b"event": raw}))

    assert taken.outcomes == {Taken.TAKEN_IN: 1}
    assert texts(database) == {"r1#0": "a\ufffdb \ufffd c \U0001f600"}


def test_a_message_id_may_be_as_long_as_an_id(database: Database) -> None:
    """A run id of full length still gives its messages an id that fits."""
    took(database, run("r" * 255, "hello", id="e1"))

    ((message_id, text),) = texts(database).items()
    assert len(message_id) <= 255
    assert text == "hello"


def _envelope(**fields: Any) -> bytes:
    envelope = {
        "specversion": "1.0",
        "id": "e1",
        "source": "platform",
        "type": "takeaways.run.completed.v1",
        "subject": "ada",
        "time": "2026-03-02T09:00:00Z",
        "data": {},
    }
    return json.dumps({**envelope, **fields}).encode()


# Restart


def test_a_restart_sets_the_count_back_and_takes_back_what_is_due(database: Database) -> None:
    """As agreed: runs before a restart of the server do not count; their messages wait and are not lost."""
    took(database, *(run(f"r{number}", "hello") for number in range(5)))

    current_boot(database, pinned=None, fresh=True)
    taken = took(database, run("r5", "hello"))

    row = agent_row(database)
    assert taken.hints == ()
    assert (row["runs_total"], row["runs_served"]) == (6, 5)
    assert (row["hints"], row["wake_at_ms"]) == (0, row["last_success_ms"] + POLICY.idle_ms)
    assert row["messages_total"] == 6


def test_after_a_restart_five_new_runs_are_enough(database: Database) -> None:
    """And not one more because of those that were set back."""
    took(database, *(run(f"r{number}") for number in range(3)))
    current_boot(database, pinned=None, fresh=True)

    taken = took(database, *(run(f"s{number}") for number in range(5)))

    assert taken.hints == (Hint(Kind.EXTRACTION, "ada", "runs"),)


def test_a_large_batch_is_stored_whole(database: Database) -> None:
    """Thousands of rows go into one statement each."""
    published = [
        run(f"r{agent}-{number}", "a", "b", agent=f"agent-{agent}", room=f"room-{number % 3}")
        for agent in range(40)
        for number in range(15)
    ]

    taken = took(database, *published)

    assert taken.messages_stored == 1_200
    assert len(taken.hints) == 40
    with database.read() as connection:
        assert len(connection.execute(select(messages.c.message_id)).all()) == 1_200


def test_names_are_for_display_and_the_last_one_stays(database: Database) -> None:
    """A renamed agent keeps its memory."""
    took(database, run("r1", agent_ref=AgentRef(name="Ada")))
    took(database, run("r2", agent_ref=AgentRef(name="Ada L.")), run("r3"))

    assert agent_row(database)["name"] == "Ada L."
