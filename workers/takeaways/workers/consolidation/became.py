"""What became of candidates: those that a revision settled, and those that its lines no longer rest on. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from takeaways.schemas.memories import Memory
from takeaways.workers.consolidation.account import Account, How, Retired
from takeaways.workers.models.answers import Fate

TRIMMED = "trimmed"
BY_HAND = "by_hand"


@dataclass(frozen=True, slots=True)
class Became:
    """`state` is a `Fate`, `trimmed` or `by_hand`; `superseded_by` names the candidates that say otherwise."""

    state: str
    reason: str = ""
    superseded_by: tuple[str, ...] = ()


def became(before: Memory, after: Memory, account: Account) -> dict[str, Became]:
    """The new state of each candidate whose state the revision changes, by candidate id."""
    resting = resting_on(after)
    lines = {line.id: line for section in after.sections for line in section.lines}
    found: dict[str, Became] = {}
    for one in account.settled:
        by: tuple[str, ...] = ()
        if one.fate is Fate.SUPERSEDED and one.by:
            by = lines[one.by].candidates if one.by in lines else (one.by,)
        kept = one.fate not in (Fate.MERGED, Fate.DUPLICATE) or one.candidate in resting
        found[one.candidate] = Became(one.fate.value if kept else TRIMMED, one.reason, by)
    retired = {id_: one for one in account.retired for id_ in one.line.candidates}
    for id_ in sorted(resting_on(before) - resting):
        found[id_] = _left(retired.get(id_))
    for id_ in sorted(resting - resting_on(before) - found.keys()):
        found[id_] = Became(Fate.MERGED.value)
    return found


def resting_on(memory: Memory) -> frozenset[str]:
    """The candidates that any line of the memory rests on."""
    return frozenset(id_ for section in memory.sections for line in section.lines for id_ in line.candidates)


def _left(retired: Retired | None) -> Became:
    if retired is None or retired.how is How.BY_HAND:
        return Became(BY_HAND)
    if retired.how is How.TRIMMED:
        return Became(TRIMMED, retired.reason)
    if retired.candidates:
        return Became(Fate.SUPERSEDED.value, retired.reason, retired.candidates)
    return Became(Fate.DROPPED.value, retired.reason)
