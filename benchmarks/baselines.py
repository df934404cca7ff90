"""What a memory must beat: ways of keeping lines that understand nothing of what they keep.

Tokens are characters / 4, the speaker's name included. Each line is taken as long as it fits.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.locomo import Conversation, MemoryLine, content_words

SEEDS: Final = 10
_WORD: Final = re.compile(r"[a-z0-9]+")

Lines = Sequence[MemoryLine]


@dataclass(frozen=True, slots=True)
class Baseline:
    """`orders` puts the lines in the order in which they are kept, once for each seed.

    `made_by_a_model` says that its lines are a language model's work.
    """

    name: str
    lines: Callable[[Conversation], Lines]
    orders: Callable[[Lines], Iterable[Lines]]
    made_by_a_model: bool = False


def kept(ordered: Lines, budget_tokens: int) -> list[MemoryLine]:
    """The lines that fit, in their order; a line that does not fit is passed over."""
    taken, tokens = [], 0.0
    for line in ordered:
        cost = len(line.text) / 4
        if tokens + cost <= budget_tokens:
            taken.append(line)
            tokens += cost
    return taken


def _turns(conversation: Conversation) -> Lines:
    return [MemoryLine(f"{turn.speaker}: {turn.text}", frozenset({turn.id})) for turn in conversation.turns]


def _sentences(conversation: Conversation) -> Lines:
    return [
        MemoryLine(f"{turn.speaker}: {sentence}", frozenset({turn.id}))
        for turn in conversation.turns
        for sentence in re.split(r"(?<=[.!?])\s+", turn.text)
        if sentence.strip()
    ]


def _observations(conversation: Conversation) -> Lines:
    return conversation.observations


def _shuffled(lines: Lines) -> Iterable[Lines]:
    for seed in range(SEEDS):
        yield random.Random(seed).sample(lines, len(lines))


def _shortest_first(lines: Lines) -> Iterable[Lines]:
    yield sorted(lines, key=lambda line: len(line.text))


def _newest_first(lines: Lines) -> Iterable[Lines]:
    yield lines[::-1]


def _by_tf_idf(lines: Lines) -> Iterable[Lines]:
    """The sum of the inverse document frequencies of a line's words, by the square root of its tokens."""
    words = {line: set(_WORD.findall(line.text.lower())) for line in lines}
    lines_with = Counter(word for line in lines for word in words[line])

    def value(line: MemoryLine) -> float:
        rarity = sum(math.log(len(lines) / lines_with[word]) for word in content_words(line.text))
        return rarity / math.sqrt(max(1.0, len(line.text) / 4))

    yield sorted(lines, key=value, reverse=True)


BASELINES: Final = (
    Baseline("random turns", _turns, _shuffled),
    Baseline("turns by tf-idf", _turns, _by_tf_idf),
    Baseline("shortest sentences", _sentences, _shortest_first),
    Baseline("random sentences", _sentences, _shuffled),
    Baseline("newest sentences", _sentences, _newest_first),
    Baseline("sentences by tf-idf", _sentences, _by_tf_idf),
    Baseline("model-made observations, random", _observations, _shuffled, made_by_a_model=True),
    Baseline("model-made observations by tf-idf", _observations, _by_tf_idf, made_by_a_model=True),
)
