"""Redis with TLS and passwords: what we say to it nobody else hears, and nobody else can pose as it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import trustme
from kombu.exceptions import OperationalError

from takeaways.producers import Producer
from takeaways.schemas.database import Database
from takeaways.schemas.errors import PublishFailed
from takeaways.workers.pools.broker import make_app
from takeaways.workers.settings import Settings
from tests.deployed import Deployment
from tests.faults.servers import redis_binary
from tests.secured import SecuredRedis, secured_redis

pytestmark = pytest.mark.timeout(240)


@dataclass(frozen=True)
class Authority:
    """Who signs certificates. `file` is what clients are told to trust."""

    made: trustme.CA
    file: Path

    def options(self, folder: Path, *names: str) -> tuple[str, ...]:
        """What a server is told of its certificate, which is for these names."""
        certificate = self.made.issue_cert(*names)
        key, chain = folder / "server.key", folder / "server.crt"
        certificate.private_key_pem.write_to_path(str(key))
        certificate.cert_chain_pems[0].write_to_path(str(chain))
        given = {"cert-file": chain, "key-file": key, "ca-cert-file": self.file}
        files = (word for name, file in given.items() for word in (f"--tls-{name}", str(file)))
        return *files, "--tls-auth-clients", "no"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = trustme.CA()
    file = tmp_path_factory.mktemp("authority") / "ca.crt"
    made.cert_pem.write_to_path(str(file))
    return Authority(made, file)


@pytest.fixture(scope="module")
def server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredRedis]:
    """Debian's Redis 7.0, which is also the oldest that these users work on; the server of our wheels knows no TLS."""
    binary = redis_binary("redis")
    if binary is None:
        pytest.skip("no redis-server is installed here")
    folder = tmp_path_factory.mktemp("redis")
    options = authority.options(folder, "127.0.0.1")
    with secured_redis(
        binary, folder, *options, scheme="rediss", query=f"ssl_ca_certs={authority.file}"
    ) as running:
        yield running


@pytest.fixture
def any_server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SecuredRedis]:
    """The server with TLS; where there is none, one without it, which has the same users."""
    if redis_binary("redis") is not None:
        with_tls: SecuredRedis = request.getfixturevalue("server")
        with_tls.forget()
        yield with_tls
    else:
        with secured_redis(redis_binary("valkey") or "", tmp_path / "valkey") as running:
            yield running


def test_a_whole_deployment_talks_over_tls_and_is_refused_nothing(
    any_server: SecuredRedis, sqlite_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Producers, pools, metrics, Flower and the commands need nothing but the URL of their user."""
    deployment = Deployment(any_server, str(sqlite_database.engine.url), tmp_path)
    try:
        deployment.start_pools()
        deployment.start_flower(any_server)

        deployment.publish("scout")
        deployment.wait_until_remembered("scout")
        codes = {
            "ready": deployment.command("worker", "ready", "extraction"),
            "metrics": deployment.command("metrics", "metrics"),
            "doctor": deployment.command("operator", "doctor"),
            "extract": deployment.command("operator", "extract", "scout"),
            "erase": deployment.command("operator", "erase", "agent", "scout", "--yes"),
        }
    finally:
        deployment.stop()

    printed = capsys.readouterr().out
    assert any_server.refused() == []
    assert set(codes.values()) == {0}, (codes, printed)
    assert all(f'takeaways_up{{part="{part}"}} 1.0' in printed for part in ("events", "broker"))


def refusals(server: SecuredRedis) -> set[str]:
    """Which of our clients refuse to talk to the server."""
    found = set()
    settings = Settings(redis_url=server.url("worker"))
    with Producer(server.url("producer"), patience_seconds=0) as producer:
        try:
            producer.room_deleted(agent_id="scout", room="quotes")
        except PublishFailed:
            found.add("producer")
    with make_app(settings).connection_for_write() as connection:
        try:
            connection.ensure_connection(max_retries=1, timeout=1)
        except OperationalError:
            found.add("broker")
    return found


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        ("", {"producer", "broker"}),
        ("ssl_cert_reqs=none", set()),
    ],
)
def test_a_certificate_that_nobody_vouches_for_is_refused(
    server: SecuredRedis, query: str, refused: set[str]
) -> None:
    """Whoever stands between us and Redis gets neither a password nor an event, unless somebody wants that."""
    assert refusals(replace(server, query=query)) == refused


def test_a_certificate_for_another_host_is_refused(authority: Authority, tmp_path: Path) -> None:
    """A certificate that somebody got for their own host does not make them Redis."""
    binary = redis_binary("redis")
    if binary is None:
        pytest.skip("no redis-server is installed here")
    options = authority.options(tmp_path, "elsewhere.example")
    trusting = f"ssl_ca_certs={authority.file}"

    with secured_redis(
        binary, tmp_path, *options, scheme="rediss", query=f"{trusting}&ssl_check_hostname=false"
    ) as server:
        found = refusals(replace(server, query=trusting))

    assert found == {"producer", "broker"}


def test_doctor_says_what_is_wrong_with_user_and_certificate(
    server: SecuredRedis, sqlite_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong password and a wrong certificate are the two mistakes of the first day."""
    url = str(sqlite_database.engine.url)
    stranger = replace(server, passwords=dict.fromkeys(server.passwords, "a wrong password"))

    wrong_password = Deployment(stranger, url, tmp_path).command("operator", "doctor")
    about_password = capsys.readouterr().out
    untrusted = Deployment(replace(server, query=""), url, tmp_path).command("operator", "doctor")
    about_certificate = capsys.readouterr().out

    assert (wrong_password, untrusted) == (4, 4)
    assert "check user, password and ACL" in about_password
    assert "certificate" in about_certificate
    assert "a wrong password" not in about_password
