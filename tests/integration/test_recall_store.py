"""Reading the memory from the database."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, update

from takeaways.recall.store import UNBORN, load_memory, load_session_summaries, snapshot
from takeaways.schemas.database import Database
from takeaways.schemas.errors import BadInput, StoreUnavailable
from takeaways.schemas.tables import section_texts
from tests.memories import NOON_MS, forget, meet, memory, remember, room, section

ONE = memory(section("Deploys", "Port 9443."), section("People", "The owner is in Lisbon."))
TWO = memory(*ONE.sections[1:], section("Deploys", "Port 9444."))


def test_a_memory_comes_back_as_it_was_stored(database: Database) -> None:
    """Sections, their order and every field survive; older revisions stay readable."""
    remember(database, "a", ONE)
    remember(database, "a", TWO, made_at_ms=NOON_MS + 1)

    with snapshot(database) as connection:
        assert load_memory(connection, "a").memory == TWO
        assert load_memory(connection, "a").number == 2
        assert load_memory(connection, "a").made_at_ms == NOON_MS + 1
        assert load_memory(connection, "a", 1).memory == ONE
        assert load_memory(connection, "a", 0) == UNBORN


def test_nobody_and_newborns_and_the_erased_have_an_empty_memory(database: Database) -> None:
    """There is always an answer, and it is nobody else's."""
    remember(database, "other", ONE)
    meet(database, "newborn")
    remember(database, "erased", ONE)
    forget(database, "erased")

    with snapshot(database) as connection:
        for agent in ("nobody", "newborn", "erased", "Other", "other "):
            assert load_memory(connection, agent) == UNBORN


def test_a_revision_that_is_not_there_is_said(database: Database) -> None:
    """Asking for a revision that was thinned out is no empty memory."""
    remember(database, "a", ONE)

    with snapshot(database) as connection, pytest.raises(BadInput, match="no revision 9"):
        load_memory(connection, "a", 9)


def test_a_memory_of_many_sections_is_read_whole(database: Database) -> None:
    """However many topics there are, none is left behind."""
    many = memory(*(section(f"Topic {number}", f"Fact {number}.") for number in range(1_203)))
    remember(database, "a", many)

    with snapshot(database) as connection:
        assert load_memory(connection, "a").memory == many


def test_a_damaged_memory_is_never_shown_in_part(database: Database) -> None:
    """A missing or unreadable section is an error that names it, not a shorter memory."""
    remember(database, "a", ONE)
    with database.write() as connection:
        connection.execute(update(section_texts).values(content={"title": "secret words"}))
    with (
        pytest.raises(StoreUnavailable, match="cannot be read") as unreadable,
        snapshot(database) as connection,
    ):
        load_memory(connection, "a")
    assert "secret words" not in str(unreadable.value)

    with database.write() as connection:
        connection.execute(delete(section_texts))
    with (
        pytest.raises(StoreUnavailable, match="2 sections that are not stored"),
        snapshot(database) as connection,
    ):
        load_memory(connection, "a")


def test_session_summaries_are_those_of_the_latest_rooms(database: Database) -> None:
    """The thirty most recently active rooms that have a summary, the newest first."""
    for number in range(40):
        room(
            database,
            "a",
            f"r{number:02}",
            summary=f"About {number}.",
            title="T",
            last_activity_ms=NOON_MS + number,
        )
    room(database, "a", "silent", last_activity_ms=NOON_MS + 99)
    room(database, "b", "other", summary="Not yours.", last_activity_ms=NOON_MS + 99)

    with snapshot(database) as connection:
        found = load_session_summaries(connection, "a")
        assert [summary.room_id for summary in found] == [f"r{number:02}" for number in range(39, 9, -1)]
        assert (found[0].text, found[0].title, found[0].last_activity_ms) == ("About 39.", "T", NOON_MS + 39)
        assert len(load_session_summaries(connection, "a", 2)) == 2
        assert load_session_summaries(connection, "nobody") == []


def test_a_snapshot_is_one_moment(database: Database) -> None:
    """The memory and the summaries of a folder belong together."""
    remember(database, "a", ONE)
    room(database, "a", "r", summary="before")

    with snapshot(database) as connection:
        before = load_memory(connection, "a")
        remember(database, "a", TWO)
        room(database, "a", "r", summary="after")

        assert load_memory(connection, "a") == before
        assert load_session_summaries(connection, "a")[0].text == "before"
