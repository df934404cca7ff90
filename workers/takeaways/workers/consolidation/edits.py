"""Applying a model's edits to the memory whole or not at all, and taking out what rests on something
erased.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from takeaways.schemas.errors import EditRefused
from takeaways.schemas.memories import Candidate, Memory, Section
from takeaways.workers.consolidation.account import Account, How, difference, gist_of, replay, retirements
from takeaways.workers.consolidation.offer import Offer
from takeaways.workers.consolidation.review import Desk, Guards, review
from takeaways.workers.consolidation.revise import revise, settled
from takeaways.workers.models.answers import ConsolidationAnswer

__all__ = ["Account", "Applied", "Guards", "apply", "difference", "gist_of", "replay", "withdraw_lines"]


@dataclass(frozen=True, slots=True)
class Applied:
    """A memory and how it came about: `replay(before, account)` gives the same bytes."""

    memory: Memory
    account: Account


def apply(
    memory: Memory,
    candidates: Iterable[Candidate],
    offer: Offer,
    answer: ConsolidationAnswer,
    guards: Guards | None = None,
) -> Applied:
    """The memory after the answer's edits, with the account.

    Sections that no edit changes are the same objects. Raises `EditRefused` with every complaint, which name
    labels and no text; then nothing of the answer holds.
    """
    desk = Desk(memory, candidates, offer)
    reviewed = review(desk, answer, guards or Guards())
    if reviewed.complaints:
        raise EditRefused(tuple(dict.fromkeys(reviewed.complaints)))
    after = revise(desk, reviewed)
    account = Account(
        changes=difference(memory, after, reviewed.reasons),
        settled=settled(desk, reviewed),
        retired=retirements(
            memory, after, how=How.REMOVED, reasons=reviewed.reasons, instead=reviewed.instead
        ),
    )
    return Applied(replay(memory, account), account)


def withdraw_lines(memory: Memory, candidate_ids: Iterable[str]) -> tuple[Memory, frozenset[str]]:
    """Take out every line that rests on one of these candidates, pinned or not.

    Returns the memory and the other candidates that those lines rested on: they have to be merged again. A
    section without a line goes, and a gist that may show what is gone is made anew from what is left.
    """
    withdrawn = frozenset(candidate_ids)
    freed: set[str] = set()
    sections: list[Section] = []
    for section in memory.sections:
        kept = tuple(line for line in section.lines if withdrawn.isdisjoint(line.candidates))
        if len(kept) == len(section.lines):
            sections.append(section)
            continue
        freed.update(id_ for line in section.lines if line not in kept for id_ in line.candidates)
        if kept:
            sections.append(section.model_copy(update={"lines": kept, "gist": gist_of(kept)}))
    return Memory(sections=tuple(sections)), frozenset(freed - withdrawn)
