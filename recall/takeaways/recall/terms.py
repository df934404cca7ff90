"""Words for searching, cut alike for the text that is searched and for the question, on every database.

Databases differ in what they take for a word. So both get words that are cut here: folded in case and width, without
punctuation and without marks on letters, and with each character as a word of its own in scripts that put no spaces
between words.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import Final

_WORD = re.compile(r"[^\W_]+")
# Chinese, Japanese and Korean; Thai, Lao, Burmese and Khmer.
_SINGLE = re.compile(
    "[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
)
# Words that stand in most English sentences and tell none apart.
_STOP: Final = frozenset(
    """a about an and any are as at be been but by can could did do does for from had has have how i if in is it
    its me my of on or our so than that the their them then there these they this those to us was we were what when
    where which who why will with would you your""".split()  # noqa: SIM905 - read as prose
)
MOST_WORDS: Final = 32
_PAIR: Final = 2


def words(text: str) -> str:
    """`text` as the words that are indexed, with spaces between."""
    if text.isascii():  # as most is; the rest costs ten times as much
        return " ".join(_WORD.findall(text.lower()))
    plain = unicodedata.normalize("NFKD", text).casefold()
    # All marks, the vowels of Hindi and Thai too: databases cut words at them.
    plain = "".join(character for character in plain if unicodedata.category(character)[0] != "M")
    plain = unicodedata.normalize("NFC", plain)
    return " ".join(
        _SINGLE.sub(lambda one: f" {one.group()} ", word) for word in _WORD.findall(plain)
    ).strip()


def phrases(question: str) -> list[tuple[str, ...]]:
    """What is looked for: single words, and in scripts without spaces pairs of characters as phrases.

    A whole question is one run there, which stands nowhere as it was asked; most pairs of the right line do.
    """
    found: dict[tuple[str, ...], None] = {}
    for part in question.split():
        run: list[str] = []
        for word in words(part).split():
            if _SINGLE.fullmatch(word):
                run.append(word)
                continue
            found.update(_pairs(run))
            run = []
            found[(word,)] = None
        found.update(_pairs(run))
    telling = [phrase for phrase in found if phrase[0] not in _STOP]
    return (telling or list(found))[:MOST_WORDS]


def _pairs(run: list[str]) -> dict[tuple[str, ...], None]:
    if len(run) <= _PAIR:
        return {tuple(run): None} if run else {}
    return dict.fromkeys(pairwise(run))
