"""Saying a sentence in fewer words of its own: nothing is added, and no negation, number or name is lost."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Final

import regex

from takeaways.schemas.text import one_line
from takeaways.schemas.words import is_common, telling_words

_INTERJECTION: Final = (
    r"hey|hi|hello|wow|whoa|woah|yeah|yep|yup|yes|yay|oh|ah+|aw+|haha+|lol|well|ok|okay|sure|totally|cool|"
    r"nice|absolutely|definitely|exactly|of course|hmm+|awesome|great|congrats|congratulations|honestly|"
    r"thanks(?: so much| a lot| a bunch)?|thank you(?: so much)?|actually|anyway|by the way|btw|gosh|"
    r"oh my(?: gosh| god)?|guess what|you know|i mean|right|agreed|unfortunately|please note that|note that|"
    r"since (?:we|our) last (?:spoke|talked|chatted|met|chat|talk)|fyi|and|but|so|also|plus|however|"
    r"for sure|no way|same here|good question|to be honest|tbh"
)
_PLAIN_WORD: Final = regex.compile(r"\p{Ll}+(?:['’]\p{Ll}+)?(?=[\s,;:!?]|$)")
_CONNECTIVE: Final = regex.compile(r"^(?:but|and|so) (?=\p{L})", regex.IGNORECASE)
_FILLER: Final = regex.compile(
    r"\b(?:really|very|super|totally|definitely|actually|absolutely|truly|kinda|kind of|sort of|basically|"
    r"simply|literally|honestly|pretty(?= \p{L}+(?:ed|ing|ful|cool|good|great|hard|nice)\b)) (?=\p{L})",
    regex.IGNORECASE,
)
_AFTER_NEGATION: Final = regex.compile(r"(?:\bnot|n['’]t|\bnever|\bno|\bhow|\bso|\bas) $", regex.IGNORECASE)
_OPINION: Final = regex.compile(
    r"(?:^|(?<=[,;.] ))(?:i think|i guess|i believe|i feel like|i've got to say|i have to say|i must say|"
    r"i gotta say|it's just that|the thing is),? (?:that )?",
    regex.IGNORECASE,
)
_TAIL: Final = regex.compile(
    r"(?:\s[-–—]+\s?|[-–—]\s|[,;:!.]\s|\s\()(?:[^,;:!.()–—-]|(?<=\w)[-.](?=\w))*\)?$"
)
_NEGATION: Final = regex.compile(
    r"\b(?:not|no|never|none|without|nor|cannot|unless|except|only)\b|n['’]t\b", regex.IGNORECASE
)
_PICTURES: Final = regex.compile(r"[\p{Extended_Pictographic}\ufe0f\U0001f3fb-\U0001f3ff]+")
_PICTURE_TALK: Final = regex.compile(
    r"[,.]?\s*(?:here's|here is|check out|take a look at|look at) (?:a |an |the |this |my |one )?"
    r"(?:pic|photo|picture|snap)\w*(?: (?:of|from) it)?[.!]?$",
    regex.IGNORECASE,
)


def exact(sentence: str, names: Collection[str] = ()) -> str:
    """`sentence` on one line without the greeting before it. For what must be obeyed to the letter."""
    text = one_line(sentence).replace("**", "")
    lead = _leading(tuple(sorted(names)))
    shorter = _CONNECTIVE.sub("", _called_at_end(tuple(sorted(names))).sub("", lead.sub("", text))).strip()
    return _capital(_ended(shorter or text))


def shortened(sentence: str, names: Collection[str] = ()) -> str:
    """`exact`, without intensifiers, hedges, pictures, and clauses at the end that say nothing specific."""
    text = _PICTURES.sub("", exact(sentence, names)).strip()
    text = _OPINION.sub("", text)
    text = _FILLER.sub(_unless_negated, text)
    text = _ended(_without_empty_tail(_PICTURE_TALK.sub("", text) or text))
    return _capital(text)


@lru_cache(maxsize=256)
def _leading(names: tuple[str, ...]) -> regex.Pattern[str]:
    called = "".join(f"|{regex.escape(name)}" for name in names if name)
    return regex.compile(
        rf"^(?:(?:{_INTERJECTION}{called})"
        rf"(?:(?: (?:again|there|all|everyone|guys{called}))?\s*[,.!;:–—-]+\s*|"
        rf"\s+(?=(?:{_INTERJECTION}{called})[,.!])))+",
        regex.IGNORECASE,
    )


@lru_cache(maxsize=256)
def _called_at_end(names: tuple[str, ...]) -> regex.Pattern[str]:
    called = "|".join(regex.escape(name) for name in names if name) or r"(?!)"
    return regex.compile(rf",\s+(?:{called})(?=[.!]*$)", regex.IGNORECASE)


def _unless_negated(found: regex.Match[str]) -> str:
    return found.group() if _AFTER_NEGATION.search(found.string[: found.start()]) else ""


def _without_empty_tail(text: str) -> str:
    while (found := _TAIL.search(text)) and found.start() > 12:
        tail = found.group()
        if _NEGATION.search(tail) or any(not is_common(word) for word in telling_words(tail)):
            break
        if not any(not is_common(word) for word in telling_words(text[: found.start()])):
            break
        text = text[: found.start()].rstrip(" ,;:-–—")
    return text


def _ended(text: str) -> str:
    """Without the stop at the end, which a list item does not need. Other scripts keep theirs."""
    text = text.strip()
    bare = text.rstrip("!. ") if text[-1:] in "!." and not text.endswith("...") else text
    return bare if bare and (bare.isascii() or bare[-1].isascii()) else text


def _capital(text: str) -> str:
    """With a capital where a word begins it, and not a name such as `redis.conf` or `iOS`."""
    word = _PLAIN_WORD.match(text)
    return text[:1].upper() + text[1:] if word else text
