"""Merging candidates into the memory: restatements strengthen a line, what was said later replaces it.

Every candidate is accounted for, and nothing is replaced by something that was said before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from takeaways.schemas.memories import Lesson
from takeaways.workers.models.answers import (
    Accounted,
    ConsolidationAnswer,
    CreateSection,
    Edit,
    Fate,
    NewLine,
    ReplacedLine,
    UpdateSection,
)
from takeaways.workers.models.offline.gists import gist
from takeaways.workers.models.offline.likeness import Said, contradicts, overlap, repeats, said
from takeaways.workers.models.offline.topics import GENERAL
from takeaways.workers.models.requests import ConsolidationRequest, OfferedCandidate
from takeaways.workers.text.placeholders import is_placeholder
from takeaways.workers.text.plain import plain_title, title_key

Same = Callable[[str, str], bool]
_CLOSE: Final = 0.4


@dataclass(slots=True)
class _Row:
    """A line as it will stand: `line` labels what it was, `candidates` are what it is newly made of."""

    kind: Lesson
    text: str
    said_at_ms: int
    facts: Said
    line: str = ""
    pinned: bool = False
    candidates: list[str] = field(default_factory=list)

    @property
    def untouched(self) -> bool:
        return bool(self.line) and not self.candidates


@dataclass(slots=True)
class _Section:
    title: str
    gist: str = ""
    label: str = ""
    rows: list[_Row] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return any(row.candidates for row in self.rows)


def merge(request: ConsolidationRequest, same: Same | None = None) -> ConsolidationAnswer:
    """Edits that bring the candidates in. `same` is a second opinion on whether two texts say the same."""
    desk = _Desk(request, same)
    for candidate in sorted(request.candidates, key=lambda c: c.said_at_ms):
        desk.take(candidate)
    return ConsolidationAnswer(edits=tuple(desk.edits()), account=tuple(desk.account.values()))


class _Desk:
    """The memory while candidates are laid on it, with an index from words to the rows that hold them."""

    def __init__(self, request: ConsolidationRequest, same: Same | None) -> None:
        self._same = same
        self._sections: dict[str, _Section] = {}
        self._by_word: dict[str, dict[int, _Row]] = {}
        self.account: dict[str, Accounted] = {}
        for offered in request.sections:
            section = _Section(offered.title, offered.gist, offered.label)
            self._sections[title_key(plain_title(offered.title))] = section
            for line in offered.lines:
                facts = said(line.kind, line.text, offered.title)
                row = _Row(line.kind, line.text, line.said_at_ms, facts, line.label, line.pinned)
                self._put(section, row)

    def take(self, candidate: OfferedCandidate) -> None:
        facts = said(candidate.kind, candidate.text, candidate.topic)
        near = self._near(facts)
        for row in near:
            if contradicts(facts, row.facts) and not row.pinned:
                self._supersede(row, candidate, facts)
                return
            if contradicts(row.facts, facts) and row.said_at_ms > candidate.said_at_ms:
                by = row.candidates[0] if row.candidates else row.line
                self._close(candidate.label, Fate.SUPERSEDED, by, "something said later says otherwise")
                return
        for row in near:
            if repeats(facts, row.facts) or self._alike(candidate, facts, row):
                self._strengthen(row, candidate)
                return
        section = self._section(candidate.topic)
        row = _Row(candidate.kind, candidate.text, candidate.said_at_ms, facts, candidates=[candidate.label])
        self._put(section, row)
        self._close(candidate.label, Fate.MERGED)

    def edits(self) -> Iterable[Edit]:
        for section in self._sections.values():
            if not section.changed:
                continue
            summary = gist(tuple((row.kind, row.text) for row in section.rows))
            fresh = tuple(
                NewLine(kind=row.kind, text=row.text, candidates=tuple(row.candidates))
                for row in section.rows
                if not row.line
            )
            if not section.label:
                yield CreateSection(title=section.title, gist=summary, lines=fresh)
                continue
            replaced = tuple(
                ReplacedLine(kind=row.kind, text=row.text, candidates=tuple(row.candidates), line=row.line)
                for row in section.rows
                if row.line and row.candidates
            )
            changed_gist = summary if summary != section.gist else None
            yield UpdateSection(section=section.label, gist=changed_gist, add=fresh, replace=replaced)

    def _section(self, topic: str) -> _Section:
        """The section of that title. Titles that differ only in case would be refused."""
        title = plain_title(topic)
        if is_placeholder(title):
            title = GENERAL
        return self._sections.setdefault(title_key(title), _Section(title))

    def _put(self, section: _Section, row: _Row) -> None:
        section.rows.append(row)
        self._index(row)

    def _index(self, row: _Row) -> None:
        for word in row.facts.keys:
            self._by_word.setdefault(word, {})[id(row)] = row

    def _near(self, facts: Said) -> list[_Row]:
        """The rows that share telling words with it, of the same person; most shared words first."""
        shared: dict[int, int] = {}
        rows: dict[int, _Row] = {}
        for word in facts.keys:
            for key, row in self._by_word.get(word, {}).items():
                if word in row.facts.keys and row.facts.owner == facts.owner:
                    shared[key] = shared.get(key, 0) + 1
                    rows[key] = row
        order = {key: at for at, key in enumerate(rows)}
        ranked = sorted(
            rows, key=lambda key: (-shared[key], rows[key].said_at_ms, rows[key].text, order[key])
        )
        return [rows[key] for key in ranked]

    def _alike(self, candidate: OfferedCandidate, facts: Said, row: _Row) -> bool:
        other = row.facts
        agree = (facts.numbers, facts.names, facts.negated) == (other.numbers, other.names, other.negated)
        close = agree and overlap(facts.words, row.facts.words) >= _CLOSE
        return close and self._same is not None and self._same(candidate.text, row.text)

    def _strengthen(self, row: _Row, candidate: OfferedCandidate) -> None:
        if row.untouched:
            self._close(candidate.label, Fate.DUPLICATE, row.line)
        else:
            row.candidates.append(candidate.label)
            self._close(candidate.label, Fate.MERGED)

    def _supersede(self, row: _Row, candidate: OfferedCandidate, facts: Said) -> None:
        """Candidates come in the order in which they were said, so only a line can have been said later."""
        if row.said_at_ms > candidate.said_at_ms:
            by = row.candidates[0] if row.candidates else row.line
            self._close(candidate.label, Fate.SUPERSEDED, by, "something said later says otherwise")
            return
        for earlier in row.candidates:
            self._close(earlier, Fate.SUPERSEDED, candidate.label, "something said later says otherwise")
        row.kind, row.text, row.said_at_ms, row.facts = (
            candidate.kind,
            candidate.text,
            candidate.said_at_ms,
            facts,
        )
        row.candidates = [candidate.label]
        self._index(row)
        self._close(candidate.label, Fate.MERGED)

    def _close(self, label: str, fate: Fate, by: str | None = None, reason: str = "") -> None:
        self.account[label] = Accounted(candidate=label, fate=fate, by=by, reason=reason)
