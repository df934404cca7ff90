"""`takeaways demo`: the whole pipeline on conversations that ship with the package, in a temporary folder."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from takeaways.schemas.queues import Kind
from takeaways.workers.cli.amounts import count
from takeaways.workers.cli.output import AsJson, console, plain, print_json
from takeaways.workers.exits import Exit

if TYPE_CHECKING:
    from rich.console import Console

    from takeaways.recall import Note
    from takeaways.schemas.database import Database
    from takeaways.workers.cli.overview import AgentView
    from takeaways.workers.demo import Story
    from takeaways.workers.settings import Settings

IDLE_SECONDS = 1.5
PATIENCE_SECONDS = 60.0


@dataclass
class Told:
    """What the demo saw, step by step."""

    home: Path
    steps: list[dict[str, Any]] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    memory: str = ""
    note: Note | None = None
    folder: Path | None = None

    @property
    def is_true(self) -> bool:
        return bool(self.facts) and all(fact["is_so"] for fact in self.facts)


class Stuck(Exception):
    """A step did not end in time."""


def demo(as_json: AsJson = False) -> None:
    """Watch an agent learn: three rooms, one memory, and what a fourth room then knows.

    Starts a real Valkey, SQLite and both pools in a temporary folder, which is kept. The six hours of quiet
    that a consolidation waits for are shortened to a second or two. The offline model does the reading: no
    key, no network. Exits 0 only when the facts that matter arrived.

    Example: `takeaways demo`
    """
    from takeaways.workers.demo import story as tell

    out = console(stderr=as_json)
    told = Told(Path(tempfile.mkdtemp(prefix="takeaways-demo-")))
    story = tell(ends_at=datetime.now(UTC))
    began = time.monotonic()
    try:
        _play(told, story, _Progress(out, told))
    except Stuck as stuck:
        typer.echo(f"takeaways: {stuck}; the logs are in {told.home / 'logs'}", err=True)
        raise typer.Exit(Exit.FAILED) from None
    seconds = time.monotonic() - began
    if as_json:
        print_json(_as_json(told, story, seconds))
    else:
        _show(out, told, story, seconds)
    raise typer.Exit(Exit.DONE if told.is_true else Exit.FAILED)


def demo_settings(home: Path) -> Settings:
    """Settings for a server of its own: nothing of yours is touched, and nobody waits six hours."""
    from takeaways.workers.settings import Settings

    return Settings.from_env(
        home=home,
        redis_url="",
        broker_url="",
        database_url=f"sqlite:///{home / 'takeaways.db'}",
        boot_id=None,
        idle_seconds=IDLE_SECONDS,
        hint_again_seconds=2.0,
        lease_seconds=10.0,
        concurrency=4,
        metrics=False,
        log_format="text",
    )


def _play(told: Told, story: Story, progress: _Progress) -> None:
    from takeaways.recall import Recall, memory_md, write_folder
    from takeaways.recall.store import load_memory, snapshot
    from takeaways.workers.bootstrap import open_database
    from takeaways.workers.local.server import LocalServer

    with progress.step("start", "Valkey, SQLite and two pools of workers"):
        server = LocalServer(demo_settings(told.home), logs=told.home / "logs").start()
    database = open_database(server.settings)
    try:
        with progress.step("publish", _published(story)):
            _publish(story, server.settings)
        _watch(database, story, server.settings, progress, server.died)
        with progress.step(
            "recall", f"what {story.agent_name} is told in a new room, {story.question.room_id}"
        ):
            with snapshot(database) as connection:
                told.memory = memory_md(load_memory(connection, story.agent_id).memory)
            with Recall(database) as reader:
                told.note = reader.note(
                    story.agent_id, story.question.room_id, story.question.conversation_id
                )
            workspace = told.home / "workspace"
            workspace.mkdir()
            told.folder = write_folder(database, story.agent_id, workspace).folder
        told.facts = _check(told, story)
        with progress.step("stop", "the workers drain, Valkey stops"):
            server.stop()
    finally:
        database.dispose()
        server.stop()


def _publish(story: Story, settings: Settings) -> None:
    from takeaways.producers import Producer
    from takeaways.workers.demo.story import SOURCE

    with Producer(settings.redis_url, source=SOURCE) as producer:
        producer.publish_many(story.events(published_at=datetime.now(UTC)))


def _watch(
    database: Database,
    story: Story,
    settings: Settings,
    progress: _Progress,
    died: Callable[[], str | None],
) -> None:
    """Follow the agent's row until everything is taken in, read and merged."""

    def view() -> AgentView | None:
        from takeaways.workers.cli.overview import agent_view

        with database.read() as connection:
            return agent_view(connection, story.agent_id, settings.policy)

    def until(condition: Callable[[AgentView], bool], what: str) -> AgentView:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if (why := died()) is not None:
                raise Stuck(why)
            if (seen := view()) is not None:
                if condition(seen):
                    return seen
                _ask_for_the_rest(database, seen)
            time.sleep(0.03)
        raise Stuck(f"after {PATIENCE_SECONDS:.0f} s {what}")

    total = _messages(story)
    with progress.step("take in", "the workers start, and take in what waits in the stream"):
        until(lambda seen: seen.row["messages_total"] >= total, "not every message was taken in")
    with progress.step("extract", "after five runs, read the rooms and keep what lasts") as done:
        seen = until(
            lambda seen: seen.row["messages_read"] >= total and not seen.state.extraction_underway,
            "not every message was read",
        )
        done(f"{count(total, 'message')} read, {count(seen.row['candidates_total'], 'candidate')} kept")
    with progress.step("consolidate", f"after {IDLE_SECONDS:g} s of quiet, merge it by topic") as done:
        seen = until(
            lambda seen: (
                seen.row["revision"] > 0
                and not seen.state.candidates_waiting
                and not seen.state.consolidation_underway
            ),
            "the candidates were not merged",
        )
        done(f"one memory, revision {seen.row['revision']}")


def _ask_for_the_rest(database: Database, seen: AgentView) -> None:
    """The last runs may be fewer than five: nothing would come of itself, so somebody asks."""
    from takeaways.workers.schedule.asked import ask

    decision, state = seen.decision, seen.state
    comes_of_itself = decision.next or decision.hold or decision.wake_at_ms is not None
    if not comes_of_itself and (state.unread or state.candidates_waiting):
        ask(database, [seen.agent_id], [Kind.EXTRACTION, Kind.CONSOLIDATION])


def _check(told: Told, story: Story) -> list[dict[str, Any]]:
    """Which of the facts that matter are where they should be, and which are where they should not."""
    note = told.note.text or "" if told.note is not None else ""
    learned = [(fact, "learned", fact.stands_in(told.memory)) for fact in story.learned]
    unlearned = [(fact, "not learned", not fact.stands_in(told.memory)) for fact in story.unlearned]
    needed = (story.question.needs, f"told in {story.question.room_id}", story.question.needs.stands_in(note))
    return [
        {"fact": " … ".join(fact.words), "from": fact.room_id, "should_be": wanted, "is_so": is_so}
        for fact, wanted, is_so in [*learned, *unlearned, needed]
    ]


class _Progress:
    """Steps with their times: a spinner on a terminal, a line when a step is done."""

    def __init__(self, out: Console, told: Told) -> None:
        self._out = out
        self._told = told

    @contextmanager
    def step(self, name: str, what: str) -> Iterator[Callable[[str], None]]:
        outcome = ""

        def done(words: str) -> None:
            nonlocal outcome
            outcome = words

        began = time.monotonic()
        with self._out.status(f"{name}: {what}"):
            yield done
        seconds = time.monotonic() - began
        self._told.steps.append(
            {"step": name, "what": what, "outcome": outcome, "seconds": round(seconds, 3)}
        )
        line = f"{what} → {outcome}" if outcome else what
        self._out.print(f"[green]✔[/] [bold]{name:<12}[/]", plain(line), f"[dim]{seconds:.1f} s[/]")


def _published(story: Story) -> str:
    runs = sum(len(room.runs) for room in story.rooms)
    return f"{count(len(story.rooms), 'room')}, {count(runs, 'run')}, {count(_messages(story), 'message')}"


def _messages(story: Story) -> int:
    return sum(room.message_count for room in story.rooms)


def _show(out: Console, told: Told, story: Story, seconds: float) -> None:
    from rich.markdown import Markdown
    from rich.panel import Panel

    out.print(Panel(Markdown(told.memory), title="MEMORY.md", border_style="blue"))
    note = told.note.text if told.note is not None else None
    title = f"the note that begins {story.question.room_id}"
    out.print(Panel(plain(note or "no note"), title=title, border_style="magenta"))
    out.print(plain(f"There Dana now asks: {story.question.message.content}"), style="italic")
    out.print()
    for fact in told.facts:
        mark = "[green]✔[/]" if fact["is_so"] else "[red]✘[/]"
        out.print(f"  {mark} {fact['should_be']:<17}", plain(f"{fact['fact']} (from {fact['from']})"))
    out.print(
        f"\nAll in {seconds:.1f} s. The agent's workspace has the memory as files:", plain(str(told.folder))
    )
    out.print("Everything is kept in", plain(str(told.home)))
    if shutil.which("takeaways") is None:
        folder = Path(sys.argv[0]).parent
        out.print(
            plain(f"The command itself: source {folder / 'activate'} puts it on your path."), style="dim"
        )
    out.print(plain(f"Look around: TAKEAWAYS_HOME={told.home} takeaways jobs"), style="dim")
    out.print("Next: `takeaways up` starts a server that stays.", style="dim")


def _as_json(told: Told, story: Story, seconds: float) -> dict[str, Any]:
    return {
        "ok": told.is_true,
        "agent": story.agent_id,
        "seconds": round(seconds, 3),
        "steps": told.steps,
        "facts": told.facts,
        "memory": told.memory,
        "note": told.note.text if told.note is not None else None,
        "home": str(told.home),
        "folder": str(told.folder),
    }
