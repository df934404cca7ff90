"""Counters that several processes share, through files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from takeaways.workers.metrics import labels
from takeaways.workers.metrics.folder import VARIABLE, Shared, merge_dead, shared_folder

COUNT = """
from prometheus_client import Counter, Histogram
Counter("served", "", ("kind",)).labels("tea").inc(2)
Histogram("took", "", buckets=(1, 2)).observe(1.5)
"""


def count(folder: Path) -> None:
    """A process that counts, and ends."""
    subprocess.run([sys.executable, "-c", COUNT], env={**os.environ, VARIABLE: str(folder)}, check=True)


def counted(folder: Path) -> dict[str, float]:
    return {
        f"{sample.name}{sample.labels.get('le', '')}": sample.value
        for family in Shared(folder).collect()
        for sample in family.samples
    }


def test_what_dead_processes_counted_stays_when_their_files_are_merged(tmp_path: Path) -> None:
    """A worker that dies each half minute for a week neither fills the disk nor sets a counter back."""
    for _ in range(3):
        count(tmp_path)
    before = counted(tmp_path)

    merge_dead(tmp_path, most_files=4)
    merged = counted(tmp_path)
    files = sorted(file.name for file in tmp_path.iterdir())
    count(tmp_path)
    merge_dead(tmp_path, most_files=1)

    assert before["served_total"] == 6
    assert merged == before
    assert files == ["counter_merged.db", "histogram_merged.db"]
    assert counted(tmp_path)["served_total"] == 8
    assert counted(tmp_path)["took_bucket2.0"] == 4


def test_a_folder_for_metrics_is_gone_with_its_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped pool leaves nothing behind, and a folder that an operator named is left alone."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with shared_folder() as variables:
        folder = Path(variables[VARIABLE])
        there = folder.is_dir()

    monkeypatch.setenv(VARIABLE, "/somewhere")
    with shared_folder() as none:
        assert (there, folder.exists(), none) == (True, False, {})


def test_names_of_models_cannot_become_labels_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names come from events: a service that sends a new one each time must not break the monitoring."""
    seen: Any = set()
    monkeypatch.setattr(labels, "_seen", seen)

    names = {labels.model_label(f"model-{number}") for number in range(1_000)}

    assert len(names) == labels.MOST_MODELS + 1
    assert labels.model_label("model-1") == "model-1"
    assert labels.model_label("model-999") == labels.OTHER
