"""Real conversations of every shape, from the file to the memory: nothing well-formed is lost on the way."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import func, select

from takeaways.schemas.database import Database
from takeaways.schemas.tables import candidates, dead_letters, messages, quarantines
from takeaways.workers.importing import Problem, events_of, read
from takeaways.workers.models.offline import OfflineModel
from tests.data import DATA, needs_data
from tests.pipeline import pipeline


@needs_data
@pytest.mark.parametrize(
    "folder", ["locomo", "tau-airline", "swe-agent", "claude-code", "chats", "longmemeval"]
)
def test_a_real_file_goes_all_the_way(sqlite_database: Database, redis_url: str, folder: str) -> None:
    """Every well-formed message is read by exactly one extraction, and every lesson is accounted for."""
    problems: list[Problem] = []
    published_at = datetime.now(UTC)
    with pipeline(sqlite_database, redis_url, OfflineModel()) as system:
        read_messages = 0
        for room in read(DATA / folder, agent_id=folder, report=problems.append):
            system.producer.publish_many(events_of(room, folder, published_at=published_at))
            read_messages += room.message_count
        system.take_in()
        [flushed] = system.flush([folder])

        with sqlite_database.read() as connection:
            stored = connection.execute(select(func.count()).select_from(messages)).scalar_one()
            unread = connection.execute(
                select(func.count()).select_from(messages).where(messages.c.read_by.is_(None))
            ).scalar_one()
            waiting = connection.execute(
                select(func.count()).select_from(candidates).where(candidates.c.state == "waiting")
            ).scalar_one()
        memory = system.memory(folder)
        aside = system.rows(dead_letters) + system.rows(quarantines)

    assert read_messages > 0
    assert stored == read_messages
    assert (unread, waiting, aside) == (0, 0, [])
    assert (flushed.unread, flushed.waiting) == (0, 0)
    rests_on = {id_ for section in memory.sections for line in section.lines for id_ in line.candidates}
    assert all(line.candidates for section in memory.sections for line in section.lines)
    with sqlite_database.read() as connection:
        known = set(connection.execute(select(candidates.c.candidate_id)).scalars())
    assert rests_on <= known
