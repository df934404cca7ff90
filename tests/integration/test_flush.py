"""Flushing beside running workers, who may be quicker at any step."""

from __future__ import annotations

from itertools import count
from threading import Thread

from sqlalchemy import event

from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.result import JobResult
from takeaways.workers.jobs.run import run_job
from takeaways.workers.schedule.asked import ask
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.testing import ScriptedModel
from tests import published
from tests.pipeline import pipeline

# Transactions of a flush that only consolidates: it asks, looks at the model's state, is refused the lease because an
# extraction goes first, and looks why.
LOOKS_WHY = 4


def test_a_flush_goes_on_where_a_worker_was_quicker(database: Database, redis_url: str) -> None:
    """What goes first is done by somebody else between two questions: the flush must still do what is left."""
    never_idle = Policy(idle_seconds=10**9)
    with pipeline(database, redis_url, ScriptedModel(), never_idle) as made:
        made.producer.publish_many([published.run(f"r{n}", f"Rule {n} holds.") for n in range(5)])
        made.take_in()
        run_job(Kind.EXTRACTION, "ada", made.services)
        ask(database, ["ada"], [Kind.EXTRACTION])
        worker = made.another_worker("quicker")
        done: list[JobResult] = []
        transactions = count(1)

        def committed(_connection: object) -> None:
            if next(transactions) == LOOKS_WHY:
                quicker = Thread(target=lambda: done.append(run_job(Kind.EXTRACTION, "ada", worker)))
                quicker.start()
                quicker.join()

        event.listen(database.engine, "commit", committed)
        (flushed,) = made.flush(["ada"], kinds=[Kind.CONSOLIDATION])

    assert [job.outcome for job in done] == [Outcome.NOTHING_TO_REMEMBER]
    assert flushed.waiting == 0
    assert [job.outcome for job in flushed.jobs] == [Outcome.REMEMBERED]
