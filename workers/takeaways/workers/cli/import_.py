"""`takeaways import`: conversations from files, published as events, taken in, and learned from at once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeaways.workers.cli.amounts import count
from takeaways.workers.cli.context import build_services, read_settings
from takeaways.workers.cli.output import AsJson, console, plain, print_json
from takeaways.workers.exits import Exit

if TYPE_CHECKING:
    from rich.progress import Progress

    from takeaways.workers.importing import Problem
    from takeaways.workers.jobs.flush import Flushed
    from takeaways.workers.settings import Settings

PROBLEMS_SHOWN = 20
EVENTS_AT_ONCE = 200


@dataclass
class Imported:
    """What an import did, counted while it goes on."""

    agent: str
    rooms: int = 0
    runs: int = 0
    messages: int = 0
    events: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    dead_letters: int = 0
    not_taken_in: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    flushed: Flushed | None = None
    learned: dict[str, Any] = field(default_factory=dict)

    @property
    def records_lost(self) -> int:
        return sum(problem.lost for problem in self.problems)

    @property
    def is_complete(self) -> bool:
        flushed = self.flushed
        learned = flushed is not None and not flushed.unread and not flushed.waiting
        return learned and not self.dead_letters and not self.not_taken_in


def import_(
    path: Annotated[Path, typer.Argument(help="A file, or a folder whose files become rooms.", exists=True)],
    agent: Annotated[str, typer.Option("--as", help="The agent that remembers it.")],
    wait: Annotated[float, typer.Option(min=1, help="Seconds to wait for the intake to get on.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Read conversations from files, then extract and consolidate at once.

    Reads Claude Code sessions, OpenAI-style and Anthropic-style message lists, and more. Importing twice
    changes nothing. Records that cannot be read are named with file and line and do not stop the rest. Where
    no server runs, one is started for as long as it takes.

    Examples: `takeaways import ~/.claude/projects --as me`, `takeaways import chats.jsonl --as scout --json`
    """
    out = console(stderr=True)
    done = Imported(agent)
    with _server(read_settings()) as settings, _progress(out) as progress:
        began_ms = _database_now(settings)
        with _timed(done, "publish"):
            _publish(path, done, settings, progress)
        with _timed(done, "take in"):
            _wait_until_taken_in(done, settings, progress, wait)
        with _timed(done, "learn"):
            _learn(done, settings, progress, began_ms)
    print_json(_as_json(done)) if as_json else _report(done)
    if not done.is_complete:
        raise typer.Exit(Exit.FAILED)
    if not done.messages:
        typer.echo(f"takeaways: there was no conversation in {path}", err=True)
        raise typer.Exit(Exit.NOTHING_FOUND)


@contextlib.contextmanager
def _server(settings: Settings) -> Iterator[Settings]:
    """The server that settings or a running `takeaways up` name; else one for the time of the import."""
    if "redis_url" in settings.model_fields_set:
        yield settings
        return
    from takeaways.workers.local.server import LocalServer, announce, only_one

    with (
        only_one(settings.home) as file,
        # The jobs are run right here, so that no worker needs to start.
        LocalServer(
            settings.model_copy(update={"metrics": False}), logs=settings.home / "logs", only_intake=True
        ) as server,
    ):
        announce(file, server.settings)
        yield server.settings


def _publish(path: Path, done: Imported, settings: Settings, progress: Progress) -> None:
    from datetime import UTC, datetime

    from takeaways.producers import Producer
    from takeaways.workers.importing import SOURCE, events_of, read

    task = progress.add_task("reading and publishing", total=None, counts="")
    published_at = datetime.now(UTC)
    with Producer(settings.redis_url, source=SOURCE) as producer:
        for room in read(path, agent_id=done.agent, report=done.problems.append):
            events = list(events_of(room, done.agent, published_at=published_at))
            for start in range(0, len(events), EVENTS_AT_ONCE):
                batch = events[start : start + EVENTS_AT_ONCE]
                producer.publish_many(batch)
                done.events.extend(event.id for event in batch)
            done.rooms += 1
            done.runs += len(room.runs)
            done.messages += room.message_count
            told = f"{count(done.rooms, 'room')}, {count(done.messages, 'message')}"
            progress.update(task, counts=told)
    progress.update(task, total=1, completed=1)


def _wait_until_taken_in(done: Imported, settings: Settings, progress: Progress, wait_seconds: float) -> None:
    """Until every event stands in the inbox or the dead letters; gives up when nothing gets on any more."""
    from takeaways.workers.bootstrap import open_database

    task = progress.add_task("taking in", total=len(done.events), counts="")
    missing = set(done.events)
    database = open_database(settings)
    try:
        last_news = time.monotonic()
        while missing and time.monotonic() - last_news < wait_seconds:
            taken_in, dead = _arrived(database, missing)
            if taken_in or dead:
                last_news = time.monotonic()
            missing -= taken_in | dead
            done.dead_letters += len(dead)
            progress.update(task, completed=len(done.events) - len(missing))
            if missing:
                time.sleep(0.05)
    finally:
        database.dispose()
    done.not_taken_in = len(missing)
    if missing:
        typer.echo(
            f"takeaways: {count(len(missing), 'event')} wait in Redis and nobody takes them in; "
            f"is `takeaways up` or `takeaways worker` running? Logs may be in {settings.home / 'logs'}",
            err=True,
        )
        raise typer.Exit(Exit.UNAVAILABLE)


def _arrived(database: Any, missing: set[str]) -> tuple[set[str], set[str]]:
    from sqlalchemy import select

    from takeaways.schemas.tables import dead_letters, inbox
    from takeaways.workers.importing import SOURCE

    wanted = list(missing)[:500]
    with database.read() as connection:
        taken_in = connection.execute(
            select(inbox.c.event_id).where(inbox.c.source == SOURCE, inbox.c.event_id.in_(wanted))
        )
        dead = connection.execute(
            select(dead_letters.c.event_id).where(
                dead_letters.c.source == SOURCE, dead_letters.c.event_id.in_(wanted)
            )
        )
        return set(taken_in.scalars()), set(dead.scalars())


def _database_now(settings: Settings) -> int:
    from takeaways.schemas.database import now_ms
    from takeaways.workers.bootstrap import migrated_database

    database = migrated_database(settings)
    try:
        with database.read() as connection:
            return now_ms(connection)
    finally:
        database.dispose()


def _learned(database: Any, agent: str, since_ms: int) -> dict[str, Any]:
    """What all jobs did since the import began: running workers may have done most of it."""
    from sqlalchemy import func, select

    from takeaways.schemas.tables import agents, jobs

    sums = {
        name: func.coalesce(func.sum(jobs.c[name]), 0).label(name)
        for name in (
            "messages_read",
            "candidates_made",
            "candidates_settled",
            "input_tokens",
            "output_tokens",
        )
    }
    with database.read() as connection:
        done = connection.execute(
            select(func.count().label("jobs"), *sums.values()).where(
                jobs.c.agent_id == agent, jobs.c.started_ms >= since_ms
            )
        )
        revision = connection.scalar(select(agents.c.revision).where(agents.c.agent_id == agent))
        return {**{name: int(value) for name, value in done.mappings().one().items()}, "revision": revision}


def _learn(done: Imported, settings: Settings, progress: Progress, began_ms: int) -> None:
    """Flush the agent; the bar follows the messages that are still unread."""
    import threading

    from sqlalchemy import select

    from takeaways.schemas.tables import agents
    from takeaways.workers.cli.work import PATIENCE_SECONDS
    from takeaways.workers.jobs.flush import flush

    task = progress.add_task("learning", total=max(done.messages, 1), counts="")
    services = build_services(settings)
    finished = threading.Event()
    row = select(agents.c.messages_total, agents.c.messages_read).where(agents.c.agent_id == done.agent)

    def follow() -> None:
        while not finished.wait(0.2):
            with services.database.read() as connection:
                found = connection.execute(row).one_or_none()
            if found is not None:
                progress.update(task, total=max(found.messages_total, 1), completed=found.messages_read)

    follower = threading.Thread(target=follow, name="progress", daemon=True)
    follower.start()
    try:
        done.flushed = flush(services, [done.agent], patience_seconds=PATIENCE_SECONDS)[0]
        done.learned = _learned(services.database, done.agent, began_ms)
    finally:
        finished.set()
        follower.join()
        services.close()
    progress.update(task, total=1, completed=1)


@contextlib.contextmanager
def _timed(done: Imported, step: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    done.seconds[step] = round(time.monotonic() - began, 3)


def _progress(out: Any) -> Progress:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[counts]}"),
        console=out,
        transient=True,
        disable=not out.is_terminal,
    )


def _report(done: Imported) -> None:
    from takeaways.workers.cli.work import describe

    complaints = console(stderr=True)
    for problem in done.problems[:PROBLEMS_SHOWN]:
        complaints.print(plain(str(problem)), style="yellow" if problem.lost else "dim", soft_wrap=True)
    if (more := len(done.problems) - PROBLEMS_SHOWN) > 0:
        complaints.print(f"… and {more:,} more of these; --json lists them all", style="yellow")
    out = console()
    out.print(
        plain(
            f"{done.agent}: {count(done.rooms, 'room')}, {count(done.runs, 'run')}, "
            f"{count(done.messages, 'message')} imported"
        )
    )
    if done.records_lost:
        out.print(f"{count(done.records_lost, 'record')} could not be read")
    if done.dead_letters:
        out.print(f"{count(done.dead_letters, 'dead letter')}: see `takeaways dead-letters list`")
    learned = done.learned
    out.print(
        f"{count(learned['messages_read'], 'message')} read, {count(learned['candidates_made'], 'candidate')} "
        f"found, {learned['candidates_settled']:,} settled; the memory is at revision {learned['revision']}"
    )
    if done.flushed is not None and (done.flushed.unread or done.flushed.waiting):
        out.print(plain(describe(done.flushed)), style="yellow")
    out.print(", ".join(f"{step} {seconds:.1f} s" for step, seconds in done.seconds.items()), style="dim")
    out.print(plain(f"See it: takeaways memory show {done.agent}"), style="dim")


def _as_json(done: Imported) -> dict[str, Any]:
    from dataclasses import asdict

    from takeaways.workers.cli.work import flushed_as_json

    return {
        "agent": done.agent,
        "rooms": done.rooms,
        "runs": done.runs,
        "messages": done.messages,
        "events": len(done.events),
        "dead_letters": done.dead_letters,
        "records_lost": done.records_lost,
        "problems": [asdict(problem) for problem in done.problems],
        "learned": done.learned,
        "flushed": flushed_as_json(done.flushed) if done.flushed is not None else None,
        "seconds": done.seconds,
    }
