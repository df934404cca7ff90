"""One line that says what a section holds, for the index at the start of a conversation."""

from __future__ import annotations

from collections import Counter
from typing import Final

from takeaways.schemas.memories import Lesson
from takeaways.schemas.words import is_common, plain_words, stem, telling_words
from takeaways.workers.text.placeholders import is_placeholder

_MAX_CHARS: Final = 120
_FEW_LINES: Final = 2
_KEYWORDS: Final = 6


def gist(lines: tuple[tuple[Lesson, str], ...]) -> str:
    """What must be obeyed is told as it is; a section of facts by its commonest specific words."""
    orders = [text for kind, text in lines if kind.must_obey]
    told = orders or ([text for _, text in lines] if len(lines) <= _FEW_LINES else [])
    if told:
        return _clipped("; ".join(told))
    keywords = ", ".join(_keywords(tuple(text for _, text in lines)))
    return "" if is_placeholder(keywords) else _clipped(keywords)


def _keywords(texts: tuple[str, ...]) -> list[str]:
    """Words as they are written in the lines, those in most lines first."""
    counts: Counter[str] = Counter()
    surface: dict[str, str] = {}
    for text in texts:
        telling = [word for word in telling_words(text) if not is_common(word) and len(word) > 2]
        counts.update(telling)
        for word in plain_words(text):
            surface.setdefault(stem(word), word)
    ranked = sorted(counts, key=lambda word: -counts[word])
    return [surface.get(word, word) for word in ranked[:_KEYWORDS]]


def _clipped(text: str) -> str:
    if len(text) <= _MAX_CHARS:
        return text
    return text[: _MAX_CHARS - 1].rsplit(" ", 1)[0].rstrip(" ,;") + "…"
