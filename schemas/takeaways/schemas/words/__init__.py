"""Which words of a line say something of their own.

Two lines are compared, and a line is weighed, by its telling words: lower case, English endings taken off,
function words left out. Scripts that are written without spaces give pairs of characters.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

import regex

_WORD: Final = regex.compile(r"[\p{L}\p{M}\p{N}](?:[\p{L}\p{M}\p{N}\u200c\u200d'’._/-]*[\p{L}\p{M}\p{N}])?")
_UNSPACED: Final = regex.compile(
    r"[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}"
    r"\p{Script=Myanmar}ー]+"
)
_CONTRACTION: Final = regex.compile(r"(?:n['’]t|['’](?:s|m|re|ve|d|ll))$")
_ENDINGS: Final = ("ingly", "edly", "ings", "ing", "ies", "ed", "es", "ly", "s")
COMMON_SHARE: Final = 0.3


@cache
def _common() -> frozenset[str]:
    return frozenset(map(stem, _listed("common_words.txt")))


@cache
def _listed(name: str) -> frozenset[str]:
    return frozenset(files(__package__).joinpath(name).read_text(encoding="utf-8").split())


@cache
def stem(word: str) -> str:
    """`word` without its English ending. Words of other scripts, and short ones, stay as they are."""
    if not word.isascii() or not word.isalpha():
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            if ending == "s" and word.endswith("ss"):
                return word
            root = word[: -len(ending)] + ("y" if ending == "ies" else "")
            return root[:-1] if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "aeiouls" else root
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def plain_words(text: str) -> tuple[str, ...]:
    """Every word of `text` in lower case and in order, function words included."""
    return tuple(found.group().lower().replace("’", "'") for found in _WORD.finditer(text))


def telling_words(text: str) -> tuple[str, ...]:
    """The words that say something, each once, in order; comparable between lines."""
    found: dict[str, None] = {}
    function_words = _listed("function_words.txt")
    for word in plain_words(text):
        if _UNSPACED.search(word):
            for run in _UNSPACED.findall(word):
                found.update(dict.fromkeys(run[at : at + 2] for at in range(max(1, len(run) - 1))))
            word = _UNSPACED.sub("", word)
        bare = _CONTRACTION.sub("", word)
        if bare and bare not in function_words and (len(bare) > 1 or bare.isdigit()):
            found[stem(bare)] = None
    return tuple(found)


def is_common(word: str) -> bool:
    """Whether the (stemmed) word is one that everybody says about everything."""
    return word in _common()


def weight(word: str) -> float:
    """How much of what a line says lies in this word: 1 for a specific one, less for a common one."""
    return COMMON_SHARE if is_common(word) else 1.0
