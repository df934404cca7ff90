"""Raw text goes so many days after its extraction, where that is set; what was learned stays, with its source."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, update

from takeaways.schemas.database import Database
from takeaways.schemas.tables import candidates, inbox, jobs, messages
from takeaways.workers.intake.retention import (
    QUOTE_GONE,
    drop_old_event_ids,
    drop_old_texts,
    drop_what_is_over,
)
from takeaways.workers.memories import history
from takeaways.workers.testing import ScriptedModel
from tests.canary import found_in
from tests.pipeline import Pipeline, pipeline

AT = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
SAID = "Staging uses port 9443, and a long story goes with it."


@pytest.fixture
def read_once(database: Database, redis_url: str) -> Iterator[Pipeline]:
    """One message was extracted; another came later and is unread."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        say(system, 1, SAID)
        system.flush()
        yield system


def say(system: Pipeline, run: int, text: str) -> None:
    system.producer.run_completed(
        agent_id="scout", room="room-1", run_id=f"run-{run}", status="succeeded", started_at=AT, ended_at=AT,
        messages=[{"role": "user", "content": text, "time": AT.isoformat()}],
    )  # fmt: skip
    system.take_in()


def test_nothing_is_deleted_unless_days_are_set(read_once: Pipeline) -> None:
    """Forgetting by default would surprise."""
    read_once.advance(hours=24 * 400)

    assert drop_old_texts(read_once.database, keep_days=None) == 0
    assert SAID in str(read_once.rows(messages))


def test_text_goes_after_its_days_and_the_row_stays(read_once: Pipeline) -> None:
    """Who said something and when is still known; quotes stay as evidence unless somebody chooses otherwise."""
    say(read_once, 2, "Not read yet.")
    read_once.advance(hours=24 * 31)

    dropped = drop_old_texts(read_once.database, keep_days=30)
    again = drop_old_texts(read_once.database, keep_days=30)

    rows = {row["message_id"]: row for row in read_once.rows(messages)}
    with read_once.database.read() as connection:
        (blamed,) = history.blame(connection, "scout")
    assert (dropped, again) == (1, 0)
    assert SAID not in str(rows)
    assert "Not read yet." in str(rows)
    assert rows["run-1#0"]["expired_ms"]
    assert rows["run-1#0"]["said_at_ms"] == round(AT.timestamp() * 1000)
    assert blamed.witnesses[0].quote == SAID
    assert not blamed.witnesses[0].text_is_kept


def test_quotes_go_too_by_choice(read_once: Pipeline, redis_url: str) -> None:
    """Where even quotes are too much, the lesson stays and says that its words were deleted."""
    read_once.advance(hours=24 * 31)

    drop_old_texts(read_once.database, keep_days=30, quotes=False)

    (row,) = read_once.rows(candidates)
    assert row["evidence"][0]["quote"] == QUOTE_GONE
    assert row["text"] == SAID
    assert "messages.parts" not in found_in(read_once.database, redis_url, word="Staging")


def test_a_repeat_of_a_deleted_text_is_known_and_an_edit_of_it_is_learned(read_once: Pipeline) -> None:
    """A late duplicate must not bring the text back; a new wording is new."""
    read_once.advance(hours=24 * 31)
    drop_old_texts(read_once.database, keep_days=30)

    say(read_once, 1, SAID)
    repeated = SAID in str(read_once.rows(messages))
    read_once.producer.message_edited(
        agent_id="scout", room="room-1", message_id="run-1#0", revision=1,
        message={"role": "user", "content": "Staging uses port 9444."},
    )  # fmt: skip
    read_once.take_in()
    read_once.flush()
    lines = [line.text for section in read_once.memory("scout").sections for line in section.lines]
    read_once.advance(hours=24 * 31)
    dropped = drop_old_texts(read_once.database, keep_days=30)

    assert not repeated
    assert lines == ["Staging uses port 9444."]
    assert dropped == 1


def test_a_text_goes_also_where_its_job_died_before_it_could_say_how_it_ended(read_once: Pipeline) -> None:
    """A promise to delete after so many days has no exception for crashes."""
    with read_once.database.write() as connection:
        connection.execute(update(jobs).values(ended_ms=None, outcome=None))
    read_once.advance(hours=24 * 31)

    drop_old_texts(read_once.database, keep_days=30)

    assert SAID not in str(read_once.rows(messages))


def test_what_is_over_goes_batch_by_batch_until_there_is_no_more(read_once: Pipeline) -> None:
    """Each transaction is short, and retention still keeps up with whatever comes in."""
    for run in (2, 3):
        say(read_once, run, "More of the same.")
    read_once.flush()
    read_once.advance(hours=24 * 91)

    more = [drop_what_is_over(read_once.database, text_days=30, quotes=True, limit=2) for _ in range(3)]

    assert more == [True, False, False]
    assert read_once.rows(inbox) == []


def test_two_that_drop_at_once_do_not_wait_for_each_other(
    postgresql_database: Database, redis_url: str
) -> None:
    """Every intake process drops what is over, and none of them holds up another."""
    with pipeline(postgresql_database, redis_url, ScriptedModel()) as system:
        for run in (1, 2):
            say(system, run, SAID)
        system.advance(hours=24 * 91)
        with postgresql_database.write() as connection:
            connection.execute(select(inbox).limit(1).with_for_update()).all()

            dropped = drop_old_event_ids(postgresql_database)

    assert dropped == 1
