"""LoCoMo (snap-research/locomo): two people talk over months, and questions name the turns that answer them.

How a memory is scored: **supported answer words**, the share of the content words of a gold answer that
stand in memory lines made from the very turns that the question names, mean over questions. **Evidence
recall**, the share of those turns that any line is made from, can be gamed by keeping the shortest sentences,
so it comes second. Questions about time (category 2) and without an answer (5) do not count.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

WHERE: Final = "LoCoMo is in snap-research/locomo on GitHub (CC BY-NC 4.0); it is not ours to ship."
CATEGORIES: Final = (1, 3, 4)
_TURN_ID: Final = re.compile(r"D\d+:\d+")
_WORD: Final = re.compile(r"[a-z0-9]+")
_FUNCTION_WORDS: Final = frozenset(
    word
    for line in (
        "a an the and or of to in on at for with by from is are was were be been it its this that these",
        "those he she they them his her their i you we my your our me him us as not no do does did have has",
        "had will would can could should may might must so if then than but about into over after before",
        "again out up down off who whom which what when where why how all any both each few more most other",
        "some such only own same too very s t just",
    )
    for word in line.split()
)


@dataclass(frozen=True, slots=True)
class Turn:
    id: str
    speaker: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """`answer` holds the content words of the gold answer, `evidence` the ids of the turns it stands in."""

    answer: frozenset[str]
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """A line of a memory, and the turns that it was made from: at most two."""

    text: str
    turns: frozenset[str]


@dataclass(frozen=True, slots=True)
class Score:
    supported: float
    recall: float


@dataclass(frozen=True, slots=True)
class Conversation:
    """`observations` are facts that a language model took from the turns; they come with the data."""

    name: str
    file: Path
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]
    observations: tuple[MemoryLine, ...]


def conversations(folder: Path) -> tuple[Conversation, ...]:
    """The conversations in `folder`, by name; none where there are none."""
    return tuple(_read(file) for file in sorted(folder.glob("conv-*.json")))


def content_words(text: str) -> frozenset[str]:
    """The words that an answer is compared by: lower case, without function words."""
    return frozenset(_WORD.findall(text.lower())) - _FUNCTION_WORDS


def scores(lines: Iterable[MemoryLine], questions: Iterable[Question]) -> list[Score]:
    """One score for each question that has an answer in words."""
    said: dict[str, frozenset[str]] = defaultdict(frozenset)
    for line in lines:
        words = content_words(line.text)
        for turn in line.turns:
            said[turn] |= words
    return [_score(said, question) for question in questions if question.answer]


def _score(said: dict[str, frozenset[str]], question: Question) -> Score:
    supported = frozenset[str]().union(*(said.get(turn, frozenset()) for turn in question.evidence))
    found = sum(turn in said for turn in question.evidence)
    return Score(
        supported=len(question.answer & supported) / len(question.answer),
        recall=found / len(question.evidence),
    )


def _read(file: Path) -> Conversation:
    data = json.loads(file.read_text(encoding="utf-8"))
    return Conversation(
        name=file.stem,
        file=file,
        turns=tuple(_turns(data["conversation"])),
        questions=tuple(_questions(data["qa"])),
        observations=tuple(_observations(data.get("observation", {}))),
    )


def _turns(conversation: dict[str, Any]) -> Iterable[Turn]:
    numbers = sorted(int(key[8:]) for key in conversation if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        for turn in conversation[f"session_{number}"]:
            yield Turn(turn["dia_id"], turn["speaker"], turn["text"])


def _questions(asked: list[dict[str, Any]]) -> Iterable[Question]:
    for question in asked:
        evidence = tuple(dict.fromkeys(_TURN_ID.findall(" ".join(map(str, question.get("evidence") or ())))))
        if question["category"] in CATEGORIES and evidence:
            yield Question(content_words(str(question["answer"])), evidence)


def _observations(observed: dict[str, dict[str, list[list[Any]]]]) -> Iterable[MemoryLine]:
    for by_speaker in observed.values():
        for facts in by_speaker.values():
            for fact, turns in facts:
                yield MemoryLine(fact, frozenset(_TURN_ID.findall(str(turns))))
