"""What the pipeline itself loses or gets wrong, with models that answer from a script.

    python -m benchmarks.memory_quality [--data FOLDER]

Loss: LoCoMo's own observations are replayed as the model's answers, and scored after the extraction, after
the first consolidation and after ten more, each of which tells the next tenth again. Updates: facts that
change, worded anew or denied, taken in in any order. Exits 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import structlog
from rich.console import Console
from rich.table import Table
from sqlalchemy import select

from benchmarks.contradictions import Updates, updated
from benchmarks.learning import AGENT, Learned, Services, candidates_of, take_in_file
from benchmarks.locomo import WHERE, Conversation, MemoryLine, Score, conversations, scores
from benchmarks.quality import ROOT, locomo_folder, tokens
from benchmarks.replay import TOLD_AGAIN, ReplayModel
from takeaways.recall.escape import shown
from takeaways.recall.markdown import memory_md, summary_md
from takeaways.recall.store import Revision, load_memory
from takeaways.recall.wrapper import note_text
from takeaways.schemas.database import Database
from takeaways.schemas.events import Event, Message, RoomRef, RunCompleted
from takeaways.schemas.memories import Candidate
from takeaways.schemas.migrations import migrate
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import messages
from takeaways.workers.consolidation.fit import fit
from takeaways.workers.intake.entries import Entry
from takeaways.workers.intake.transaction import take_in
from takeaways.workers.jobs.flush import flush

UNBOUNDED: Final = 10**9
SIZES: Final = (2_000, 4_000, 8_000, UNBOUNDED)
STAGES: Final = ("after extraction", "after the first", "after the eleventh")
ROUNDS: Final = 10
LEAST_OF_OBSERVATIONS: Final = 0.99
MOST_LOSS: Final = 0.005
_LATER: Final = datetime(2024, 6, 1, 9, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Row:
    """How the observations fared at one stage, seen in one way, at one size."""

    stage: str
    view: str
    size_tokens: int
    supported: float
    recall: float


@dataclass(frozen=True, slots=True)
class Stage:
    """What is there at one time. After the extraction there are only candidates."""

    learned: Learned
    revision: int = 0
    made_at_ms: int = 0


def stages(conversation: Conversation, home: Path) -> tuple[list[Stage], float]:
    """The conversation after its extraction, its first and its eleventh consolidation; and the share of
    lines whose every message is there.
    """
    database = Database.open(f"sqlite:///{home / 'takeaways.db'}")
    migrate(database)
    services = Services(database=database, model=ReplayModel(conversation.observations))
    try:
        take_in_file(conversation.file, services)
        flush(services, [AGENT], kinds=[Kind.EXTRACTION])
        found = [_stage(database)]
        flush(services, [AGENT])
        found.append(_stage(database))
        for number in range(ROUNDS):
            take_in(database, [_again(conversation, number, found[0].learned)], policy=services.policy)
            flush(services, [AGENT])
        found.append(_stage(database))
        return found, _resolved(database, found[-1].learned)
    finally:
        services.heartbeat.stop()
        database.dispose()


def _stage(database: Database) -> Stage:
    with database.read() as connection:
        revision = load_memory(connection, AGENT)
        made = {id_: _first_told(one) for id_, one in candidates_of(connection).items()}
    return Stage(Learned(revision.memory, made), revision.number, revision.made_at_ms)


def _first_told(one: Candidate) -> Candidate:
    """What is told again comes after what it repeats, whose turns are the ones that count."""
    again = one.evidence[0].message_id.startswith(TOLD_AGAIN)
    return one.model_copy(update={"said_at_ms": one.said_at_ms + 1}) if again else one


def _again(conversation: Conversation, number: int, learned: Learned) -> Entry:
    """A run in a new room, in which the next tenth of the observations is told again, on the same days.

    So what counts from the day ("last week") means the same, and only what wears away can make a difference.
    """
    count = len(conversation.observations)
    said_at_ms = {
        evidence.message_id: one.said_at_ms
        for one in learned.candidates.values()
        for evidence in one.evidence
    }
    said = []
    for place in range(count * number // ROUNDS, count * (number + 1) // ROUNDS):
        fact = conversation.observations[place]
        at_ms = max((said_at_ms[turn] for turn in fact.turns if turn in said_at_ms), default=None)
        if at_ms is not None:
            time = datetime.fromtimestamp(at_ms / 1000, UTC)
            said.append(
                Message(id=f"{TOLD_AGAIN}{place}", role="user", content=f"Once more: {fact.text}", time=time)
            )
    at = _LATER + timedelta(days=number)
    data = RunCompleted(
        room=RoomRef(id=f"later-{number}"),
        run_id=f"later-{number}",
        status="succeeded",
        ended_at=at,
        messages=tuple(said),
    )
    return Entry.of(Event.of(data, id=f"later-{number}", source="benchmark", agent_id=AGENT, time=at))


def _resolved(database: Database, learned: Learned) -> float:
    """The share of lines whose candidates and messages are all there."""
    with database.read() as connection:
        rows = connection.execute(select(messages.c.room_id, messages.c.message_id)).all()
    said = {(row.room_id, row.message_id) for row in rows}
    lines = [line for section in learned.memory.sections for line in section.lines]
    whole = [
        bool(line.candidates)
        and all(
            (candidate := learned.candidates.get(id_)) is not None
            and all((candidate.room_id, one.message_id) in said for one in candidate.evidence)
            for id_ in line.candidates
        )
        for line in lines
    ]
    return sum(whole) / len(whole)


def seen(stage: Stage, view: str, size_tokens: int) -> list[MemoryLine]:
    """The lines that a reader of this view finds at this size, each with its turns."""
    learned = stage.learned
    if view == "candidates":
        return [
            MemoryLine(one.text, frozenset(evidence.message_id for evidence in one.evidence))
            for one in learned.candidates.values()
        ]
    if view == "memory":
        fitted = fit(
            learned.memory, size_tokens, lambda memory: tokens(memory_md(memory)), learned.newest_ms
        ).memory
        return learned.lines(fitted)
    text = _text_of(stage, view, size_tokens)
    if tokens(text) > size_tokens:
        raise AssertionError(f"the {view} takes {tokens(text)} of {size_tokens} tokens")
    return [line for line in learned.lines(learned.memory) if shown(line.text) in text]


def _text_of(stage: Stage, view: str, size_tokens: int) -> str:
    if view == "summary":
        return summary_md(stage.learned.memory, budget_tokens=size_tokens, count=tokens)
    revision = Revision(stage.revision, stage.learned.memory, stage.made_at_ms)
    return note_text(AGENT, revision, budget_tokens=size_tokens, count=tokens)


def rows_of(known: Sequence[tuple[Conversation, list[Stage]]]) -> list[Row]:
    """Every stage, view and size, mean over all questions."""
    rows = [_row("observations", "as they came", UNBOUNDED, known, lambda one, _: list(one.observations))]
    rows.append(
        _row(
            STAGES[0],
            "candidates",
            UNBOUNDED,
            known,
            lambda _, found: seen(found[0], "candidates", UNBOUNDED),
        )
    )
    for place in (1, 2):
        for view in ("memory", "summary", "note"):
            for size in SIZES:
                rows.append(_row(STAGES[place], view, size, known, _looking(place, view, size)))
    return rows


Looking = Callable[[Conversation, list[Stage]], list[MemoryLine]]


def _looking(place: int, view: str, size_tokens: int) -> Looking:
    return lambda _, found: seen(found[place], view, size_tokens)


def _row(
    stage: str, view: str, size: int, known: Sequence[tuple[Conversation, list[Stage]]], look: Looking
) -> Row:
    found: list[Score] = []
    for conversation, its_stages in known:
        found += scores(look(conversation, its_stages), conversation.questions)
    return Row(
        stage,
        view,
        size,
        round(sum(one.supported for one in found) / len(found), 4),
        round(sum(one.recall for one in found) / len(found), 4),
    )


def missed_targets(rows: Iterable[Row], resolved: float, updates: Updates) -> list[str]:
    """One sentence for each target that was missed, with the figures."""
    by = {(row.stage, row.view, row.size_tokens): row for row in rows}
    missed: list[str] = []
    as_they_came = by["observations", "as they came", UNBOUNDED]
    for stage in STAGES[1:]:
        row = by[stage, "memory", UNBOUNDED]
        for name in ("supported", "recall"):
            got, wanted = getattr(row, name), getattr(as_they_came, name)
            if got < LEAST_OF_OBSERVATIONS * wanted:
                missed.append(f"{stage} the unbounded memory has {got} of {wanted} ({name})")
    for view in ("memory", "summary", "note"):
        for size in SIZES:
            first, last = by[STAGES[1], view, size], by[STAGES[2], view, size]
            if last.supported < first.supported * (1 - MOST_LOSS):
                missed.append(
                    f"{view} at {_size(size)}: {first.supported} after the first consolidation,"
                    f" {last.supported} after the eleventh"
                )
    if resolved < 1:
        missed.append(f"provenance resolves for {resolved:.2%} of lines")
    if updates.newest_present < 1 or updates.stale_gone < 1:
        missed.append(
            f"updates: the newest is present in {updates.newest_present:.1%} of the cases, the stale gone in"
            f" {updates.stale_gone:.1%}"
        )
    return missed


def _size(tokens_: int) -> str:
    return "unbounded" if tokens_ == UNBOUNDED else f"{tokens_ // 1000}k"


def _table(rows: Sequence[Row]) -> Table:
    table = Table("when", "what", title="Observations replayed: supported answer words (evidence recall)")
    for size in SIZES:
        table.add_column(_size(size), justify="right")
    for stage, view in dict.fromkeys((row.stage, row.view) for row in rows):
        cells = {row.size_tokens: row for row in rows if (row.stage, row.view) == (stage, view)}
        figures = (
            f"{cells[size].supported:.3f} ({cells[size].recall:.3f})" if size in cells else ""
            for size in SIZES
        )
        table.add_row(stage, view, *figures)
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory_quality", description=WHERE)
    parser.add_argument("--data", type=Path, help="the folder that holds conv-*.json, or a folder around it")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "memory_quality.json")
    options = parser.parse_args(arguments)
    console = Console(markup=False, highlight=False, width=110)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

    with tempfile.TemporaryDirectory(prefix="takeaways-updates-") as home:
        updates = updated(Path(home))
    console.print(
        f"updates: {updates.facts} facts, {updates.statements} statements in any order:"
        f" newest present {updates.newest_present:.1%}, stale gone {updates.stale_gone:.1%}"
    )
    folder = locomo_folder(options.data)
    if folder is None:
        console.print(f"There are no conversations to replay. {WHERE} Then: make quality DATA=folder")
        return 0 if min(updates.newest_present, updates.stale_gone) == 1 else 1
    known, shares = [], []
    for conversation in conversations(folder):
        with tempfile.TemporaryDirectory(prefix="takeaways-quality-") as home:
            found, share = stages(conversation, Path(home))
        known.append((conversation, found))
        shares.append(share)
    rows = rows_of(known)
    missed = missed_targets(rows, min(shares), updates)
    console.print(_table(rows))
    console.print(f"provenance resolves for {min(shares):.1%} of lines")
    for sentence in missed:
        console.print(f"MISSED: {sentence}", style="red")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "rows": [asdict(row) for row in rows],
        "provenance": min(shares),
        "updates": asdict(updates),
        "missed": missed,
    }
    options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
