"""Session summaries: of the most recently active rooms, and none goes before its candidates are merged."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import candidates, rooms
from takeaways.workers.consolidation import store
from takeaways.workers.models.answers import ExtractionAnswer, RoomLearned
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import Pipeline, pipeline

AT = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)


@pytest.fixture
def system(database: Database, redis_url: str) -> Iterator[Pipeline]:
    with pipeline(database, redis_url, ScriptedModel(), Policy(rooms_summarised=2)) as made:
        yield made


def hear(system: Pipeline, room: str, run: int, text: str = "A fact.") -> None:
    at = AT + timedelta(minutes=run)
    system.producer.run_completed(
        agent_id="scout", room=room, run_id=f"run-{run}", status="succeeded", started_at=at, ended_at=at,
        messages=[{"role": "user", "content": f"{text} {run}", "time": at.isoformat()}],
    )  # fmt: skip
    system.take_in()


def summarised(system: Pipeline) -> set[str]:
    return {row["room_id"] for row in system.rows(rooms) if row["summary"]}


def test_the_oldest_rooms_lose_their_summary_once_all_is_merged(system: Pipeline) -> None:
    """A reader is shown what is going on, not everything that ever went on."""
    for run, room in enumerate(("oldest", "older", "new", "newest")):
        hear(system, room, run)
    system.flush(kinds=[Kind.EXTRACTION])
    before = summarised(system)

    system.flush()

    assert before == {"oldest", "older", "new", "newest"}
    assert summarised(system) == {"new", "newest"}


def test_a_summary_stays_while_a_candidate_of_its_room_waits(system: Pipeline) -> None:
    """Until it is in the memory, the summary is all there is of it."""
    for run, room in enumerate(("oldest", "older", "new", "newest")):
        hear(system, room, run)
    system.flush(kinds=[Kind.EXTRACTION])
    with system.database.write() as connection:
        connection.execute(update(candidates).where(candidates.c.room_id != "oldest").values(state="merged"))
        dropped = store.drop_old_summaries(connection, "scout", keep=2)

    assert dropped == 1
    assert summarised(system) == {"oldest", "new", "newest"}


def test_a_room_that_becomes_active_again_is_summarised_again(system: Pipeline) -> None:
    """Recent is by activity, not by the first message."""
    for run, room in enumerate(("one", "two", "three")):
        hear(system, room, run)
    system.flush()

    hear(system, "one", 9)
    system.flush()

    assert summarised(system) == {"one", "three"}


@pytest.mark.parametrize("text", ["", "   ", "...", "(unchanged)", "[… same as before …]"])
def test_only_a_good_summary_replaces_one(system: Pipeline, text: str) -> None:
    """A model that has nothing to say must not wipe what a room was about."""
    hear(system, "room", 1)
    system.flush()
    (before,) = [row["summary"] for row in system.rows(rooms)]
    answer = ExtractionAnswer(rooms=(RoomLearned(room="r1", summary=text),))
    system.services.model = ScriptedModel(extractions=[answer])

    hear(system, "room", 2)
    system.flush()

    assert [row["summary"] for row in system.rows(rooms)] == [before]
