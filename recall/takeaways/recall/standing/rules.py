"""What a request makes of a note: a plain function of the entries, the cap and the scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from takeaways.recall.standing.codes import Code, Refused
from takeaways.recall.standing.guard import BLOCKED, Scan, scanned, shown
from takeaways.recall.standing.matching import match
from takeaways.recall.standing.request import Action, Operation, Request, Target, in_batch
from takeaways.recall.standing.text import canonical, entry, size

NAMES: Final = {Target.MEMORY: "Memory", Target.USER: "User notes"}


@dataclass(frozen=True, slots=True)
class Change:
    """What a note becomes, and what to tell the model. Equal entries mean that nothing changes."""

    entries: tuple[str, ...]
    code: Code
    message: str
    facts: dict[str, Any] = field(default_factory=dict)


def applied(entries: Sequence[str], request: Request, *, cap: int, scan: Scan) -> Change:
    """Apply a request to the entries of a note. Raises `Refused`, and then nothing is to be written."""
    if not request.is_batch:
        [operation] = request.operations
        change = _one(tuple(entries), _meant(entries, operation, scan), cap, scan)
        _check(entries, change.entries, [operation], request.target, cap, scan)
        return change
    changes: list[Change] = []
    now = tuple(entries)
    for place, operation in enumerate(request.operations, 1):
        try:
            changes.append(_one(now, _meant(entries, operation, scan), cap, scan))
        except Refused as refused:
            raise in_batch(refused, place, operation.action) from None
        now = changes[-1].entries
    try:
        _check(entries, now, request.operations, request.target, cap, scan)
        if entries and not now:
            raise Refused(Code.WOULD_EMPTY_STORE, "This would delete every entry.")
    except Refused as refused:
        raise Refused(refused.code, f"{refused.error} No operations were applied.", **refused.facts) from None
    skipped = sum(change.code is Code.UNCHANGED for change in changes)
    if now == tuple(entries):
        return Change(
            now, Code.UNCHANGED, "The operations leave the notes as they were.", {"skipped": skipped}
        )
    return Change(now, Code.APPLIED, f"{len(changes)} operations applied.", {"skipped": skipped})


def _meant(entries: Sequence[str], operation: Operation, scan: Scan) -> Operation:
    """The operation, with the entry itself for `old_text` that is what stands for a blocked one: a model sees no
    more of it, and shall be able to clear it away. `entries` are those that it was shown.
    """
    old_text = operation.old_text
    if not isinstance(old_text, str) or BLOCKED not in old_text or old_text in entries:
        return operation
    wanted = canonical(old_text)
    for line, visible in zip(entries, shown(entries, scan), strict=True):
        if visible == wanted and visible != line:
            return replace(operation, old_text=line)
    return operation


def _one(entries: tuple[str, ...], operation: Operation, cap: int, scan: Scan) -> Change:
    if operation.action is Action.ADD:
        line = scanned(entry(operation.content, cap=cap), scan)
        if line in entries:
            return Change(entries, Code.UNCHANGED, "Entry already exists (no duplicate added).")
        return Change((*entries, line), Code.ADDED, "Entry added.")
    found = match(entries, operation.old_text)
    place, old = found.place, entries[found.place]
    before, after = entries[:place], tuple(line for line in entries[place + 1 :] if line != old)
    if operation.action is Action.REMOVE:
        facts = {"removed_entry": old, "matched_by": found.by}
        return Change((*before, *after), Code.REMOVED, "Entry removed.", facts)
    line = scanned(entry(operation.content, cap=cap), scan)
    facts = {"replaced_entry": old, "matched_by": found.by}
    if line == old:
        return Change(entries, Code.UNCHANGED, "The entry says that already.", facts)
    if line in entries:
        message = "Another entry says that already; the replaced one is gone."
        return Change((*before, *after), Code.REPLACED, message, {**facts, "merged": True})
    return Change((*before, line, *after), Code.REPLACED, "Entry replaced.", facts)


def _check(
    before: Sequence[str],
    after: Sequence[str],
    operations: Sequence[Operation],
    target: Target,
    cap: int,
    scan: Scan,
) -> None:
    """The final size, and what new entries say together with those that were there."""
    if set(after) - set(before):
        scanned("\n".join(line for line in after if scan(line) is None), scan)
    used, wanted = size(before), size(after)
    # A note that is over its cap, because that was lowered, may shrink step by step.
    if wanted <= cap or wanted < used:
        return
    new = [line for line in after if line not in before]
    over_by = wanted - cap
    if (longest := max(map(len, new), default=0)) > cap:
        raise Refused(
            Code.ENTRY_TOO_LARGE,
            f"{NAMES[target]} at {used}/{cap} chars. An entry of {longest} chars can never fit, it is "
            f"{longest - cap} over the limit by itself. Keep the one fact that matters, in a few words.",
            over_by=over_by,
            would_be=wanted,
        )
    what = {
        Action.ADD: f"Adding this entry ({sum(map(len, new))} chars)",
        Action.REPLACE: f"Replacing this entry ({wanted} chars in all)",
    }.get(
        operations[0].action if len(operations) == 1 else Action.REMOVE, f"This batch ({wanted} chars in all)"
    )
    raise Refused(
        Code.OVER_BUDGET,
        f"{NAMES[target]} at {used}/{cap} chars. {what} would exceed the limit by {over_by}. Consolidate with "
        "replace/remove, then retry: merge or remove entries and add this one in ONE call with `operations`.",
        over_by=over_by,
        would_be=wanted,
    )
