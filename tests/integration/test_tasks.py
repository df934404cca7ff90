"""What a task tells Flower: its phases while it works, and an ending in words that holds no message text."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from celery.events import EventReceiver

from takeaways.schemas.database import Database
from takeaways.schemas.queues import TASK_OF_KIND, Kind
from takeaways.workers.models.resolve import AgentModel
from takeaways.workers.models.shelf import Chosen
from takeaways.workers.pools.hints import celery_publisher
from takeaways.workers.pools.tasks import JobFailed, Runtime, worker_app
from takeaways.workers.schedule.asked import ask
from takeaways.workers.settings import Settings
from takeaways.workers.testing import ScriptedModel
from tests import troubled
from tests.faults.link import Link, Mode
from tests.pipeline import pipeline
from tests.waiting import wait_until


@pytest.fixture
def settings(sqlite_database: Database, redis_url: str, tmp_path: Path) -> Settings:
    return Settings.from_env(home=tmp_path, redis_url=redis_url, database_url=str(sqlite_database.engine.url))


def test_a_hint_for_an_unknown_agent_ends_in_words(settings: Settings) -> None:
    """A late or doubled hint costs nothing and is no error."""
    app = worker_app(settings)
    task: Any = app.tasks[TASK_OF_KIND[Kind.EXTRACTION]]

    result = task.apply(kwargs={"agent_id": "nobody"}).result

    assert result == "nothing_due: this agent was never heard of"


def test_a_failure_shows_no_text_of_what_failed(settings: Settings, sqlite_database: Database) -> None:
    """The error of a statement quotes its parameters, which may be what somebody said."""
    app = worker_app(settings)
    task: Any = app.tasks[TASK_OF_KIND[Kind.EXTRACTION]]
    with sqlite_database.write() as connection:
        connection.exec_driver_sql("DROP TABLE jobs")
        connection.exec_driver_sql("DROP TABLE agents")

    failed = task.apply(kwargs={"agent_id": "my diary"})

    assert isinstance(failed.result, JobFailed)
    assert str(failed.result) == "OperationalError (OperationalError)"
    assert "diary" not in failed.traceback


def chosen(services: Any) -> Chosen:
    found: Chosen = services.models.chosen(Kind.EXTRACTION, AgentModel())
    return found


def test_services_are_made_once_however_many_jobs_come_first(settings: Settings) -> None:
    """Twenty threads that begin at once share one engine and one model."""
    app = worker_app(settings)
    runtime = Runtime(settings, app)
    found: list[object] = []

    threads = [threading.Thread(target=lambda: found.append(runtime.services())) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(map(id, found))) == 1
    assert len({id(chosen(services).model) for services in found}) == 1
    runtime.close()
    runtime.close()


def test_a_hint_carries_an_id_and_reads_well(settings: Settings) -> None:
    """Flower shows agent and reason; the task's name, which becomes a metric's label, has neither."""
    app = worker_app(settings)
    seen: list[dict[str, Any]] = []
    with app.connection_for_read() as connection:
        receiver = EventReceiver(connection, handlers={"task-sent": seen.append}, app=app)
        stop = threading.Event()

        def listen() -> None:
            while not stop.is_set():
                try:
                    receiver.capture(limit=1, timeout=0.5, wakeup=False)
                except TimeoutError:
                    continue

        listener = threading.Thread(target=listen)
        listener.start()
        publish = celery_publisher(app)

        def sent() -> bool:
            publish(Kind.EXTRACTION, "acme/scout", "runs")
            return bool(seen)

        wait_until(sent)
        stop.set()
        listener.join()

    assert seen[0]["name"] == "takeaways.extract"
    assert seen[0]["kwargs"] == "agent=acme/scout reason=runs"


def test_a_broker_that_hangs_up_costs_no_job(settings: Settings, sqlite_database: Database) -> None:
    """Phases are news for Flower. What the model answered is not thrown away because nobody can be told."""
    with pipeline(sqlite_database, settings.redis_url, ScriptedModel()) as system:
        system.producer.run_completed(
            agent_id="scout", room="r", run_id="r1", messages=[{"role": "user", "content": "Tea."}]
        )
        system.take_in()
    ask(sqlite_database, ["scout"], [Kind.EXTRACTION])
    port = urlsplit(settings.redis_url).port
    assert port is not None
    with Link(("127.0.0.1", port)) as link:
        link.set(Mode.REFUSE)
        reached = {
            "broker_url": f"redis://127.0.0.1:{link.port}/0",
            "model": "takeaways.workers.testing:ScriptedModel",
        }
        app = worker_app(settings.model_copy(update=reached))
        task: Any = app.tasks[TASK_OF_KIND[Kind.EXTRACTION]]

        began = time.monotonic()
        result = task.apply(kwargs={"agent_id": "scout"}).result
        took_seconds = time.monotonic() - began

    assert result.startswith("remembered: 1 messages read; ")
    assert took_seconds < 30


def extracted(settings: Settings, database: Database, text: str) -> Any:
    """The result of an extraction of one message, by a model that the message brings into trouble."""
    with pipeline(database, settings.redis_url, ScriptedModel()) as system:
        system.producer.run_completed(
            agent_id="scout", room="r", run_id="r1", messages=[{"role": "user", "content": text}]
        )
        system.take_in()
    ask(database, ["scout"], [Kind.EXTRACTION])
    app = worker_app(settings.model_copy(update={"model": "tests.troubled:Troubled"}))
    task: Any = app.tasks[TASK_OF_KIND[Kind.EXTRACTION]]
    return task.apply(kwargs={"agent_id": "scout"})


def test_a_job_that_waits_for_its_model_is_shown_as_a_retry(
    settings: Settings, sqlite_database: Database
) -> None:
    """A job that did not get to its work must not look like one that did."""
    ended = extracted(settings, sqlite_database, troubled.OVERLOAD)

    assert ended.state == "RETRY"
    assert str(ended.result).startswith("overloaded: again in 4")


def test_a_job_that_sets_something_aside_is_shown_as_a_failure(
    settings: Settings, sqlite_database: Database
) -> None:
    """Somebody may want to look at what the pipeline could not work on."""
    ended = extracted(settings, sqlite_database, troubled.REFUSE)

    assert ended.state == "FAILURE"
    assert str(ended.result).startswith("refused: the model declined to answer; job ")


def test_a_worker_tries_its_broker_every_few_seconds_however_long_it_was_away(settings: Settings) -> None:
    """After an outage of an hour the pool is back within seconds, not after a pause that grew meanwhile."""
    pauses: list[float] = []
    connection = worker_app(settings).connection_for_read("redis://127.0.0.1:1/0")

    class EnoughError(Exception):
        pass

    def note(error: Exception, pause_seconds: float) -> None:
        pauses.append(pause_seconds)
        if len(pauses) == 3:
            raise EnoughError

    with pytest.raises(EnoughError):
        connection.ensure_connection(note)

    assert max(pauses) <= 4
