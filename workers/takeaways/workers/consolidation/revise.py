"""Making the memory that a reviewed answer describes. What it does not touch stays the same object."""

from __future__ import annotations

from collections.abc import Iterable

from takeaways.schemas.memories import Line, Memory, Section, line_id, section_id
from takeaways.workers.consolidation.account import Settled, gist_of, in_order, said_in_order
from takeaways.workers.consolidation.review import Desk, Draft, Reviewed
from takeaways.workers.models.answers import Fate, NewLine, ReplacedLine
from takeaways.workers.text.exact import missing_words
from takeaways.workers.text.plain import plain_line


def revise(desk: Desk, reviewed: Reviewed) -> Memory:
    """The memory after the edits. Only for an answer without complaints."""
    return _Reviser(desk, reviewed).memory()


def settled(desk: Desk, reviewed: Reviewed) -> tuple[Settled, ...]:
    """What became of each candidate, by ids, in the order of the offer.

    One that repeats a line which says something else from now on is superseded together with it.
    """
    ids = {**desk.offer.lines, **desk.offer.candidate_ids}
    found: list[Settled] = []
    for label, candidate in desk.candidates.items():
        entry = reviewed.account[label]
        fate = entry.fate
        if fate is Fate.DUPLICATE and reviewed.outlived(desk.line(entry.by)):
            fate = Fate.SUPERSEDED
        by = None if fate in (Fate.MERGED, Fate.DROPPED) else ids.get(entry.by or "")
        found.append(Settled(candidate=candidate.id, fate=fate, by=by, reason=entry.reason))
    return tuple(found)


def _true_gist(gist: str, title: str, lines: Iterable[Line]) -> str:
    """The gist, or one made of the lines where it gives a number or a name that none of them gives (any more).

    It is what a conversation begins with, so an old number would outlive its correction there.
    """
    said = list(lines)
    stands = not missing_words(gist, "\n".join([title, *(line.text for line in said)]))
    return gist if stands else gist_of(said)


class _Reviser:
    def __init__(self, desk: Desk, reviewed: Reviewed) -> None:
        self._desk = desk
        self._reviewed = reviewed
        self._taken = set(desk.lines)
        self._repeats = {label: list(labels) for label, labels in reviewed.repeated.items()}
        for entry in reviewed.account.values():
            if entry.fate is Fate.DUPLICATE and entry.by is not None:
                self._repeats.setdefault(entry.by, []).append(entry.candidate)

    def memory(self) -> Memory:
        drafts = {
            self._desk.offer.sections[draft.label]: draft for draft in self._reviewed.drafts if draft.label
        }
        sections: list[Section] = []
        for section in self._desk.memory.sections:
            draft = drafts.get(section.id) or Draft("", section.title, None)
            if (edited := self._edited(section, draft)) is not None:
                sections.append(edited)
        taken = {section.id for section in self._desk.memory.sections}
        for draft in self._reviewed.drafts:
            if not draft.label:
                sections.append(self._created(draft, taken))
                taken.add(sections[-1].id)
        return Memory(sections=in_order(sections))

    def _edited(self, section: Section, draft: Draft) -> Section | None:
        """The section as it will be; itself where nothing of it changes, None where no line is left."""
        kept = [line for line in section.lines if line.id not in self._reviewed.removed]
        lines = [self._kept(line) for line in kept]
        if draft.fresh or lines != list(section.lines):
            lines = list(said_in_order([*lines, *map(self._fresh, draft.fresh)]))
        if not lines:
            return None
        gist = draft.gist
        if gist is None:
            # A gist that was made for other lines may show what is gone.
            replaced = any(line.id in self._reviewed.replaced for line in kept)
            gist = gist_of(lines) if replaced or len(kept) < len(section.lines) else section.gist
        else:
            gist = _true_gist(gist, draft.title, lines)
        edited = Section(id=section.id, title=draft.title, gist=gist, lines=tuple(lines))
        return section if edited == section else edited

    def _created(self, draft: Draft, taken: set[str]) -> Section:
        lines = said_in_order(map(self._fresh, draft.fresh))
        rests_on = tuple(sorted({id_ for line in lines for id_ in line.candidates}))
        id_, number = section_id(draft.title, rests_on), 1
        while id_ in taken:
            number += 1
            id_ = section_id(draft.title, (*rests_on, str(number)))
        gist = _true_gist(draft.gist or gist_of(lines), draft.title, lines)
        return Section(id=id_, title=draft.title, gist=gist, lines=lines)

    def _kept(self, line: Line) -> Line:
        """A line that stays: as it is, resting on more, or saying something else."""
        repeated = self._repeating(self._desk.line_labels[line.id])
        changed = self._reviewed.replaced.get(line.id)
        if changed is not None:
            return self._replaced(line, changed, repeated)
        return self._resting(line, repeated) if repeated else line

    def _replaced(self, line: Line, changed: ReplacedLine, repeated: list[str]) -> Line:
        text, made_from = plain_line(changed.text), self._made_from(changed)
        if changed.still_rests:
            said_the_same = line.model_copy(update={"kind": changed.kind, "text": text})
            return self._resting(said_the_same, [*made_from, *repeated])
        return self._resting(self._bare(line.id, changed), made_from)

    def _fresh(self, line: NewLine) -> Line:
        first = tuple(sorted({self._desk.candidates[label].id for label in line.candidates}))
        id_, number = line_id(first), 1
        while id_ in self._taken:  # a candidate may be split into several lines
            number += 1
            id_ = line_id((*first, str(number)))
        self._taken.add(id_)
        return self._resting(self._bare(id_, line), self._made_from(line))

    def _bare(self, id_: str, line: NewLine) -> Line:
        said_at_ms = self._desk.candidates[line.candidates[0]].said_at_ms
        return Line(id=id_, kind=line.kind, text=plain_line(line.text), said_at_ms=said_at_ms)

    def _resting(self, line: Line, labels: Iterable[str]) -> Line:
        """The line resting on these candidates too, said when the newest of them was."""
        found = [self._desk.candidates[label] for label in labels]
        return line.model_copy(
            update={
                "said_at_ms": max([line.said_at_ms, *(one.said_at_ms for one in found)]),
                "candidates": tuple(sorted({*line.candidates, *(one.id for one in found)})),
            }
        )

    def _made_from(self, line: NewLine) -> list[str]:
        return [label for named in line.candidates for label in (named, *self._repeating(named))]

    def _repeating(self, label: str) -> list[str]:
        """The candidates that repeat a line or candidate, and those that repeat them."""
        found: list[str] = []
        following = [label]
        while following:
            direct = self._repeats.get(following.pop(), [])
            found += direct
            following += direct
        return found
