"""The row of a job tells what it really did, also when the commit of a step failed."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import DBAPIError

from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import jobs
from takeaways.workers.jobs.run import run_job
from takeaways.workers.schedule.asked import ask
from takeaways.workers.testing import ScriptedModel
from tests import published
from tests.pipeline import pipeline

# The last statement of a step fails, as the commit of one does whose connection is lost.
REFUSE_PROGRESS = """
CREATE TRIGGER refuse BEFORE UPDATE ON jobs WHEN NEW.messages_read > 0 AND NEW.outcome IS NULL
BEGIN SELECT RAISE(ABORT, 'refused'); END
"""


def test_a_step_whose_commit_failed_counts_as_nothing(sqlite_database: Database, redis_url: str) -> None:
    """Somebody who looks for lost messages goes by these numbers."""
    with pipeline(sqlite_database, redis_url, ScriptedModel()) as system:
        system.producer.publish(published.run("r1", "Tea, not coffee."))
        system.take_in()
        ask(sqlite_database, ["ada"], [Kind.EXTRACTION])
        with sqlite_database.write() as connection:
            connection.exec_driver_sql(REFUSE_PROGRESS)

        with pytest.raises(DBAPIError):
            run_job(Kind.EXTRACTION, "ada", system.services)

        [job] = system.rows(jobs)
        assert (job["outcome"], job["messages_read"], job["candidates_made"]) == ("failed", 0, 0)
        assert len(system.unread("ada")) == 1
