"""The figures of storms: a table for people, and JSON for what comes after."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.faults.control import Arm
from tests.faults.storm import Result


def table(results: Sequence[Result], arms: Sequence[Arm] = ()) -> str:
    """What people are shown: a line for each storm, the slowest recoveries, and whatever was broken."""
    return "\n".join((*_storms(results), "", *_recoveries(results), "", *_arms(arms), *_broken(results)))


def _storms(results: Sequence[Result]) -> Iterator[str]:
    columns = ("storm", "seed", "faults", "events (arrivals)", "jobs", "fenced off", "killed")
    yield from _head(*columns, "reaction p50 / p95 / max", "seconds", "broken")
    for one in results:
        reactions = " / ".join(f"{_quantile(one.reactions_seconds, part):.2f}" for part in (0.5, 0.95, 1.0))
        yield (
            f"| {one.plan.name} | {one.plan.seed} | {len(one.recoveries)} | {one.events} ({one.arrivals}) | {one.jobs} "
            f"| {one.fenced_off} | {one.abandoned} | {reactions} s | {one.seconds:.0f} | {len(one.broken)} |"
        )


def _recoveries(results: Sequence[Result]) -> Iterator[str]:
    yield from _head("fault", "times", "slowest recovery", "bound")
    every = [one for result in results for one in result.recoveries]
    for name in dict.fromkeys(one.fault for one in every):
        mine = [one for one in every if one.fault == name]
        slowest = (
            "never"
            if any(one.seconds is None for one in mine)
            else f"{max(one.seconds or 0 for one in mine):.1f} s"
        )
        yield f"| {name} | {len(mine)} | {slowest} | {mine[0].bound_seconds:.0f} s |"


def _arms(arms: Sequence[Arm]) -> Iterator[str]:
    if arms:
        yield from _head("control arm", "tasks", "run twice", "lost")
    for arm in arms:
        yield f"| {arm.name} | {arm.tasks} | {arm.doubled} | {arm.lost} |"
    if arms:
        yield ""


def _broken(results: Sequence[Result]) -> Iterator[str]:
    for one in results:
        for broken in one.broken:
            yield f"BROKEN ({one.plan.name}, seed {one.plan.seed}): {broken.promise}: {broken.where}"
        if one.broken:
            yield (
                f"Play it again: make faults SEED={one.plan.seed} DATABASE={one.plan.database} "
                f"REDIS={one.plan.redis} FAULTS={one.plan.faults} EVENTS={one.plan.events}"
            )


def as_json(results: Sequence[Result], arms: Sequence[Arm] = ()) -> dict[str, Any]:
    return {"storms": [asdict(one) for one in results], "control": [asdict(arm) for arm in arms]}


def write(results: Sequence[Result], arms: Sequence[Arm], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(as_json(results, arms), indent=1) + "\n", "utf-8")


def _head(*columns: str) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"


def _quantile(values: Sequence[float], part: float) -> float:
    return values[min(int(len(values) * part), len(values) - 1)] if values else 0.0
