"""Finding what is wrong with a model's edits. Nothing is applied here, and no text is quoted.

Lines get lost only by name and with a reason, few at a time; a later word never gives way to an earlier one;
every candidate is accounted for once; nothing stands for text that is not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import regex

from takeaways.schemas.memories import Candidate, Lesson, Line, Memory, Section
from takeaways.schemas.secrets import find
from takeaways.workers.consolidation.offer import Offer
from takeaways.workers.models.answers import (
    Accounted,
    ConsolidationAnswer,
    CreateSection,
    DeleteSection,
    Fate,
    NewLine,
    ReplacedLine,
    UpdateSection,
)
from takeaways.workers.text.exact import exact_words, missing_words
from takeaways.workers.text.placeholders import is_placeholder
from takeaways.workers.text.plain import line_key, plain_gist, plain_line, plain_title, title_key

_LEAST_OF_A_LINE: Final = 0.5
_YOUNG_LINES: Final = 2
_LABEL: Final = regex.compile(r"[a-z]{1,2}[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class Guards:
    """How much one consolidation may take away: so many lines, or this share of all where that is more."""

    removals: int = 5
    removal_share: float = 0.3

    def most_removals(self, lines: int) -> int:
        return max(self.removals, int(lines * self.removal_share))


class Desk:
    """What an answer is about: the memory, the candidates, and what the labels of the offer stand for."""

    def __init__(self, memory: Memory, candidates: Iterable[Candidate], offer: Offer) -> None:
        by_id = {candidate.id: candidate for candidate in candidates}
        self.memory = memory
        self.offer = offer
        self.candidates = {label: by_id[id_] for label, id_ in offer.candidate_ids.items()}
        self.lines = {line.id: line for section in memory.sections for line in section.lines}
        self.home = {line.id: section.id for section in memory.sections for line in section.lines}
        self.line_labels = {id_: label for label, id_ in offer.lines.items()}
        self._sections = {section.id: section for section in memory.sections}

    def line(self, label: str | None) -> Line | None:
        return self.lines.get(self.offer.lines.get(label or "", ""))

    def section(self, label: str) -> Section | None:
        return self._sections.get(self.offer.sections.get(label, ""))


@dataclass(slots=True)
class Draft:
    """A section as the answer wants it. `label` is "" for a new one; a `gist` of None is not its business."""

    label: str
    title: str
    gist: str | None
    fresh: list[NewLine] = field(default_factory=list)


@dataclass(slots=True)
class Reviewed:
    """An answer taken apart. It may be applied when there are no `complaints`.

    `drafts` are the sections that it makes or edits. `replaced` and `removed` are by line id, `reasons` by
    the id of what goes, `instead` is what takes a removed line's place, by ids, `account` by candidate label.
    `repeated` are candidates of new lines that say what a line says already, by the label of that line.
    """

    complaints: list[str] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    replaced: dict[str, ReplacedLine] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    reasons: dict[str, str] = field(default_factory=dict)
    instead: dict[str, str] = field(default_factory=dict)
    account: dict[str, Accounted] = field(default_factory=dict)
    repeated: dict[str, list[str]] = field(default_factory=dict)

    def outlived(self, line: Line | None) -> bool:
        """Whether the line is replaced by something that rests on other candidates."""
        changed = self.replaced.get(line.id) if line else None
        return changed is not None and not changed.still_rests


def review(desk: Desk, answer: ConsolidationAnswer, guards: Guards) -> Reviewed:
    """Take the answer apart and complain about everything in it that breaks a rule, by label."""
    reviewer = _Reviewer(desk)
    if not answer.edits and not answer.account and desk.candidates:
        reviewer.complain(f"the answer is empty although {len(desk.candidates)} candidates wait")
        return reviewer.found
    for edit in answer.edits:
        if isinstance(edit, CreateSection):
            reviewer.create(edit)
        elif isinstance(edit, UpdateSection):
            reviewer.update(edit)
        else:
            reviewer.delete(edit)
    reviewer.titles()
    reviewer.repeats()
    reviewer.loss(guards)
    reviewer.removals(answer.account)
    _Accountant(desk, reviewer.found, _new_lines(answer)).check(answer.account)
    return reviewer.found


def _label(given: str | None) -> str:
    """A label as a complaint may show it. A model can put anything there, also words that somebody said."""
    return repr(given) if given is None or _LABEL.fullmatch(given) else "something that is no label"


def _new_lines(answer: ConsolidationAnswer) -> list[NewLine]:
    fresh = [line for edit in answer.edits if isinstance(edit, CreateSection) for line in edit.lines]
    updates = [edit for edit in answer.edits if isinstance(edit, UpdateSection)]
    return fresh + [line for edit in updates for line in (*edit.add, *edit.replace)]


Made = TypeVar("Made", bound=NewLine)


def _with(line: Made, same: NewLine) -> Made:
    """The line, resting on the candidates of one that says the same too."""
    return line.model_copy(update={"candidates": tuple(dict.fromkeys((*line.candidates, *same.candidates)))})


class _Reviewer:
    """Looks at the edits."""

    def __init__(self, desk: Desk) -> None:
        self.found = Reviewed()
        self._desk = desk
        self._edited: set[str] = set()

    def complain(self, complaint: str) -> None:
        self.found.complaints.append(complaint)

    def create(self, edit: CreateSection) -> None:
        where = f"new section {sum(not draft.label for draft in self.found.drafts) + 1}"
        gist = self._gist(edit.gist, where)
        draft = Draft("", self._title(edit.title, where), gist or None)
        draft.fresh = [line for line in edit.lines if self._stands(line, where)]
        self.found.drafts.append(draft)

    def update(self, edit: UpdateSection) -> None:
        section = self._section(edit.section)
        if section is None:
            return
        where = f"section {edit.section}"
        title = section.title if edit.title is None else self._title(edit.title, where)
        draft = Draft(edit.section, title, None if edit.gist is None else self._gist(edit.gist, where))
        draft.fresh = [line for line in edit.add if self._stands(line, where)]
        self.found.drafts.append(draft)
        for changed in edit.replace:
            line = self._line(changed.line, section)
            if line is not None and self._stands(changed, f"line {changed.line}", line):
                self.found.replaced[line.id] = changed
        for removed in edit.remove:
            line = self._line(removed.line, section)
            if line is not None:
                self._remove(line, removed.reason, removed.by)

    def delete(self, edit: DeleteSection) -> None:
        section = self._section(edit.section)
        if section is not None:
            self.found.reasons[section.id] = edit.reason
            for line in section.lines:
                self._remove(line, edit.reason)

    def titles(self) -> None:
        """A title is that of one section only."""
        drafted = {self._desk.offer.sections[draft.label] for draft in self.found.drafts if draft.label}
        left = [
            one for one in self._desk.memory.sections if one.id not in drafted | self.found.reasons.keys()
        ]
        titles = Counter(title_key(section.title) for section in left)
        titles.update(title_key(draft.title) for draft in self.found.drafts)
        for draft in self.found.drafts:
            if draft.title and titles[title_key(draft.title)] > 1:
                where = f"section {draft.label}" if draft.label else "a new section"
                self.complain(f"{where}: its title is that of another section")

    def repeats(self) -> None:
        """A section says nothing twice: a new line that repeats one makes that one rest on more.

        In another section the same words may be about something else.
        """
        for draft in self.found.drafts:
            section = self._desk.section(draft.label)
            standing: dict[tuple[str, Lesson], Line] = {}
            for line in section.lines if section else ():
                if line.id not in self.found.removed and line.id not in self.found.replaced:
                    standing[line_key(line.text), line.kind] = line
            changed: dict[tuple[str, Lesson], str] = {}
            for line in section.lines if section else ():
                if (now := self.found.replaced.get(line.id)) is None:
                    continue
                key = line_key(plain_line(now.text)), now.kind
                if key in standing or key in changed:
                    label = self._desk.line_labels[line.id]
                    self.complain(f"line {label} would say what another line of its section says")
                changed[key] = line.id
            fresh: dict[tuple[str, Lesson], NewLine] = {}
            for new in draft.fresh:
                key = line_key(plain_line(new.text)), new.kind
                if key in standing:
                    label = self._desk.line_labels[standing[key].id]
                    self.found.repeated.setdefault(label, []).extend(new.candidates)
                elif key in changed:
                    self.found.replaced[changed[key]] = _with(self.found.replaced[changed[key]], new)
                else:
                    fresh[key] = _with(fresh[key], new) if key in fresh else new
            draft.fresh = list(fresh.values())

    def loss(self, guards: Guards) -> None:
        """An answer takes little away, and never everything."""
        total = len(self._desk.lines)
        outlived = [
            one for id_, one in self.found.replaced.items() if self.found.outlived(self._desk.lines[id_])
        ]
        newer = {label for one in outlived for label in one.candidates}
        # One candidate may take the place of one line: what it replaces beyond that is loss.
        gone = len(self.found.removed) + max(0, len(outlived) - len(newer))
        if gone > (most := guards.most_removals(total)):
            self.complain(f"{gone} of {total} lines would be removed at once, at most {most} may be")
        if total and len(self.found.removed) == total and not any(draft.fresh for draft in self.found.drafts):
            self.complain("the memory would be empty")
        # Of a young memory a few lines are all that there is.
        bare = len(self.found.removed - self.found.instead.keys())
        if total > _YOUNG_LINES and len(self.found.removed) == total and bare > total / 2:
            self.complain(f"all {total} lines would go, and {bare} with nothing in their place")

    def _section(self, label: str) -> Section | None:
        """The section behind a label, or a complaint: there is none, or it was edited already."""
        section = self._desk.section(label)
        if section is None:
            self.complain(f"section {_label(label)} was not offered")
        elif section.id in self._edited:
            self.complain(f"section {label} is edited twice")
            return None
        else:
            self._edited.add(section.id)
        return section

    def _line(self, label: str, section: Section) -> Line | None:
        line = self._desk.line(label)
        if line is None:
            self.complain(f"line {_label(label)} was not offered")
        elif self._desk.home[line.id] != section.id:
            self.complain(f"line {label} stands in another section")
            return None
        elif line.id in self.found.replaced or line.id in self.found.removed:
            self.complain(f"line {label} is edited twice")
            return None
        return line

    def _stands(self, line: NewLine, where: str, before: Line | None = None) -> bool:
        """Whether a new line, or one in place of `before`, can stand; otherwise there is a complaint."""
        known = len(self.found.complaints)
        if is_placeholder(plain_line(line.text)):
            self.complain(f"{where}: a line is a placeholder for text that is not there")
        if find(line.text):
            self.complain(f"{where}: a line holds a secret")
        if unknown := [label for label in line.candidates if label not in self._desk.candidates]:
            self.complain(f"{where}: a line names {_label(unknown[0])}, which was not offered")
            return False
        made_from = [self._desk.candidates[label] for label in line.candidates]
        kinds = {candidate.kind for candidate in made_from}
        if before is not None:
            if before.pinned:
                self.complain(f"{where} is pinned and cannot be replaced")
            if max(candidate.said_at_ms for candidate in made_from) < before.said_at_ms:
                self.complain(f"{where} would be replaced by something that was said before it")
            if isinstance(line, ReplacedLine) and line.still_rests:
                kinds.add(before.kind)
                if len(plain_line(line.text)) < _LEAST_OF_A_LINE * len(before.text):
                    self.complain(f"{where} still rests on what it said, but most of that would be lost")
                # A candidate that gives a number or a name of its own may have changed that one.
                told = any(exact_words(candidate.text) for candidate in made_from)
                if not told and missing_words(before.text, line.text):
                    self.complain(
                        f"{where} still rests on what it said, but a number or a name of it is lost"
                    )
        if line.kind.needs_a_person and not any(kind.needs_a_person for kind in kinds):
            self.complain(f"{where}: a {line.kind} rests on nothing that a person asked for")
        return len(self.found.complaints) == known

    def _remove(self, line: Line, reason: str, by: str | None = None) -> None:
        label = self._desk.line_labels[line.id]
        if line.pinned:
            self.complain(f"line {label} is pinned and cannot be removed")
        if not reason.strip():
            self.complain(f"line {label} is removed without a reason")
        self.found.removed.add(line.id)
        self.found.reasons[line.id] = reason
        if by is not None:
            self._instead(line, label, by)

    def _instead(self, line: Line, label: str, by: str) -> None:
        """`by` is said to take the line's place: it is something else, was offered, and said no earlier."""
        other = self._desk.line(by) or self._desk.candidates.get(by)
        if other is None:
            self.complain(f"line {label} is removed for {_label(by)}, which was not offered")
        elif other.id == line.id:
            self.complain(f"line {label} is removed for itself")
        elif other.said_at_ms < line.said_at_ms:
            self.complain(f"line {label} is removed for {by}, which was said before it")
        else:
            self.found.instead[line.id] = other.id

    def removals(self, account: Iterable[Accounted]) -> None:
        """Nothing that is known gives way without a word to what was said before it or says the same."""
        merged = {entry.candidate for entry in account if entry.fate is Fate.MERGED}
        offered = [(label, one) for label, one in self._desk.candidates.items() if label in merged]
        for id_ in self.found.removed - self.found.instead.keys():
            line, label = self._desk.lines[id_], self._desk.line_labels[id_]
            if older := next((name for name, one in offered if one.said_at_ms < line.said_at_ms), None):
                self.complain(
                    f"line {label} is removed while {older}, said before it, is merged: say in `by` what,"
                    " said no earlier, takes its place, or keep it"
                )
        for id_ in self.found.removed:
            line, label = self._desk.lines[id_], self._desk.line_labels[id_]
            same = [name for name, one in self._desk.candidates.items() if plain_line(one.text) == line.text]
            if same and not merged.intersection(same):
                self.complain(f"line {label} is removed although {same[0]} says the same again")

    def _title(self, text: str, where: str) -> str:
        title = plain_title(text)
        if is_placeholder(title):
            self.complain(f"{where}: its title says nothing")
        if find(title):
            self.complain(f"{where}: its title holds a secret")
        return title

    def _gist(self, text: str, where: str) -> str:
        gist = plain_gist(text)
        if gist and is_placeholder(gist):
            self.complain(f"{where}: its gist is a placeholder for text that is not there")
        if find(gist):
            self.complain(f"{where}: its gist holds a secret")
        return gist


class _Accountant:
    """Looks at the account: every candidate once, and as the edits say."""

    def __init__(self, desk: Desk, found: Reviewed, new_lines: list[NewLine]) -> None:
        self._desk = desk
        self._found = found
        self._named = {label for line in new_lines for label in line.candidates}

    def check(self, account: tuple[Accounted, ...]) -> None:
        known = len(self._found.complaints)
        for entry in account:
            if entry.candidate not in self._desk.candidates:
                self._complain(f"candidate {_label(entry.candidate)} was not offered")
            elif entry.candidate in self._found.account:
                self._complain(f"candidate {entry.candidate} is accounted for twice")
            else:
                self._found.account[entry.candidate] = entry
        for label in self._desk.candidates:
            self._check_presence(label, self._found.account.get(label))
        if len(self._found.complaints) == known:  # what follows takes a whole account for granted
            for entry in account:
                self._check_fate(entry)
            self._check_what_stays()

    def _complain(self, complaint: str) -> None:
        self._found.complaints.append(complaint)

    def _check_presence(self, label: str, entry: Accounted | None) -> None:
        if entry is None:
            self._complain(f"candidate {label} is not accounted for")
        elif entry.fate is Fate.MERGED and label not in self._named:
            self._complain(f"candidate {label} is called merged, but no line names it")
        elif entry.fate is not Fate.MERGED and label in self._named:
            self._complain(f"candidate {label} is called {entry.fate}, but a line names it")

    def _check_fate(self, entry: Accounted) -> None:
        if entry.fate is Fate.DROPPED and not entry.reason.strip():
            self._complain(f"candidate {entry.candidate} is dropped without a reason")
        if entry.fate not in (Fate.DUPLICATE, Fate.SUPERSEDED):
            return
        line = self._desk.line(entry.by)
        if line is not None:
            self._check_by_line(entry, line)
        elif entry.by not in self._desk.candidates:
            self._complain(
                f"candidate {entry.candidate} is {entry.fate} by {_label(entry.by)}, which was not offered"
            )
        elif self._turns_in_a_circle(entry):
            self._complain(f"candidate {entry.candidate} is {entry.fate} by itself")
        else:
            self._check_by_candidate(entry, entry.by)

    def _check_by_line(self, entry: Accounted, line: Line) -> None:
        if line.id in self._found.removed:
            self._complain(f"candidate {entry.candidate} is {entry.fate} by {entry.by}, which is removed")
        gives_way = entry.fate is Fate.SUPERSEDED or self._found.outlived(line)
        if gives_way and self._said_at(entry.candidate) > self._will_be_said_at(line):
            self._complain(f"candidate {entry.candidate} was said after {entry.by} and cannot give way to it")

    def _check_by_candidate(self, entry: Accounted, by: str) -> None:
        if self._found.account[by].fate is Fate.DROPPED:
            self._complain(f"candidate {entry.candidate} is {entry.fate} by {by}, which is dropped")
        if entry.fate is Fate.SUPERSEDED and self._said_at(entry.candidate) > self._said_at(by):
            self._complain(f"candidate {entry.candidate} was said after {by} and cannot give way to it")

    def _check_what_stays(self) -> None:
        """What takes the place of a removed line is there afterwards: else both would be lost."""
        labels = {id_: label for label, id_ in self._desk.offer.candidate_ids.items()}
        for id_, by in self._found.instead.items():
            label = self._desk.line_labels[id_]
            if by in labels and self._found.account[labels[by]].fate is Fate.DROPPED:
                self._complain(f"line {label} is removed for {labels[by]}, which is dropped")
            elif self._is_lost(by):
                other = self._desk.line_labels[by]
                self._complain(f"line {label} is removed for {other}, which is removed too")

    def _is_lost(self, line_id: str) -> bool:
        """Whether a line goes without anything in its place, or in a circle."""
        seen: set[str] = set()
        while line_id in self._found.removed:
            if line_id in seen or line_id not in self._found.instead:
                return True
            seen.add(line_id)
            line_id = self._found.instead[line_id]
        return False

    def _said_at(self, label: str) -> int:
        return self._desk.candidates[label].said_at_ms

    def _will_be_said_at(self, line: Line) -> int:
        """When what the line is going to say was said."""
        changed = self._found.replaced.get(line.id)
        made_from = changed.candidates if changed else ()
        return max([line.said_at_ms, *map(self._said_at, made_from)])

    def _turns_in_a_circle(self, entry: Accounted) -> bool:
        seen: set[str] = set()
        following: Accounted | None = entry
        while following is not None and following.fate in (Fate.DUPLICATE, Fate.SUPERSEDED):
            if following.candidate in seen:
                return True
            seen.add(following.candidate)
            following = self._found.account.get(following.by or "")
        return False
