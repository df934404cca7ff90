"""What a session was about, in the words of its own lessons: bounded however long the room lives."""

from __future__ import annotations

from typing import Final

from takeaways.schemas.text import one_line
from takeaways.schemas.words import telling_words, weight
from takeaways.workers.models.offline import cues
from takeaways.workers.models.offline.sentences import sentences
from takeaways.workers.models.offline.wording import shortened
from takeaways.workers.models.requests import RoomPart, Source

MAX_CHARS: Final = 1_200
_NEW_SENTENCES: Final = 5


def session_summary(part: RoomPart, lessons: tuple[str, ...]) -> str:
    """The previous summary, its beginning dropped where it grew too long, and the weightiest new lessons."""
    kept = [line for line in part.previous_summary.splitlines() if line.strip()]
    new = _weightiest(lessons) or _opening(part)
    for text in new:
        if text not in kept:
            kept.append(text)
    while len("\n".join(kept)) > MAX_CHARS and len(kept) > 1:
        kept.pop(0)
    return "\n".join(kept)[:MAX_CHARS]


def _weightiest(texts: tuple[str, ...]) -> tuple[str, ...]:
    ranked = sorted(range(len(texts)), key=lambda at: (-sum(map(weight, telling_words(texts[at]))), at))
    return tuple(texts[at][:300] for at in sorted(ranked[:_NEW_SENTENCES]))


def _opening(part: RoomPart) -> tuple[str, ...]:
    """A room without lessons is about what was first asked in it."""
    for excerpt in part.excerpts:
        if excerpt.author.kind == "person":
            for sentence in sentences(excerpt.text(Source.SPOKEN)):
                if not cues.must_not_be_kept(sentence) and telling_words(sentence):
                    return (one_line(shortened(sentence))[:300],)
    return ()
