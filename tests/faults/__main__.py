"""`make faults` and `make faults-long`: storms by seed, their figures, exit code 1 when a promise was broken."""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import structlog

from tests.faults.control import Arm, run_arms
from tests.faults.report import table, write
from tests.faults.servers import redis_binary
from tests.faults.stage import ROOT
from tests.faults.storm import Plan, Result, play

DATABASES = ("sqlite", "postgresql")
REDISES = ("valkey", "redis")


def main() -> int:
    asked = _arguments()
    # Of what the workers do in this process (a flush) only errors are of interest here; they have logs of their own.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    results: list[Result] = []
    arms: list[Arm] = []
    with tempfile.TemporaryDirectory(prefix="takeaways-faults-", ignore_cleanup_errors=True) as folder:
        for number, plan in enumerate(_plans(asked)):
            print(f"\n{plan.name}: seed {plan.seed}, {plan.faults} faults, {plan.events} events", flush=True)
            result = _play(plan, Path(folder) / str(number), asked.keep)
            if asked.late_again and result.only_late:
                _say("late, and nothing else was broken: once more, should the machine have been busy")
                for broken in result.broken:
                    _say(broken.where)
                result = _play(plan, Path(folder) / f"{number}-again", asked.keep)
            results.append(result)
            write(results, arms, asked.output)
        if asked.control:
            arms = run_arms(Path(folder))
            write(results, arms, asked.output)
    print(f"\n{table(results, arms)}")
    if asked.control and not arms[0].doubled:
        print("The control arm doubled nothing, so these storms prove nothing.")
        return 1
    return int(any(result.broken for result in results))


def _play(plan: Plan, place: Path, keep: str | None) -> Result:
    place.mkdir()
    result = play(plan, place, say=_say)
    if result.broken and keep:
        shutil.move(place, Path(keep) / f"{plan.database}-{plan.seed}-{place.name}")
    return result


def _plans(asked: argparse.Namespace) -> Iterator[Plan]:
    """One storm for each combination; with `--for-seconds` again and again, with another seed each time."""
    combinations = [
        (database, name)
        for database in asked.database
        for name in asked.redis
        if redis_binary(name) is not None
    ]
    for name in asked.redis:
        if redis_binary(name) is None:
            print(f"{name}: not installed here, so it is left out")
    until = time.monotonic() + (asked.for_seconds or 0)
    rounds = 0
    while rounds == 0 or time.monotonic() < until:
        for place, (database, name) in enumerate(combinations):
            if rounds and time.monotonic() >= until:
                return
            seed = asked.seed + rounds * len(combinations) + place
            yield Plan(seed, database, name, asked.faults, asked.events, seconds=asked.faults * asked.pace)
        rounds += 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="replays the storm that printed it")
    parser.add_argument("--database", choices=DATABASES, action="append")
    parser.add_argument("--redis", choices=REDISES, action="append")
    parser.add_argument("--faults", type=int, default=30, help="in each storm")
    parser.add_argument("--events", type=int, default=3_750, help="in each storm")
    parser.add_argument("--pace", type=float, default=5.0, help="seconds of load for each fault")
    parser.add_argument("--for-seconds", type=float, help="go on with new seeds for so long")
    parser.add_argument(
        "--late-again", action="store_true", help="play a storm once more that only recovered late"
    )
    parser.add_argument("--control", action="store_true", help="run the control arm too")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "faults.json")
    parser.add_argument("--keep", help="a folder for databases and logs of storms that broke a promise")
    asked = parser.parse_args()
    asked.seed = random.randrange(1_000_000) if asked.seed is None else asked.seed
    asked.database = asked.database or list(DATABASES)
    asked.redis = asked.redis or list(REDISES)
    return asked


def _say(line: str) -> None:
    print(f"  {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
