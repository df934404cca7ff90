"""`takeaways doctor` on real servers: well, missing, and wrongly set up."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from takeaways.schemas.database import Database
from takeaways.workers.bootstrap import connect
from takeaways.workers.local.embedded import free_port
from tests.processes import CLI, environment_of
from tests.waiting import wait_until

TIMEOUT_SECONDS = 60.0


@pytest.fixture
def environment(postgresql_database: Database, redis_url: str, tmp_path: Path) -> dict[str, str]:
    return environment_of(postgresql_database, redis_url, tmp_path, concurrency=1)


@pytest.fixture
def pools(environment: dict[str, str]) -> Iterator[None]:
    running = [
        subprocess.Popen([*CLI, "worker", kind], env=environment, stderr=subprocess.DEVNULL)
        for kind in ("extraction", "consolidation")
    ]
    yield
    for process in running:
        process.send_signal(signal.SIGTERM)
    for process in running:
        process.wait(TIMEOUT_SECONDS)


def examined(environment: dict[str, str]) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    done = subprocess.run([*CLI, "doctor", "--json"], env=environment, capture_output=True, check=False)
    report = json.loads(done.stdout)
    assert report["code"] == done.returncode
    parts: dict[str, list[dict[str, Any]]] = {}
    for finding in report["findings"]:
        parts.setdefault(finding["part"], []).append(finding)
    return done.returncode, parts


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("pools")
def test_a_deployment_that_works_is_well(environment: dict[str, str]) -> None:
    """Everything is looked at, and what works is not complained about."""
    parts: dict[str, list[dict[str, Any]]] = {}

    def well() -> bool:
        code, found = examined(environment)
        parts.update(found)
        return code == 0

    wait_until(well, timeout_seconds=180)

    assert set(parts) == {
        "redis",
        "database",
        "model",
        "work",
        *(f"{kind} {part}" for kind in ("extraction", "consolidation") for part in ("pool", "intake")),
    }
    assert parts["extraction pool"][0]["found"] == "1 worker answered"
    assert any("PostgreSQL" in finding["found"] for finding in parts["database"])
    assert [finding["found"] for findings in parts.values() for finding in findings if finding["advice"]] == [
        "no append-only file is kept"
    ], "the server of the tests keeps none"


def test_servers_that_are_away_are_named_without_their_passwords(environment: dict[str, str]) -> None:
    """Each is told by itself, with what to do, and the output can be pasted into a ticket."""
    environment["TAKEAWAYS_REDIS_URL"] = f"redis://me:hunter2@127.0.0.1:{free_port()}/0"
    environment["TAKEAWAYS_DATABASE_URL"] = f"postgresql://me:hunter2@127.0.0.1:{free_port()}/memory"

    done = subprocess.run([*CLI, "doctor"], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 5
    assert "redis://127.0.0.1" in done.stdout
    assert "postgresql://127.0.0.1" in done.stdout
    assert done.stdout.count("does not answer") == 2
    assert "→ start it" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr


def test_what_is_wrongly_set_up_is_found(environment: dict[str, str], redis_url: str, tmp_path: Path) -> None:
    """An evicting Redis, a database without tables, no workers, and a model that cannot be had, at one look."""
    empty = tmp_path / "empty.db"
    empty.touch()
    environment["TAKEAWAYS_DATABASE_URL"] = f"sqlite:///{empty}"
    environment["TAKEAWAYS_MODEL"] = "nobody.has:this"
    with connect(redis_url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            code, parts = examined(environment)
        finally:
            client.config_set("maxmemory-policy", "noeviction")

    found = {finding["found"] for findings in parts.values() for finding in findings}
    assert code == 4
    assert {"maxmemory-policy is allkeys-lru", "it has no tables", "no worker answered"} <= found
    assert parts["model"][0]["health"] == "misconfigured"
    assert parts["extraction intake"][0]["found"] == "no intake reads its stream; 0 events wait"
