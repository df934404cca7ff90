"""The benchmark of what the pipeline itself loses: its targets can be missed, and its model knows its turns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.contradictions import Updates, updated
from benchmarks.memory_quality import SIZES, STAGES, UNBOUNDED, Row, missed_targets, rows_of, stages
from benchmarks.quality import locomo_folder
from tests.data import needs_data

UPDATES = Updates(2, 4, 1.0, 1.0, 0)


def rows(*, supported: float = 0.4) -> list[Row]:
    views = [
        Row(stage, view, size, supported, 0.7)
        for stage in STAGES[1:]
        for view in ("memory", "summary", "note")
        for size in SIZES
    ]
    return [Row("observations", "as they came", UNBOUNDED, 0.4, 0.7), *views]


def worse(stage: str, view: str, size: int, supported: float) -> list[Row]:
    return [
        replace(row, supported=supported)
        if (row.stage, row.view, row.size_tokens) == (stage, view, size)
        else row
        for row in rows()
    ]


def test_nothing_is_missed_where_nothing_is_lost() -> None:
    """A green run means something only if it can be green."""
    assert missed_targets(rows(), 1.0, UPDATES) == []


@pytest.mark.parametrize(
    ("found", "resolved", "updates", "words"),
    [
        (rows(supported=0.39), 1.0, UPDATES, "unbounded memory has 0.39 of 0.4"),
        (worse(STAGES[2], "memory", 2_000, 0.395), 1.0, UPDATES, "memory at 2k"),
        (worse(STAGES[2], "note", UNBOUNDED, 0.395), 1.0, UPDATES, "note at unbounded"),
        (rows(), 0.999, UPDATES, "provenance"),
        (rows(), 1.0, replace(UPDATES, stale_gone=0.99), "stale gone"),
        (rows(), 1.0, replace(UPDATES, newest_present=0.99), "newest is present"),
    ],
)
def test_each_target_can_be_missed(found: list[Row], resolved: float, updates: Updates, words: str) -> None:
    """A target that nothing can miss guards nothing."""
    missed = missed_targets(found, resolved, updates)

    assert any(words in sentence for sentence in missed)


def test_the_newest_statement_is_kept_whatever_the_order_and_the_carelessness(tmp_path: Path) -> None:
    """The guards find every answer that lets an earlier word win, and the second answer is right."""
    found = updated(tmp_path, seed=7)

    assert (found.newest_present, found.stale_gone) == (1.0, 1.0)
    assert found.repairs > 0


@needs_data
def test_no_observation_gets_lost_on_a_real_conversation(tmp_path: Path) -> None:
    """What was learned is still there after eleven consolidations, and each line names its turns."""
    from benchmarks.locomo import conversations

    folder = locomo_folder(None)
    assert folder is not None
    conversation = conversations(folder)[1]

    found, resolved = stages(conversation, tmp_path)

    assert missed_targets(rows_of([(conversation, found)]), resolved, UPDATES) == []
