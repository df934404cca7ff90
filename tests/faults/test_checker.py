"""The checker itself: it accepts an honest history, and finds every kind of broken promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from takeaways.schemas.memories import EMPTY
from tests.faults import checker
from tests.faults.catalogue import FAULTS, schedule
from tests.faults.checker import Broken, Recovery
from tests.faults.history import History, Known
from tests.faults.stage import POLICY
from tests.faults.storm import without_faults
from tests.faults.story import story

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[History, Known]:
    """A history in which everything went well."""
    told = story(7, agents=2, events=60, seconds=60, start=START)
    return without_faults(list(told.events), tmp_path_factory.mktemp("honest")), Known(
        {event.id: event for event in told.events}
    )


def all_broken(history: History, undisturbed: History, known: Known) -> Iterator[Broken]:
    yield from checker.everything_once(history, known)
    yield from checker.read_once(history, known)
    yield from checker.one_at_a_time(history)
    yield from checker.five_runs(history, replace(POLICY, runs_per_extraction=1_000))
    yield from checker.all_read(history)
    yield from checker.same_memory(history, undisturbed)
    yield from checker.replayed(history)
    yield from checker.nothing_left_over(history)


def test_an_honest_history_breaks_no_promise(honest: tuple[History, Known]) -> None:
    """A checker that cries wolf is soon ignored."""
    history, known = honest

    assert list(all_broken(history, history, known)) == []


def changed(history: History, table: str, change: Callable[[list[dict[str, Any]]], None]) -> History:
    rows = [dict(row) for row in history.rows[table]]
    change(rows)
    return replace(history, rows={**history.rows, table: tuple(rows)})


def first(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    return next(row for row in rows if all(row[key] == value for key, value in wanted.items()))


LIES: dict[str, tuple[str, str, Callable[[list[dict[str, Any]]], Any]]] = {
    "an event was lost": ("1", "inbox", lambda rows: rows.pop()),
    "an event is in twice": ("1", "inbox", lambda rows: rows.append(rows[0])),
    "an entry became a dead letter": ("1", "dead_letters", lambda rows: rows.append({"agent_id": None})),
    "a message was lost": ("2", "messages", lambda rows: rows.pop()),
    "a message came from nowhere": (
        "2",
        "messages",
        lambda rows: rows.append({**rows[0], "message_id": "x"}),
    ),
    "a message was read by nobody": ("2", "messages", lambda rows: rows[0].update(read_by="nobody")),
    "a job read more than it says": (
        "2",
        "jobs",
        lambda rows: first(rows, kind="extraction").update(messages_read=0),
    ),
    "a read message is unread again": ("2", "messages", lambda rows: rows[0].update(read_by=None)),
    "an epoch was given twice": ("3", "jobs", lambda rows: rows.append({**rows[0], "job_id": "x"})),
    "a job ended in another's time": ("3", "jobs", lambda rows: first(rows, epoch=1).update(ended_ms=2**53)),
    "runs were not counted": ("4", "agents", lambda rows: rows[0].update(runs_total=1)),
    "an extraction began too early": (
        "4",
        "jobs",
        lambda rows: first(rows, kind="extraction").update(reason="runs", started_ms=0),
    ),
    "a candidate still waits": ("4", "agents", lambda rows: rows[0].update(candidates_settled=0)),
    "a lesson counts twice in a summary": (
        "5",
        "rooms",
        lambda rows: next(row for row in rows if row["summary"]).update(summary="9 lessons so far"),
    ),
    "a revision is missing": ("5", "revisions", lambda rows: rows.pop()),
    "a lease is held": ("6", "agents", lambda rows: rows[0].update(owner="somebody")),
    "a hint is out": ("6", "agents", lambda rows: rows[0].update(hints=1)),
}


@pytest.mark.parametrize("lie", LIES)
def test_every_broken_promise_is_found(honest: tuple[History, Known], lie: str) -> None:
    """A harness that misses a loss would call the product safe."""
    history, known = honest
    promise, table, change = LIES[lie]

    broken = list(all_broken(changed(history, table, change), history, known))

    assert promise in {one.promise[0] for one in broken}


def test_a_memory_that_differs_is_found(honest: tuple[History, Known]) -> None:
    """What an agent knows afterwards is what all of this is for."""
    history, known = honest
    forgetful = replace(history, memories=dict.fromkeys(history.memories, EMPTY))

    broken = {one.promise for one in all_broken(forgetful, history, known)}

    assert broken == {
        "5 the memory equals that of the run without faults",
        "5 the memory is the replay of its accounts",
    }


def test_entries_and_hints_that_are_left_over_are_found(honest: tuple[History, Known]) -> None:
    """Something that waits for ever is lost, only later."""
    history, _ = honest
    waiting = replace(history, pending={"takeaways:runs": 1}, queued={"extraction": 2})

    assert len(list(checker.nothing_left_over(waiting))) == 2


def test_a_timer_that_never_fires_is_found(honest: tuple[History, Known]) -> None:
    """An idle agent that nobody consolidates knows nothing new tomorrow."""
    history, _ = honest
    asleep = changed(history, "agents", lambda rows: rows[0].update(idle_served_ms=None))

    late = list(checker.timers(asleep, POLICY, quiet_ms=0, bound_seconds=15))

    assert [one.promise for one in late] == ["7 timers fire within their bound"]


def test_a_slow_recovery_is_found() -> None:
    """A bound that nobody measures is a wish."""
    recoveries = [Recovery("a", 9.9, 10), Recovery("b", 10.1, 10), Recovery("c", None, 10)]

    assert [one.where[0] for one in checker.recovered(recoveries)] == ["b", "c"]


def test_a_seed_replays_the_same_story_and_the_same_faults() -> None:
    """A storm that fails once in a hundred must be played again until it is understood."""
    one, again = (story(3, agents=4, events=100, seconds=10, start=START) for _ in range(2))
    later = story(3, agents=4, events=100, seconds=10, start=START + timedelta(days=1))

    assert one == again
    assert [event.id for event in one.events] == [event.id for event in later.events]
    assert schedule(3, database="sqlite", faults=40) == schedule(3, database="sqlite", faults=40)


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_every_fault_is_part_of_every_storm(database: str) -> None:
    """Thirty faults in a storm are enough for each kind to come at least once."""
    planned = schedule(1, database=database, faults=30)

    assert {fault.name for fault in planned} == {fault.name for fault in FAULTS if database in fault.on}
