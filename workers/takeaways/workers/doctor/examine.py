"""Asking every server that a deployment stands on. One that does not answer stops no other question."""

from __future__ import annotations

import os
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kombu.exceptions import OperationalError as BrokerError
from redis import Redis
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError
from sqlalchemy import select
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from takeaways.schemas.database import Database, first_line, is_refused, now_ms
from takeaways.schemas.errors import Misconfigured, ModelParked, ModelUnavailable, TakeawaysError
from takeaways.schemas.queues import STREAM_OF_POOL, Kind
from takeaways.schemas.tables import system
from takeaways.schemas.versions import version_of
from takeaways.workers.bootstrap import connect, model_shelf
from takeaways.workers.doctor import judge
from takeaways.workers.doctor.finding import Finding, Health
from takeaways.workers.metrics.standing import StreamStanding, read_database, read_stream
from takeaways.workers.models.resolve import AgentModel, working_name
from takeaways.workers.settings import Settings, address, unknown_variables
from takeaways.workers.telemetry import describe

_UNUSABLE: Final = (Health.AWAY, Health.MISCONFIGURED)
ANSWER_SECONDS: Final = 2.0
"""How long workers have to answer. They do so within milliseconds unless they are frozen."""


def examine(settings: Settings, open_database: Callable[[Settings], Database]) -> Iterator[Finding]:
    """Every finding, as soon as it is known. `open_database` raises `Misconfigured` where there is none."""
    yield from _settings(settings)
    redis = connect(settings.redis_url, socket_timeout=5)
    streams: dict[str, StreamStanding | None] = {kind.value: None for kind in Kind}
    reached = False
    for finding in _guarded("redis", settings.redis_url, lambda: _redis("redis", redis)):
        reached = reached or finding.health not in _UNUSABLE
        yield finding
    if reached:
        streams = {kind.value: read_stream(redis, STREAM_OF_POOL[kind]) for kind in Kind}
    redis.close()
    if settings.broker != settings.redis_url:
        broker = connect(settings.broker, socket_timeout=5)
        reached = True
        for finding in _guarded("broker", settings.broker, lambda: _redis("broker", broker)):
            reached = reached and finding.health not in _UNUSABLE
            yield finding
        broker.close()
    yield from _database(settings, open_database)
    yield from _models(settings)
    if reached:
        yield from judge.pools(_workers(settings), streams)


def _settings(settings: Settings) -> Iterator[Finding]:
    from takeaways.workers.settings.check import check

    for problem in check(os.environ).problems:
        yield Finding("settings", Health.MISCONFIGURED, problem, "`takeaways config check` shows them all")
    for name in unknown_variables(os.environ):
        yield Finding("settings", Health.WARNING, name, "rename or remove it: it does nothing")


def _guarded(part: str, url: str, ask: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from ask()
    except (AuthenticationError, NoPermissionError) as error:
        yield Finding(
            part,
            Health.MISCONFIGURED,
            f"{address(url)} refuses us ({type(error).__name__})",
            "check user, password and ACL",
        )
    except (RedisError, OSError) as error:
        if _is_untrusted(error):
            yield Finding(
                part,
                Health.MISCONFIGURED,
                f"the certificate of {address(url)} is not trusted here",
                "name its authority in the URL, as ?ssl_ca_certs=/path/ca.crt, and the host that it is made for",
            )
            return
        yield Finding(
            part,
            Health.AWAY,
            f"{address(url)} does not answer ({type(error).__name__})",
            "start it (`takeaways up` has one for this machine), or set the URL",
        )


def _is_untrusted(error: BaseException | None) -> bool:
    """Whether a certificate was refused. The client keeps the reason behind an error of its own."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _redis(part: str, redis: Redis) -> Iterator[Finding]:
    before = time.time()
    seconds, micros = _any(redis.time())
    skew_seconds = seconds + micros / 1_000_000 - (before + time.time()) / 2
    yield from judge.redis(part, _any(redis.info()))
    yield judge.clock(part, skew_seconds)


def _database(settings: Settings, open_database: Callable[[Settings], Database]) -> Iterator[Finding]:
    where = address(settings.database)
    try:
        database = open_database(settings)
    except Misconfigured as error:
        yield Finding("database", Health.MISCONFIGURED, str(error), "check TAKEAWAYS_DATABASE_URL")
        return
    try:
        yield from _opened(database)
    except OperationalError as error:
        yield judge.no_database(
            where, first_line(error.orig or error), refused=is_refused(error.orig or error)
        )
    except SQLAlchemyError as error:
        yield judge.no_database(where, describe(error), refused=False)
    finally:
        database.dispose()


def _opened(database: Database) -> Iterator[Finding]:
    with database.read() as connection:
        version = tuple(int(part) for part in connection.dialect.server_version_info or ())
        yield judge.database_version(database.engine.dialect.name, version)
        found = judge.migrations(version_of(connection))
        yield found
        if found.health is not Health.GOOD:
            return
        offset_ms = connection.scalar(select(system.c.clock_offset_ms)) or 0
        before = time.time()
        skew_seconds = (now_ms(connection) - offset_ms) / 1000 - (before + time.time()) / 2
        if not database.is_sqlite:
            if connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar():
                yield Finding(
                    "database", Health.BAD, "it is a replica", "name the primary: replicas take no writes"
                )
            yield judge.clock("database", skew_seconds)
        if offset_ms:
            yield Finding(
                "database",
                Health.WARNING,
                f"its clock is moved by {offset_ms / 1000:,.0f} s",
                "that is for tests: set system.clock_offset_ms to 0",
            )
    yield from judge.work(read_database(database))


def _models(settings: Settings) -> Iterator[Finding]:
    """The models that the settings choose. Those of a provider are asked for by name, which costs no tokens."""
    shelf = model_shelf(settings)
    names = {kind: working_name(kind, shelf.choice, AgentModel(), lambda _: False) for kind in Kind}
    # One of the kinds that each name stands for.
    for name, kind in {name: kind for kind, name in names.items()}.items():
        try:
            model = shelf.chosen(kind, AgentModel()).model
            serves = getattr(model, "serves", None)
            if serves is not None and not serves():
                yield Finding(
                    "model", Health.MISCONFIGURED, f"the provider has no {name}", "check TAKEAWAYS_MODEL"
                )
                continue
            yield Finding("model", Health.GOOD, f"{name}: a window of {model.window:,} tokens")
        except ModelParked as error:
            yield Finding("model", Health.MISCONFIGURED, str(error), "put that right; jobs wait for it")
        except ModelUnavailable as error:
            yield Finding("model", Health.AWAY, str(error), "jobs wait, and go on when it answers")
        except TakeawaysError as error:
            yield Finding("model", Health.MISCONFIGURED, str(error), "check TAKEAWAYS_MODEL and its extra")


def _workers(settings: Settings) -> dict[str, int]:
    """How many workers take hints from each pool's queue."""
    from takeaways.workers.pools.broker import make_app

    app = make_app(settings)
    try:
        answers: Any = app.control.inspect(timeout=ANSWER_SECONDS).active_queues()
    except (BrokerError, RedisError, OSError):
        answers = None
    finally:
        app.close()
    taken = Counter(queue["name"] for queues in (answers or {}).values() for queue in queues)
    return {kind.value: taken[kind.value] for kind in Kind}


def _any(reply: Any) -> Any:
    """redis-py's replies are typed for its asyncio client too."""
    return reply
