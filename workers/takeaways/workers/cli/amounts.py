"""Numbers for people: counts that agree with their nouns, and durations."""

from __future__ import annotations

from itertools import pairwise

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def span_ms(milliseconds: int) -> str:
    """A duration in at most two units: `4 h 12 min`, `45 s`. Any part of a second counts as one."""
    seconds = max(-(-milliseconds // 1000), 1)
    for (unit, size), (smaller, smaller_size) in pairwise(_UNITS):
        if seconds >= size:
            rest = seconds % size // smaller_size
            return f"{seconds // size} {unit} {rest} {smaller}" if rest else f"{seconds // size} {unit}"
    return f"{seconds} s"


def count(number: int, thing: str) -> str:
    """`1 run`, `7 runs`, `2 batches`."""
    if number == 1:
        return f"1 {thing}"
    return f"{number:,} {thing}{'es' if thing.endswith('ch') else 's'}"


def dollars(microdollars: int) -> str:
    """An amount of money: `$1.24`, and small ones so that they are not nothing: `$0.0031`."""
    amount = microdollars / 1_000_000
    return f"${amount:,.2f}" if amount >= 1 or not microdollars else f"${max(amount, 0.0001):.4f}"
