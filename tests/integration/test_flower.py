"""Flower as an operator meets it: a real one, real workers, and a browser that looks at its pages."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from takeaways.producers import Producer
from takeaways.schemas.database import Database
from takeaways.workers.local.embedded import free_port
from tests import troubled
from tests.browser import browser, seen
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "deploy" / "flower" / "flowerconfig.py"
PASSWORD = "operator:correct-horse"
TIMEOUT_SECONDS = 60.0
pytestmark = pytest.mark.timeout(240)


@dataclass
class Deployment:
    """Workers and Flower, started as the deployment starts them."""

    environment: dict[str, str]
    port: int
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        self.running.append(subprocess.Popen([sys.executable, "-m", *argv], env=self.environment, cwd=ROOT))
        return self.running[-1]

    def flower(self) -> subprocess.Popen[bytes]:
        process = self.start(
            *("celery", "--quiet", "-A", "takeaways.workers.app", "flower", f"--conf={CONFIG}")
        )
        wait_until(lambda: self.status("healthcheck") == 200, timeout_seconds=TIMEOUT_SECONDS)
        return process

    def url(self, path: str, *, password: str = "") -> str:
        before = f"{password}@" if password else ""
        return f"http://{before}127.0.0.1:{self.port}/flower/{path}"

    def get(self, path: str, *, password: str = "") -> bytes:
        request = urllib.request.Request(self.url(path))  # noqa: S310 - ours
        if password:
            request.add_header("Authorization", f"Basic {base64.b64encode(password.encode()).decode()}")
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - ours
            body: bytes = answer.read()
            return body

    def status(self, path: str, *, password: str = "") -> int:
        try:
            self.get(path, password=password)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0
        return 200

    def tasks(self) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = json.loads(self.get("api/tasks", password=PASSWORD))
        return list(found.values())

    def state_of(self, agent_id: str) -> set[str]:
        return {task["state"] for task in self.tasks() if f"agent={agent_id} " in (task["kwargs"] or "")}

    def page(self, path: str, picture: Path) -> str:
        return seen(self.url(path, password=PASSWORD), picture=picture, width=1950)

    def stop(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.running:
            process.wait(TIMEOUT_SECONDS)


@pytest.fixture
def deployment(sqlite_database: Database, redis_url: str, tmp_path: Path) -> Iterator[Deployment]:
    port = free_port()
    made = Deployment(
        {
            **{name: text for name, text in os.environ.items() if not name.startswith("TAKEAWAYS_")},
            "TAKEAWAYS_HOME": str(tmp_path),
            "TAKEAWAYS_REDIS_URL": redis_url,
            "TAKEAWAYS_DATABASE_URL": str(sqlite_database.engine.url),
            "TAKEAWAYS_MODEL": "tests.troubled:slow",
            "TAKEAWAYS_CONCURRENCY": "4",
            "TAKEAWAYS_METRICS": "false",
            "FLOWER_BASIC_AUTH": PASSWORD,
            "FLOWER_PORT": str(port),
            "FLOWER_DB": str(tmp_path / "flower.db"),
        },
        port,
    )
    yield made
    made.stop()


def publish(redis_url: str, agent_id: str, text: str) -> None:
    with Producer(redis_url) as producer:
        for number in range(5):
            producer.run_completed(
                agent_id=agent_id,
                room="quotes",
                run_id=f"r{number}",
                status="succeeded",
                messages=[{"role": "user", "content": f"{text} ({number})"}],
            )


def test_an_operator_sees_what_the_workers_do(deployment: Deployment, redis_url: str, tmp_path: Path) -> None:
    """Who is worked on, why, in which phase, how it ended in words, and what went wrong; and nothing that was said."""
    browser()
    pictures = Path(os.environ.get("TAKEAWAYS_PICTURES", tmp_path))
    deployment.flower()
    deployment.start("takeaways.workers.cli", "worker", "extraction")
    deployment.start("takeaways.workers.cli", "worker", "consolidation")
    wait_until(
        lambda: len(json.loads(deployment.get("api/workers?status=1", password=PASSWORD))) == 2,
        timeout_seconds=TIMEOUT_SECONDS,
    )

    publish(redis_url, "acme/scout", "Quotes over $40k always need sign-off.")
    publish(redis_url, "acme/refused", troubled.REFUSE)
    publish(redis_url, "acme/broken", troubled.BREAK)
    wait_until(lambda: "EXTRACTING" in deployment.state_of("acme/scout"), timeout_seconds=TIMEOUT_SECONDS)
    wait_until(lambda: "SUCCESS" in deployment.state_of("acme/scout"), timeout_seconds=TIMEOUT_SECONDS)
    publish(redis_url, "acme/limited", troubled.OVERLOAD)
    wait_until(lambda: "RETRY" in deployment.state_of("acme/limited"), timeout_seconds=TIMEOUT_SECONDS)
    publish(redis_url, "acme/paused", "Tea, please.")
    wait_until(lambda: "RETRY" in deployment.state_of("acme/paused"), timeout_seconds=TIMEOUT_SECONDS)
    tasks = deployment.page("tasks", pictures / "flower-tasks.png")
    workers = deployment.page("workers", pictures / "flower-workers.png")
    broker = deployment.page("broker", pictures / "flower-broker.png")

    assert "takeaways.extract" in tasks
    assert "agent=acme/scout reason=runs" in tasks
    assert "remembered: 5 messages read; 5 candidates made;" in tasks
    assert "refused: the model declined to answer; job " in tasks
    assert ">overloaded: again in" in tasks
    assert {"SUCCESS", "FAILURE", "RETRY"} <= set(tasks.replace("<", " ").replace(">", " ").split())
    assert deployment.state_of("acme/refused") == {"FAILURE"}
    assert "FAILURE" in deployment.state_of("acme/broken")
    assert "sign-off" not in tasks
    assert "what somebody said" not in tasks
    assert "extraction-" in workers
    assert "consolidation-" in workers
    assert "Online" in workers
    assert ">extraction<" in broker
    assert ">consolidation<" in broker


def test_flower_is_private_and_keeps_its_tasks(deployment: Deployment, redis_url: str) -> None:
    """Nothing is shown without the password, and a restart of Flower does not empty its list."""
    flower = deployment.flower()
    private = ("workers", "tasks", "broker", "metrics", "api/tasks")
    without = [deployment.status(path) for path in private]
    wrong = [deployment.status(path, password="operator:guess") for path in private]
    right = [deployment.status(path, password=PASSWORD) for path in private]
    deployment.start("takeaways.workers.cli", "worker", "extraction")
    wait_until(lambda: deployment.get("api/workers?status=1", password=PASSWORD) != b"{}", timeout_seconds=60)
    publish(redis_url, "scout", "Tea, please.")
    wait_until(lambda: "SUCCESS" in deployment.state_of("scout"), timeout_seconds=TIMEOUT_SECONDS)

    flower.send_signal(signal.SIGTERM)
    flower.wait(TIMEOUT_SECONDS)
    deployment.flower()

    assert without == wrong == [401] * 5
    assert right == [200] * 5
    assert "SUCCESS" in deployment.state_of("scout")
    assert deployment.status("api/task/send-task/takeaways.extract", password=PASSWORD) in (403, 404, 405)


def test_flower_does_not_start_without_a_password(deployment: Deployment) -> None:
    """A page that can be found is a page that will be: there is no open default."""
    deployment.environment.pop("FLOWER_BASIC_AUTH")

    process = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "takeaways.workers.app", "flower", f"--conf={CONFIG}"],
        env=deployment.environment,
        cwd=ROOT,
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )

    assert process.returncode == 1
    assert b"FLOWER_BASIC_AUTH" in process.stderr
