"""Whether a person's words can carry a rule, a correction or a preference that is said to be theirs.

A model that was talked round by a page quotes the person truly and lays the page's order under it. So what must
come from a person shares words with what they said, and sends nothing to an address that they did not name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import regex

from takeaways.schemas.words import is_common, telling_words

_ADDRESS: Final = regex.compile(
    r"[a-z][a-z0-9+.-]*://[^\s\"'<>)\]]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b(?:[\w-]+\.)+(?:com|net|org|io|dev|app|test|"
    r"example|info|biz|xyz|top|site|online|cloud|ai|co|me|ru|cn|de|eu)\b",
    regex.IGNORECASE,
)
_WISH: Final = regex.compile(
    r"\b(?:always|never|from now on|going forward|in future|prefer|like|love|hate|dislike|want|wish|rather|please|"
    r"don't|do not|stop|no longer|instead|not|no|wrong|incorrect|actually|must|should|need|only|keep|make sure|"
    r"remember|immer|nie|bitte|lieber|nicht|toujours|jamais|plutôt|pas|siempre|nunca|mejor)\b",
    regex.IGNORECASE,
)
_ASSENT: Final = regex.compile(
    r"^\W*(?:yes|yep|yeah|yup|sure|correct|exactly|right|agreed|please do|do (?:it|that|so)|ja|jawohl|genau|oui|exact|"
    r"sí|claro|exacto|sim|да|так|はい|ええ|そうです|네|예|对|是的|好的|כן|نعم|بله|हाँ|हां|ใช่)(?!\p{L})",
    regex.IGNORECASE,
)
_SENTENCE: Final = regex.compile(r"[^.!?。！？؟\n]++[.!?。！？؟]*+")
_QUESTION: Final = regex.compile(r"[?？؟]\s*$")
_FOR_GOOD: Final = regex.compile(
    r"\b(?:always|never|from now on|going forward|every time|by default|please|immer|nie|toujours|"
    r"jamais|siempre|nunca)\b",
    regex.IGNORECASE,
)
_SHORT: Final = 2  # "ok" is shared by everything
_TRAILING: Final = "/.,;:!?"


def can_carry(spoken: Collection[str], text: str, asked: Collection[str] = ()) -> bool:
    """Whether what persons said (`spoken`, whole messages) supports `text` as theirs.

    Who says yes has said what they were `asked`.
    """
    texts = (*spoken, *(asked if any(map(_ASSENT.match, spoken)) else ()))
    folded = "\n".join(texts).casefold()
    if any(address not in folded for address in _addresses(text)):
        return False
    said = " ".join(_stated(texts, asked))
    if _WISH.search(said):
        return True  # the model may have worded it anew
    words = set(telling_words(said))
    if text.isascii() != said.isascii():
        return any(not is_common(word) for word in words)  # in another language
    shared = words & set(telling_words(text))
    return any(len(word) > _SHORT or not word.isascii() for word in shared)


def _stated(texts: Collection[str], asked: Collection[str]) -> Iterator[str]:
    """What the texts state: a question orders nothing, unless it asks for something for good or was answered yes."""
    for text in texts:
        for sentence in _SENTENCE.findall(text):
            if text in asked or not _QUESTION.search(sentence) or _FOR_GOOD.search(sentence):
                yield sentence


def _addresses(text: str) -> list[str]:
    return [found.group().rstrip(_TRAILING).casefold() for found in _ADDRESS.finditer(text)]
