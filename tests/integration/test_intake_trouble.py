"""Intake when the database refuses, locks or goes away, and when several take in at once."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, select, text
from sqlalchemy.exc import InternalError, OperationalError

from takeaways.schemas.database import Database
from takeaways.schemas.errors import DeadLetterReason
from takeaways.schemas.events import Message
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents
from takeaways.workers.intake.taken import Taken, TakenIn
from takeaways.workers.intake.transaction import take_in
from takeaways.workers.schedule.boot import current_boot
from tests.published import (
    POLICY,
    agent_row,
    entries,
    entry,
    everything,
    forget_room,
    letters,
    message_rows,
    outcomes,
    run,
    texts,
)


def refuse_poison(database: Database) -> None:
    """From now on the database refuses a message with the id `poison`."""
    with database.write() as connection:
        if database.is_sqlite:
            connection.execute(
                text(
                    "CREATE TRIGGER no_poison BEFORE INSERT ON messages WHEN NEW.message_id = 'poison'"
                    " BEGIN SELECT RAISE(ABORT, 'poison'); END"
                )
            )
        else:
            connection.execute(
                text("ALTER TABLE messages ADD CONSTRAINT no_poison CHECK (message_id <> 'poison')")
            )


@contextmanager
def held(database: Database, agent: str) -> Iterator[Connection]:
    """Somebody else holds the agent's row."""
    with database.write() as connection:
        connection.execute(select(agents).where(agents.c.agent_id == agent).with_for_update()).all()
        yield connection


def test_what_the_database_refuses_is_set_aside_alone(database: Database) -> None:
    """A value that no check of ours foresaw costs one event, not the stream."""
    refuse_poison(database)
    batch = entries(*(run(f"r{number}", "good", agent=f"a{number % 3}") for number in range(9)))
    bad = [
        entry(run(f"bad{number}", Message(id="poison", role="user", content="words"), agent="a1"))
        for number in range(2)
    ]
    batch[4:4], batch[7:7] = bad[:1], bad[1:]

    taken = take_in(database, batch, policy=POLICY)

    assert taken.outcomes == {Taken.TAKEN_IN: 9, Taken.DEAD_LETTER: 2}
    assert len(taken.done) == 11
    found = letters(database)
    assert [letter["reason"] for letter in found] == [DeadLetterReason.REFUSED_BY_DATABASE] * 2
    assert [bytes(letter["raw"]) for letter in found] == [one.raw for one in bad]
    assert not any("words" in letter["detail"] for letter in found)
    assert not any(event_id.startswith("run:bad") for event_id in outcomes(database))


def test_a_key_that_no_index_holds_is_refused_and_not_tried_for_ever(postgresql_database: Database) -> None:
    """PostgreSQL calls it operational, but three long ids in one key will never fit."""
    varied = random.Random(5)
    agent, room, message = (
        "".join(chr(varied.randrange(0x1F300, 0x1F600)) for _ in range(255)) for _ in range(3)
    )
    words = Message(id=message, role="user", content="words")

    taken = take_in(
        postgresql_database,
        entries(
            run("r1", "good", agent="other"),
            run("r2", words, agent=agent, room=room),
            run("r3", "good", agent="other"),
        ),
        policy=POLICY,
    )

    assert taken.outcomes == {Taken.TAKEN_IN: 2, Taken.DEAD_LETTER: 1}
    assert letters(postgresql_database)[0]["reason"] == DeadLetterReason.REFUSED_BY_DATABASE


def test_a_database_that_is_away_dead_letters_nothing(sqlite_database: Database) -> None:
    """An outage says nothing about the events."""
    with sqlite_database.write() as connection:
        connection.execute(text("ALTER TABLE rooms RENAME TO away"))

    with pytest.raises(OperationalError):
        take_in(sqlite_database, entries(run("r1", "hello")), policy=POLICY)

    with sqlite_database.write() as connection:
        connection.execute(text("ALTER TABLE away RENAME TO rooms"))
    assert letters(sqlite_database) == []
    assert everything(sqlite_database)["agents"] == []
    assert outcomes(sqlite_database) == {}


def test_a_server_that_became_a_standby_is_left_with_the_first_write_that_it_refuses(
    postgresql_database: Database,
) -> None:
    """It answers every question, so that the connections look well: writes failed until somebody restarted us."""
    engine = postgresql_database.engine
    pooled = [engine.connect() for _ in range(3)]
    for connection in pooled:
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        driver.commit()
    for connection in pooled:
        connection.close()
    batch = entries(run("r1", "It waits."))

    with pytest.raises(InternalError, match="read-only"):
        take_in(postgresql_database, batch, policy=POLICY)
    taken = take_in(postgresql_database, batch, policy=POLICY)

    assert taken.outcomes == {Taken.TAKEN_IN: 1}


def test_a_locked_agent_holds_up_only_itself(postgresql_database: Database) -> None:
    """Somebody who forgot to end a transaction must not stop everybody's memory."""
    database = postgresql_database
    take_in(database, entries(run("r0", agent="busy")), policy=POLICY)
    batch = entries(
        run("r1", "one", agent="busy"),
        run("r2", "two", agent="free"),
        run("r3", "three", agent="new"),
        forget_room(agent="busy", minutes=5),
        run("r4", "four", agent="busy", minutes=6),
        run("r5", "five", agent="free"),
    )

    with held(database, "busy"):
        taken = take_in(database, batch, policy=POLICY, lock_timeout_ms=100)

    assert [one.entry_id for one in taken.left] == [batch[place].entry_id for place in (0, 3, 4)]
    assert texts(database, "free") == {"r2#0": "two", "r5#0": "five"}
    assert texts(database, "new") == {"r3#0": "three"}
    again = take_in(database, taken.left, policy=POLICY)
    assert again.left == ()
    assert texts(database, "busy") == {"r4#0": "four"}


def test_a_batch_of_one_locked_agent_is_left_whole(postgresql_database: Database) -> None:
    """Left entries stay pending in the stream; nothing of them may be half stored."""
    database = postgresql_database
    take_in(database, entries(run("r0", agent="busy")), policy=POLICY)

    with held(database, "busy"):
        taken = take_in(database, entries(run("r1", "one", agent="busy")), policy=POLICY, lock_timeout_ms=100)

    assert (len(taken.left), taken.done) == (1, ())
    assert "run:r1" not in outcomes(database)


def test_concurrent_intakes_do_not_deadlock_and_count_each_event_once(postgresql_database: Database) -> None:
    """Several intakes share the work of one stream, and an entry may be with two of them."""
    database = postgresql_database
    current_boot(database, pinned=None, fresh=True)
    names = [f"agent-{number:02}" for number in range(20)]
    published = entries(
        *(run(f"r{number}-{name}", "a", "b", agent=name) for number in range(12) for name in names)
    )
    results: list[TakenIn] = []

    def work(seed: int) -> None:
        shuffler = random.Random(seed)
        mine = shuffler.sample(published, len(published))
        for start in range(0, len(mine), 40):
            taken = take_in(database, mine[start : start + 40], policy=POLICY)
            while taken.left:
                results.append(taken)
                taken = take_in(database, taken.left, policy=POLICY)
            results.append(taken)

    _together(*(lambda seed=seed: work(seed) for seed in range(4)))

    with database.read() as connection:
        deadlocks = text("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        assert connection.execute(deadlocks).scalar_one() == 0
    total = sum((taken.outcomes for taken in results), Counter[Taken]())
    assert total == {Taken.TAKEN_IN: len(published), Taken.DUPLICATE: 3 * len(published)}
    for name in names:
        row = agent_row(database, name)
        assert (row["runs_total"], row["arrivals_total"]) == (12, 24)
        arrivals = [message["arrival"] for message in message_rows(database, name).values()]
        assert sorted(arrivals) == list(range(1, 25))
    due = [hint for taken in results for hint in taken.hints if hint.kind is Kind.EXTRACTION]
    assert Counter(hint.agent_id for hint in due) == dict.fromkeys(names, 1)


def test_on_sqlite_two_intakes_wait_for_each_other(sqlite_database: Database) -> None:
    """The two pools' intakes write to one file."""
    published = entries(*(run(f"r{number}", "a", agent=f"a{number % 4}") for number in range(60)))

    def work(part: int) -> None:
        for start in range(0, len(published), 6):
            take_in(sqlite_database, published[start + part : start + 6 : 2], policy=POLICY)

    _together(lambda: work(0), lambda: work(1))

    assert sum(agent_row(sqlite_database, f"a{number}")["runs_total"] for number in range(4)) == 60


def _together(*tasks: object) -> None:
    """Run them at the same time and raise what any of them raised."""
    errors: list[BaseException] = []

    def guarded(task: object) -> None:
        try:
            assert callable(task)
            task()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
