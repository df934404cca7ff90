"""A model that answers with facts that were written down before, so that every loss is the pipeline's own.

LoCoMo comes with observations that a language model took from its turns. Read a turn, and the facts that
name it are learned; merge, and each is a line, or strengthens the line that says the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.locomo import MemoryLine
from takeaways.schemas.memories import Lesson
from takeaways.workers.models.answers import (
    Accounted,
    ConsolidationAnswer,
    CreateSection,
    Edit,
    ExtractionAnswer,
    Fate,
    Learned,
    NewLine,
    Quote,
    RoomLearned,
    UpdateSection,
)
from takeaways.workers.models.requests import ConsolidationRequest, ExtractionRequest, RoomPart, Source
from takeaways.workers.models.seam import Answered, Call
from takeaways.workers.testing import ScriptedModel
from takeaways.workers.text.plain import plain_line

TOLD_AGAIN: Final = "again:"
_TOPIC: Final = "What they told"
_QUOTE_CHARS: Final = 200


class ReplayModel(ScriptedModel):
    """`observations` are matched by the ids of their turns, what is told again by its number among them."""

    def __init__(self, observations: Sequence[MemoryLine]) -> None:
        super().__init__(window=1_000_000)
        self._observations = observations
        self._of_turn: Mapping[str, list[MemoryLine]] = _by_last_turn(observations)

    def extract(self, request: ExtractionRequest, call: Call) -> Answered[ExtractionAnswer]:
        self.then_extract(self._learn)
        return super().extract(request, call)

    def consolidate(self, request: ConsolidationRequest, call: Call) -> Answered[ConsolidationAnswer]:
        self.then_consolidate(_merge)
        return super().consolidate(request, call)

    def _learn(self, request: ExtractionRequest) -> ExtractionAnswer:
        return ExtractionAnswer(rooms=tuple(map(self._room, request.rooms)))

    def _room(self, room: RoomPart) -> RoomLearned:
        labels = {one.message_id: one.label for one in room.excerpts}
        quotes = {one.label: one.text(Source.SPOKEN).strip()[:_QUOTE_CHARS] for one in room.excerpts}
        found = []
        for one in room.excerpts:
            for fact in self._facts(one.message_id):
                turns = sorted((fact.turns - {one.message_id}) & labels.keys())
                evidence = [labels[turn] for turn in turns] + [one.label]
                found.append(
                    Learned(
                        kind=Lesson.FACT,
                        topic=_TOPIC,
                        text=fact.text,
                        evidence=tuple(
                            Quote(message=label, quote=quotes[label]) for label in evidence if quotes[label]
                        ),
                    )
                )
        return RoomLearned(room=room.label, summary=f"{len(found)} facts.", candidates=tuple(found))

    def _facts(self, message_id: str) -> list[MemoryLine]:
        if message_id.startswith(TOLD_AGAIN):
            return [self._observations[int(message_id.removeprefix(TOLD_AGAIN))]]
        return self._of_turn.get(message_id, [])


def _by_last_turn(observations: Sequence[MemoryLine]) -> dict[str, list[MemoryLine]]:
    """A fact is learned when the last of its turns is read, so that the others were read before."""
    found: dict[str, list[MemoryLine]] = defaultdict(list)
    for fact in observations:
        if fact.turns:
            found[max(fact.turns, key=_place)].append(fact)
    return found


def _place(turn: str) -> tuple[int, int]:
    session, _, number = turn.removeprefix("D").partition(":")
    return int(session), int(number)


def _fact(text: str) -> str:
    """Without the day that the pipeline adds where a text speaks of "last week"."""
    return plain_line(text).partition(" (said on ")[0]


def _merge(request: ConsolidationRequest) -> ConsolidationAnswer:
    known = {_fact(line.text): line.label for section in request.sections for line in section.lines}
    fresh: list[NewLine] = []
    account: list[Accounted] = []
    for one in request.candidates:
        text = plain_line(one.text)
        if label := known.get(_fact(text)):
            account.append(Accounted(candidate=one.label, fate=Fate.DUPLICATE, by=label))
            continue
        known[_fact(text)] = one.label
        fresh.append(NewLine(kind=one.kind, text=text, candidates=(one.label,)))
        account.append(Accounted(candidate=one.label, fate=Fate.MERGED))
    edits: list[Edit] = []
    if fresh and request.sections:
        edits.append(UpdateSection(section=request.sections[0].label, add=tuple(fresh)))
    elif fresh:
        edits.append(CreateSection(title=_TOPIC, gist="", lines=tuple(fresh)))
    return ConsolidationAnswer(edits=tuple(edits), account=tuple(account))
