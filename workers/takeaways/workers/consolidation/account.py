"""The account of a revision: what changed, and what became of each candidate. Enough to make it again.

Lines of a section stand in the order in which they were said, sections in the order of their titles. So the
same lessons make the same memory, whatever the batches in which they were merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import Field

from takeaways.schemas.memories import MAX_GIST, Frozen, Lesson, Line, Memory, Section
from takeaways.workers.extraction.shorten import cut
from takeaways.workers.models.answers import Fate


class Gone(Frozen):
    line: str
    reason: str


class Created(Frozen):
    op: Literal["create"] = "create"
    section: Section


class Updated(Frozen):
    """`put` are the lines that are new or differ, whole; `gone` those that are no more."""

    op: Literal["update"] = "update"
    section: str
    title: str
    gist: str
    put: tuple[Line, ...] = ()
    gone: tuple[Gone, ...] = ()


class Deleted(Frozen):
    op: Literal["delete"] = "delete"
    section: str
    reason: str


Change = Annotated[Created | Updated | Deleted, Field(discriminator="op")]


class Settled(Frozen):
    """What became of a candidate. `by` is the id of the line or candidate that says it or says otherwise."""

    candidate: str
    fate: Fate
    by: str | None = None
    reason: str = ""


class How(StrEnum):
    """How a line stopped saying what it said."""

    REPLACED = "replaced"
    REWORDED = "reworded"
    REMOVED = "removed"
    TRIMMED = "trimmed"
    WITHDRAWN = "withdrawn"
    BY_HAND = "by_hand"


class Retired(Frozen):
    """What a line said until this revision, and what took its place.

    `by` is the line that stands for it now, which has the same id where it was replaced; `candidates` are
    those that say otherwise. Both are empty where nothing took its place.
    """

    line: Line
    section: str
    how: How
    by: str | None = None
    candidates: tuple[str, ...] = ()
    reason: str = ""


class Account(Frozen):
    changes: tuple[Change, ...] = ()
    settled: tuple[Settled, ...] = ()
    retired: tuple[Retired, ...] = ()

    def fates(self) -> dict[str, tuple[str, str]]:
        """(fate, reason) by candidate id."""
        return {one.candidate: (one.fate.value, one.reason) for one in self.settled}

    def to_json(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote; what others stored beside it is ignored."""
        return cls.model_validate({key: value[key] for key in cls.model_fields if key in value})


def replay(memory: Memory, account: Account) -> Memory:
    """The memory after the account's changes. Sections that they do not name are the same objects."""
    sections = {section.id: section for section in memory.sections}
    for change in account.changes:
        if isinstance(change, Created):
            sections[change.section.id] = change.section
        elif isinstance(change, Deleted):
            del sections[change.section]
        else:
            sections[change.section] = _updated(sections[change.section], change)
    return Memory(sections=in_order(sections.values()))


def _updated(section: Section, change: Updated) -> Section:
    lines = {line.id: line for line in section.lines}
    for gone in change.gone:
        del lines[gone.line]
    lines.update((line.id, line) for line in change.put)
    return Section(id=section.id, title=change.title, gist=change.gist, lines=said_in_order(lines.values()))


def difference(before: Memory, after: Memory, reasons: Mapping[str, str] | None = None) -> tuple[Change, ...]:
    """The changes that lead from one memory to another; `reasons` by id of a line or section that is gone."""
    because = reasons or {}
    old = {section.id: section for section in before.sections}
    new = {section.id: section for section in after.sections}
    changes: list[Change] = []
    for section in before.sections:
        if section.id not in new:
            changes.append(Deleted(section=section.id, reason=because.get(section.id, "")))
        elif new[section.id] is not section and new[section.id] != section:
            changes.append(_change(section, new[section.id], because))
    changes += [Created(section=section) for section in after.sections if section.id not in old]
    return tuple(changes)


def _change(before: Section, after: Section, because: Mapping[str, str]) -> Updated:
    old = {line.id: line for line in before.lines}
    kept = {line.id for line in after.lines}
    return Updated(
        section=after.id,
        title=after.title,
        gist=after.gist,
        put=tuple(line for line in after.lines if old.get(line.id) != line),
        gone=tuple(Gone(line=id_, reason=because.get(id_, "")) for id_ in old if id_ not in kept),
    )


def retirements(
    before: Memory,
    after: Memory,
    *,
    how: Mapping[str, How] | How,
    reasons: Mapping[str, str] | None = None,
    instead: Mapping[str, str] | None = None,
) -> tuple[Retired, ...]:
    """What each line said that is gone or says something else now.

    `how` is why lines are gone, all or by line id (`REMOVED` where it names none). `instead` names, by line
    id, the line or candidate that the answer put in its place.
    """
    now = {line.id: line for _, line in _lines(after)}
    resting = {candidate: line for _, line in _lines(after) for candidate in line.candidates}
    found: list[Retired] = []
    for section, line in _lines(before):
        changed = now.get(line.id)
        if changed is not None:
            if (changed.text, changed.kind) != (line.text, line.kind):
                found.append(_changed(section, line, changed, how))
            continue
        named = (instead or {}).get(line.id)
        by = now.get(named or "") or resting.get(named or "")
        found.append(
            Retired(
                line=line,
                section=section.title,
                how=how if isinstance(how, How) else how.get(line.id, How.REMOVED),
                by=by.id if by else None,
                candidates=by.candidates if by else (named,) if named else (),
                reason=(reasons or {}).get(line.id, ""),
            )
        )
    return tuple(found)


def _changed(section: Section, line: Line, now: Line, how: Mapping[str, How] | How) -> Retired:
    still_rests = set(line.candidates) <= set(now.candidates)
    word = How.REWORDED if still_rests else How.REPLACED
    return Retired(
        line=line,
        section=section.title,
        how=How.BY_HAND if how is How.BY_HAND else word,
        by=now.id,
        candidates=() if still_rests else now.candidates,
    )


def _lines(memory: Memory) -> Iterator[tuple[Section, Line]]:
    return ((section, line) for section in memory.sections for line in section.lines)


def with_trimming(account: Account, before: Memory, after: Memory, dropped: Mapping[str, str]) -> Account:
    """The account of edits that were trimmed afterwards: it leads from `before` to `after` in one go.

    `dropped` says why, by id of each line that had to go.
    """
    reasons = dict(dropped)
    for change in account.changes:
        if isinstance(change, Updated):
            reasons.update((gone.line, gone.reason) for gone in change.gone)
        elif isinstance(change, Deleted):
            reasons[change.section] = change.reason
    edited = {one.line.id: one for one in account.retired}
    left = {line.id for _, line in _lines(after)}
    reasons.update((id_, one.reason) for id_, one in edited.items() if one.reason)
    trimmed = retirements(before, after, how=dict.fromkeys(dropped, How.TRIMMED), reasons=reasons)
    return Account(
        changes=difference(before, after, reasons),
        settled=account.settled,
        retired=tuple(
            told if (told := edited.get(one.line.id)) and told.by in {None, *left} else one for one in trimmed
        ),
    )


def said_in_order(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Lines as they stand in a section."""
    return tuple(sorted(lines, key=lambda line: (line.said_at_ms, line.id)))


def in_order(sections: Iterable[Section]) -> tuple[Section, ...]:
    """Sections as they stand in the memory. A title is unique, so an id decides only where a guard was
    evaded.
    """
    return tuple(sorted(sections, key=lambda section: (section.title.casefold(), section.title, section.id)))


class _Told(Protocol):
    @property
    def kind(self) -> Lesson: ...
    @property
    def text(self) -> str: ...
    @property
    def said_at_ms(self) -> int: ...


def gist_of(lines: Iterable[_Told]) -> str:
    """A gist that says nothing but what these lines say: what must be obeyed, then the newest, as much as
    fits.
    """
    ranked = sorted(lines, key=lambda line: (not line.kind.must_obey, -line.said_at_ms, line.text))
    gist = ""
    for line in ranked:
        longer = f"{gist}; {line.text}" if gist else line.text
        if len(longer) > MAX_GIST:
            break
        gist = longer
    return gist or (cut(ranked[0].text, MAX_GIST - 1).rstrip() + "…" if ranked else "")
