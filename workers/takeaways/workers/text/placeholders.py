"""Recognising text that stands for text: "rest unchanged", "[...]", "same as before".

A model that abbreviates means "and so on". Stored, it would replace what it stands for.
"""

from __future__ import annotations

from typing import Final

import regex

_THINGS: Final = (
    r"(?:(?:the |all )?"
    r"(?:rest|remainder|remaining|others?|everything else|existing|previous|earlier|current)(?: of)?(?: the)?"
    r"(?: (?:file|memory|sections?|lines?|contents?|text|entries|items|topics))*)"
)
_STATES: Final = (
    r"(?:(?:is|are|remains?|stays?|kept|left|to be kept)? ?"
    r"(?:unchanged|unmodified|untouched|omitted|the same|same|same as (?:before|above)|as (?:before|above)|"
    r"as (?:it|they) (?:was|were|is|are)|as[- ]is|contents?|here|goes here))"
)
_PLACEHOLDER: Final = regex.compile(
    rf"{_THINGS} {_STATES}|(?:the )?same as (?:before|above|previous)|as (?:before|above)|unchanged|omitted|"
    r"no changes?|(?:existing|previous) (?:contents?|lines|sections|entries|memory)|"
    r"(?:contents?|text|lines|sections) (?:unchanged|omitted)|etc|todo|tbd|n/?a|none|null|placeholder",
    regex.IGNORECASE,
)
_WORDS: Final = regex.compile(r"[\p{L}\p{N}]+(?:['’/-][\p{L}\p{N}]+)*")
_ELISION: Final = regex.compile(r"^\W*[\[(<]\s*(?:\.{2,}|…)|(?:\.{3}|…)\s*[\])>]\W*$")


def is_placeholder(text: str) -> bool:
    """Whether all of `text` stands for something else, or says nothing: no letter and no digit in it."""
    words = " ".join(_WORDS.findall(text))
    return not words or _PLACEHOLDER.fullmatch(words) is not None or _ELISION.search(text) is not None
