"""Dead letters keep everything of an entry, and each is settled once."""

from __future__ import annotations

import pytest
from redis import Redis

from takeaways.schemas.database import Database
from takeaways.schemas.errors import BadInput, DeadLetterReason
from takeaways.schemas.events import encode
from takeaways.schemas.queues import FIELD, RUNS_STREAM
from takeaways.schemas.tables import inbox
from takeaways.workers.intake import deadletters
from takeaways.workers.intake.deadletters import DeadLetter
from takeaways.workers.intake.taken import Taken
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import pipeline
from tests.published import compacted, run

RAW = bytes(range(256))


def letter(entry_id: str = "1-0", reason: DeadLetterReason = DeadLetterReason.NOT_JSON) -> DeadLetter:
    return DeadLetter(RUNS_STREAM, entry_id, reason, "not UTF-8 at byte 128", RAW, agent_id="ada")


def put(database: Database, *letters: DeadLetter, at_ms: int = 5) -> None:
    with database.write() as connection:
        deadletters.put(connection, letters, at_ms=at_ms)


def test_every_byte_is_kept(database: Database) -> None:
    """What a newer worker can read must still be there then."""
    put(database, letter())

    (listed,) = deadletters.list_open(database)
    shown = deadletters.show(database, listed.id)

    assert (listed.size_bytes, listed.agent_id, listed.at_ms) == (256, "ada", 5)
    assert (shown.raw, shown.reason, shown.id) == (RAW, DeadLetterReason.NOT_JSON, listed.id)


def test_the_same_entry_is_one_letter(database: Database) -> None:
    """An entry that is read twice is set aside once."""
    put(database, letter())
    put(database, letter(), letter("2-0"), at_ms=9)

    assert [one.at_ms for one in deadletters.list_open(database)] == [5, 9]


def test_letters_are_listed_and_counted_by_reason(database: Database) -> None:
    """An operator looks at one kind of fault at a time."""
    put(database, letter("1-0"), letter("2-0"), letter("3-0", DeadLetterReason.BAD_ID))

    assert deadletters.counts(database) == {DeadLetterReason.BAD_ID: 1, DeadLetterReason.NOT_JSON: 2}
    found = deadletters.list_open(database, reason=DeadLetterReason.BAD_ID)
    assert [one.entry_id for one in found] == ["3-0"]
    assert len(deadletters.list_open(database, limit=2)) == 2


def test_a_retry_publishes_the_same_bytes_once(database: Database, redis_url: str) -> None:
    """They keep their event id, so a reader that knows it by now changes nothing."""
    put(database, letter())
    with Redis.from_url(redis_url) as redis:
        entry_id = deadletters.retry(database, redis, letter().id)

        assert redis.xrange(RUNS_STREAM) == [(entry_id.encode(), {FIELD.encode(): RAW})]
        with pytest.raises(BadInput, match="was retried before"):
            deadletters.retry(database, redis, letter().id)
    assert deadletters.list_open(database) == []
    assert deadletters.show(database, letter().id).state == deadletters.RETRIED


def test_a_discarded_letter_is_kept_but_no_longer_open(database: Database) -> None:
    """Discarding settles it; what it held can still be looked up."""
    put(database, letter())

    deadletters.discard(database, letter().id)

    assert deadletters.counts(database) == {}
    assert deadletters.show(database, letter().id).state == deadletters.DISCARDED
    with pytest.raises(BadInput, match="was discarded before"):
        deadletters.discard(database, letter().id)


def test_an_unknown_letter_is_named_in_the_error(sqlite_database: Database) -> None:
    """A mistyped id must not look like success."""
    with pytest.raises(BadInput, match="no dead letter 'd:nothing'"):
        deadletters.show(sqlite_database, "d:nothing")


def test_a_retry_after_the_fix_is_taken_in_under_its_own_identity(database: Database, redis_url: str) -> None:
    """What an old worker could not read counts once it is read, and never twice."""
    event = run("r1", "The quote is signed.")
    aside = DeadLetter(RUNS_STREAM, "1-0", DeadLetterReason.UNKNOWN_TYPE, "newer", encode(event))
    put(database, aside)
    with pipeline(database, redis_url, ScriptedModel()) as system, Redis.from_url(redis_url) as redis:
        deadletters.retry(database, redis, aside.id)
        first = system.take_in()
        redis.xadd(RUNS_STREAM, {FIELD: encode(event)})
        again = system.take_in()

        assert (first.outcomes, again.outcomes) == ({Taken.TAKEN_IN: 1}, {Taken.DUPLICATE: 1})
        assert [(row["source"], row["event_id"]) for row in system.rows(inbox)] == [(event.source, event.id)]
        assert deadletters.list_open(database) == []


def test_what_came_on_the_wrong_stream_is_retried_on_the_right_one(
    sqlite_database: Database, redis_url: str
) -> None:
    """Published where it came from it would come straight back."""
    with pipeline(sqlite_database, redis_url, ScriptedModel()) as system, Redis.from_url(redis_url) as redis:
        redis.xadd(RUNS_STREAM, {FIELD: encode(compacted(1))})
        system.take_in()
        [aside] = deadletters.list_open(sqlite_database)

        deadletters.retry(sqlite_database, redis, aside.id)

        assert aside.reason == DeadLetterReason.WRONG_STREAM
        assert system.take_in().outcomes == {Taken.TAKEN_IN: 1}
        assert system.agent("ada")["compactions_total"] == 1


def test_an_entry_of_another_shape_is_retried_as_it_was(sqlite_database: Database, redis_url: str) -> None:
    """A worker that knows its shape by then gets the same fields, whatever bytes they hold."""
    fields = {b"event\xff": b"\x00\x80", b"more": b"{}"}
    with pipeline(sqlite_database, redis_url, ScriptedModel()) as system, Redis.from_url(redis_url) as redis:
        redis.xadd(RUNS_STREAM, dict(fields))
        system.take_in()
        [aside] = deadletters.list_open(sqlite_database)

        entry_id = deadletters.retry(sqlite_database, redis, aside.id)

        assert redis.xrange(RUNS_STREAM, entry_id, entry_id) == [(entry_id.encode(), fields)]
