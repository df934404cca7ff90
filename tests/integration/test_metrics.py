"""Metrics as Prometheus reads them: of one pool's processes together, and of how everything stands."""

from __future__ import annotations

import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import event, insert, update

from takeaways.producers import Producer
from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.queues import BROKER_PREFIX, RUNS_STREAM, Kind
from takeaways.schemas.tables import agents, dead_letters, quarantines
from takeaways.workers.bootstrap import connect
from takeaways.workers.leases import claim
from takeaways.workers.local.embedded import free_port
from takeaways.workers.metrics.collector import Standing
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.settings import Settings
from takeaways.workers.testing import ScriptedModel
from tests import troubled
from tests.pipeline import pipeline
from tests.processes import CLI, environment_of
from tests.waiting import wait_until

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]
TIMEOUT_SECONDS = 120.0


def samples(text: str) -> Samples:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Samples, name: str, **labels: str) -> float | None:
    return found.get((name, frozenset(labels.items())))


def settings_for(database: Database, redis_url: str) -> Settings:
    url = database.engine.url.set(drivername=database.engine.dialect.name)
    return Settings.from_env(redis_url=redis_url, database_url=url.render_as_string(hide_password=False))


def standing(settings: Settings) -> Samples:
    collector = Standing(settings)
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        return samples(generate_latest(registry).decode())
    finally:
        collector.close()


def publish(producer: Producer, agent_id: str, text: str = "Tea, please.", count: int = 5) -> None:
    for number in range(count):
        producer.run_completed(
            agent_id=agent_id,
            room="quotes",
            run_id=f"r{number}",
            status="succeeded",
            messages=[{"role": "user", "content": f"{text} ({number})"}],
        )


def test_the_standing_says_who_waits_since_when_and_why(database: Database, redis_url: str) -> None:
    """An operator sees a backlog, its age and its reason before anybody complains."""
    policy = Policy()
    with pipeline(database, redis_url, ScriptedModel(), policy) as made:
        for agent_id in ("a", "b", "c", "d"):
            publish(made.producer, agent_id)
        made.take_in()
        made.advance(hours=0.5)
        claim(database, "a", Kind.EXTRACTION, owner="me", job_id="j1", policy=policy)
        claim(database, "b", Kind.EXTRACTION, owner="dead", job_id="j2", policy=policy)
        with database.write() as connection:
            at_ms = now_ms(connection)
            connection.execute(update(agents).where(agents.c.agent_id == "b").values(lease_until_ms=1))
            connection.execute(
                update(agents)
                .where(agents.c.agent_id == "c")
                .values(due_since_ms=None, due_kind=None, due_reason=None)
                .values(not_before_ms=at_ms + 60_000, parked_because="the key is refused")
            )
            connection.execute(
                insert(quarantines).values(
                    quarantine_id="q",
                    agent_id="c",
                    kind="extraction",
                    reason="refused",
                    items=1,
                    attempts=1,
                    made_at_ms=at_ms,
                )
            )
            connection.execute(
                insert(dead_letters).values(
                    dead_letter_id="x",
                    stream=RUNS_STREAM,
                    entry_id="1-1",
                    reason="not_json",
                    detail="",
                    raw=b"",
                    at_ms=at_ms,
                )
            )

        found = standing(settings_for(database, redis_url))

    assert value(found, "takeaways_agents_due", kind="extraction", reason="runs") == 1
    assert value(found, "takeaways_agents_due", kind="consolidation", reason="idle") == 0
    assert 1_800 <= (value(found, "takeaways_agents_due_oldest_seconds", kind="extraction") or 0) < 1_900
    assert value(found, "takeaways_agents_held", why="parked") == 1
    assert value(found, "takeaways_leases", kind="extraction", state="held") == 1
    assert value(found, "takeaways_leases", kind="extraction", state="expired") == 1
    assert value(found, "takeaways_quarantines_open", kind="extraction") == 1
    assert value(found, "takeaways_dead_letters_open", reason="not_json") == 1
    assert (value(found, "takeaways_sweep_late_seconds") or 0) > 1_700
    assert value(found, "takeaways_up", part="database") == 1


def test_the_standing_says_what_is_in_the_streams_and_queues(
    sqlite_database: Database, redis_url: str
) -> None:
    """Events that nobody takes in are seen by their number and by the age of the oldest."""
    settings = settings_for(sqlite_database, redis_url)
    with pipeline(sqlite_database, redis_url, ScriptedModel()) as made:
        untouched = standing(settings)
        publish(made.producer, "a", count=3)
        before = standing(settings)
        made.take_in()
        publish(made.producer, "b", count=2)
        with connect(redis_url) as client:
            client.xreadgroup("takeaways", "slow", {RUNS_STREAM: ">"}, count=1)
            client.lpush(f"{BROKER_PREFIX}extraction", "hint")
            client.set("takeaways:model:{claude-x}:pause", "overloaded", px=60_000)

            after = standing(settings)

    assert value(untouched, "takeaways_stream_oldest_seconds", stream=RUNS_STREAM) == 0
    assert value(before, "takeaways_stream_lag", stream=RUNS_STREAM) == 3
    assert value(before, "takeaways_stream_consumers", stream=RUNS_STREAM) == 0
    assert value(after, "takeaways_stream_lag", stream=RUNS_STREAM) == 1
    assert value(after, "takeaways_stream_pending", stream=RUNS_STREAM) == 1
    assert (value(after, "takeaways_stream_oldest_seconds", stream=RUNS_STREAM) or 0) > 0
    assert value(after, "takeaways_queue_length", queue="extraction") == 1
    assert 0 < (value(after, "takeaways_model_paused_seconds", model="claude-x") or 0) <= 60


def test_a_part_that_does_not_answer_leaves_the_others_readable(
    sqlite_database: Database, redis_url: str
) -> None:
    """With Redis away the metrics say so, and still say who waits in the database."""
    settings = settings_for(sqlite_database, f"redis://127.0.0.1:{free_port()}/0")

    found = standing(settings.model_copy(update={"broker_url": redis_url}))

    assert value(found, "takeaways_up", part="events") == 0
    assert value(found, "takeaways_up", part="broker") == 1
    assert value(found, "takeaways_up", part="database") == 1
    assert value(found, "takeaways_agents_due", kind="extraction", reason="runs") == 0
    assert value(found, "takeaways_stream_lag", stream=RUNS_STREAM) is None


def test_reading_the_standing_scans_no_agents(postgresql_database: Database, redis_url: str) -> None:
    """The cost follows what is the matter and not the number of agents, however often it is scraped."""
    with postgresql_database.write() as connection:
        connection.execute(
            insert(agents), [{"agent_id": f"a{number:05}", "boot_id": "b"} for number in range(20_000)]
        )
    with postgresql_database.engine.connect() as connection:
        connection.exec_driver_sql("ANALYZE agents")
        connection.commit()
    plans: list[str] = []
    collector = Standing(settings_for(postgresql_database, redis_url))

    @event.listens_for(collector._database.engine, "before_cursor_execute")
    def explain(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "FROM agents" in statement and not statement.startswith("EXPLAIN"):
            cursor.execute(f"EXPLAIN {statement}", parameters)
            plans.append("\n".join(row[0] for row in cursor.fetchall()))

    list(collector.collect())
    collector.close()

    assert len(plans) == 4
    assert [plan for plan in plans if "Seq Scan on agents" in plan] == []


Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start(redis_url: str, tmp_path: Path) -> Iterator[Start]:
    running: list[subprocess.Popen[bytes]] = []

    def start(database: Database, *argv: str, **variables: object) -> subprocess.Popen[bytes]:
        environment = environment_of(database, redis_url, tmp_path, **{"metrics": "true", **variables})
        running.append(subprocess.Popen([*CLI, *argv], env=environment))
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_SECONDS)


def scraped(port: int) -> Samples:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return samples(answer.read().decode())
    except OSError:
        return {}


def total(found: Samples, name: str, **labels: str) -> float:
    wanted = frozenset(labels.items())
    return sum(number for (family, tags), number in found.items() if family == name and wanted <= tags)


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_pool_serves_what_all_its_processes_counted(
    start: Start, postgresql_database: Database, redis_url: str, pool: str
) -> None:
    """One address a pool, whether its jobs run in threads or in processes; a killed worker's counts stay."""
    port = free_port()
    with Producer(redis_url) as producer:
        publish(producer, "scout-of-acme")

    start(
        postgresql_database,
        *("worker", "extraction"),
        pool=pool,
        metrics_port=port,
        model="tests.troubled:Troubled",
    )
    wait_until(
        lambda: total(scraped(port), "takeaways_jobs_total", outcome="remembered") == 1,
        timeout_seconds=TIMEOUT_SECONDS,
    )
    found = scraped(port)

    assert value(found, "takeaways_events_total", stream=RUNS_STREAM, outcome="taken_in") == 5
    assert value(found, "takeaways_messages_read_total") == 5
    assert value(found, "takeaways_candidates_made_total") == 5
    assert total(found, "takeaways_model_tokens_total", model="scripted", what="sent") > 0
    assert value(found, "takeaways_job_wait_seconds_count", kind="extraction") == 1
    assert value(found, "takeaways_job_duration_seconds_count", kind="extraction") == 1
    assert "scout-of-acme" not in repr(found), "an agent's id in a label is a time series for each agent"

    with Producer(redis_url) as producer:
        publish(producer, "other", troubled.OVERLOAD)
    wait_until(
        lambda: (
            total(scraped(port), "takeaways_model_errors_total", model="scripted", outcome="overloaded") > 0
        ),
        timeout_seconds=TIMEOUT_SECONDS,
    )
    assert value(scraped(port), "takeaways_model_wait_seconds_count", kind="extraction", outcome="overloaded")


def test_one_process_serves_the_standing(start: Start, sqlite_database: Database, redis_url: str) -> None:
    """A deployment runs it once, privately by default, and it ends when told."""
    port = free_port()

    process = start(sqlite_database, "metrics", "--serve", "--port", str(port))
    wait_until(lambda: scraped(port), timeout_seconds=TIMEOUT_SECONDS)
    process.send_signal(signal.SIGTERM)

    assert process.wait(TIMEOUT_SECONDS) == 0
