"""What intake makes of single entries, errors and instants, without any database."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, OperationalError

from takeaways.schemas.errors import DeadLetterReason
from takeaways.schemas.events import (
    AgentDeleted,
    AgentRef,
    AnyData,
    Message,
    RoomDeleted,
    RoomRef,
    encode,
    to_ms,
)
from takeaways.schemas.queues import RUNS_STREAM, Kind
from takeaways.workers.intake.admission import is_outdated
from takeaways.workers.intake.entries import Entry, read_entry
from takeaways.workers.intake.patience import Patience
from takeaways.workers.intake.picture import RoomCopy
from takeaways.workers.intake.refusals import Meaning, meaning_of, named
from takeaways.workers.intake.taken import Hint, Taken
from takeaways.workers.intake.wake import Wake, wake_after
from takeaways.workers.schedule.decide import Decision, Outlook, Reason
from takeaways.workers.schedule.due import Due
from takeaways.workers.schedule.policy import Policy
from tests.published import at, recorded, run

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def read(raw: bytes) -> Entry:
    return read_entry(RUNS_STREAM, "1-0", {b"event": raw})


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_break_the_reader(raw: bytes) -> None:
    """Anybody may XADD anything; the next entry must not wait behind it."""
    entry = read(raw)

    assert entry.event is None
    assert entry.raw == raw
    assert isinstance(entry.reason, DeadLetterReason)


@given(JSON)
def test_no_content_breaks_the_reader(content: Any) -> None:
    """Platforms put into a message what they like; it is read or set aside, and never raises."""
    entry = read(encode(run("r1", Message(role="user", content=content))))

    if entry.event is not None:
        assert isinstance(json.loads(entry.messages[0].parts), list)
    else:
        assert entry.reason is not None


def test_a_misshapen_entry_keeps_all_its_fields() -> None:
    """Somebody who spreads an event over several fields gets all of them back."""
    entry = read_entry(RUNS_STREAM, "1-0", {b"id": b"7", b"type": b"\xff"})

    assert entry.reason is DeadLetterReason.NOT_AN_EVENT
    assert json.loads(entry.raw) == {"fields of the entry": [["id", "7"], ["type", "\u00ff"]]}


def test_messages_without_an_id_are_named_for_their_place_in_the_run() -> None:
    """So that the same message in two parts of a run is one."""
    first = Entry.of(recorded("r1", Message(role="user", content="a"), Message(role="user", content="b")))
    rest = Entry.of(run("r1", Message(role="user", content="c", ordinal=2)))

    assert [one.message_id for one in first.messages + rest.messages] == ["r1#0", "r1#1", "r1#2"]


def test_an_entry_that_is_stored_nowhere_locks_no_agent() -> None:
    """Thousands of task steps a minute must not wait for, or make, rows of agents."""
    assert Entry.of(run("r1", kind="task")).agent_id is None
    assert Entry.of(run("r1")).agent_id == "ada"


# Admission


class Erased:
    generation = 3
    deleted_at_ms = to_ms(at(10))


@pytest.mark.parametrize(
    ("generation", "minutes", "outdated"),
    [
        (None, 9, True),
        (None, 10, True),
        (None, 10.1, False),
        (2, 99, True),
        (3, 1, False),
        (4, 1, False),
    ],
)
def test_an_event_enters_by_its_generation_or_else_by_its_date(
    generation: int | None, minutes: float, outdated: bool
) -> None:
    """Erased once means erased, and a new life under the same id is possible."""
    of_agent: AnyData = AgentDeleted(agent=AgentRef(generation=generation))
    of_room: AnyData = RoomDeleted(room=RoomRef(id="kitchen", generation=generation))
    room = RoomCopy("ada", "kitchen", generation=3, deleted_at_ms=Erased.deleted_at_ms)

    class Alive:
        generation = 1
        deleted_at_ms = None

    assert is_outdated(of_agent, to_ms(at(minutes)), Erased(), None) is outdated
    assert is_outdated(of_room, to_ms(at(minutes)), Alive(), room) is outdated


# The agent's timer


ROW = {
    "agent_id": "ada",
    "wake_at_ms": 500,
    "hints": 2,
    "left_for": "extraction",
    "left_until_ms": 900,
    "due_since_ms": 400,
    "due_kind": "extraction",
}
DUE_SINCE_BEFORE = Due(400, "extraction", "runs")
POLICY = Policy()


def decision(next_: Kind | None = None, wake_at_ms: int | None = None) -> Decision:
    reason = Reason.RUNS if next_ else None
    return Decision(next_, reason, None, wake_at_ms, Outlook(reason), Outlook())


@pytest.mark.parametrize(
    ("before", "after", "wake"),
    [
        (decision(), decision(wake_at_ms=700), Wake(700, 0)),
        (decision(Kind.EXTRACTION), decision(wake_at_ms=None), Wake(None, 0)),
        (
            decision(),
            decision(Kind.EXTRACTION),
            Wake(
                1_000 + POLICY.hint_wait_ms(1), 1, Hint(Kind.EXTRACTION, "ada", "runs"), due=DUE_SINCE_BEFORE
            ),
        ),
        (
            decision(Kind.EXTRACTION),
            decision(Kind.EXTRACTION),
            Wake(500, 2, None, "extraction", 900, DUE_SINCE_BEFORE),
        ),
        (
            decision(Kind.CONSOLIDATION),
            decision(Kind.EXTRACTION),
            Wake(
                1_000 + POLICY.hint_wait_ms(1), 1, Hint(Kind.EXTRACTION, "ada", "runs"), due=DUE_SINCE_BEFORE
            ),
        ),
    ],
)
def test_a_hint_is_due_on_the_step_to_due(before: Decision, after: Decision, wake: Wake) -> None:
    """And what was due before keeps the timer of its hint, however many events come in."""
    assert wake_after(ROW, before, after, POLICY, 1_000) == wake


# Trouble


def failure(kind: type[DBAPIError], original: Exception) -> DBAPIError:
    return kind("INSERT …", {"text": "secret words"}, original)


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (failure(DataError, psycopg.errors.NumericValueOutOfRange()), Meaning.REFUSED),
        (failure(IntegrityError, psycopg.errors.NotNullViolation()), Meaning.REFUSED),
        (failure(OperationalError, psycopg.errors.ProgramLimitExceeded()), Meaning.REFUSED),
        (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"), Meaning.REFUSED),
        (failure(OperationalError, psycopg.errors.DeadlockDetected()), Meaning.LOST_RACE),
        (failure(OperationalError, psycopg.errors.SerializationFailure()), Meaning.LOST_RACE),
        (failure(OperationalError, psycopg.errors.LockNotAvailable()), Meaning.LOCKED),
        (failure(OperationalError, psycopg.errors.QueryCanceled()), Meaning.TOO_SLOW),
        (failure(OperationalError, psycopg.errors.DiskFull()), Meaning.UNAVAILABLE),
        (failure(OperationalError, psycopg.errors.AdminShutdown()), Meaning.UNAVAILABLE),
        (failure(OperationalError, psycopg.OperationalError("connection refused")), Meaning.UNAVAILABLE),
    ],
)
def test_only_what_is_the_events_fault_is_held_against_it(error: Exception, meaning: Meaning) -> None:
    """An outage must dead-letter nothing, and a bad value must not look like an outage."""
    assert meaning_of(error) is meaning


def test_an_errors_name_quotes_nothing_of_a_message() -> None:
    """Databases put the refused value into the text of the error."""
    error = failure(DataError, psycopg.errors.InvalidTextRepresentation("secret words"))

    assert named(error) == "InvalidTextRepresentation (SQLSTATE 22P02)"


def test_waiting_doubles_up_to_a_limit_and_starts_anew_after_success() -> None:
    """Neither a storm of attempts at a database that comes back, nor minutes of waiting after a blip."""
    patience = Patience(first_seconds=0.1, most_seconds=1.0, random_unit=lambda: 1.0)

    assert [patience.failed() for _ in range(5)] == [0.1, 0.2, 0.4, 0.8, 1.0]
    assert patience.succeeded()
    assert not patience.succeeded()
    assert patience.failed() == 0.1


def test_every_outcome_has_a_meaning_for_people() -> None:
    """Status pages and docs show it."""
    assert all(one.meaning for one in Taken)
