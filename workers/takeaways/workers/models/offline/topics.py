"""Which topic a lesson belongs to: the same words give the same title in every room, so that rooms meet."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Final

import regex

from takeaways.schemas.memories import MAX_TITLE
from takeaways.schemas.text import one_line
from takeaways.schemas.words import stem, telling_words

GENERAL: Final = "General"
_NAME: Final = regex.compile(r"[^\d_/\\]+")
"""A title with a number in it is one of many, such as a session or a ticket, and no topic."""
_SURE: Final = 2  # words that point one way
_OF_A_PERSON: Final = frozenset(
    {"Bookings and travel", "Family and friends", "Home and pets", "Work and career", "Health and sport",
     "Art, music and books", "Community"}
)  # fmt: skip


@cache
def _subject_of() -> dict[str, str]:
    text = files(__package__).joinpath("topics.toml").read_text(encoding="utf-8")
    listed: dict[str, str] = tomllib.loads(text)
    return {stem(word): subject for subject, words in reversed(listed.items()) for word in words.split()}


def subject_of(text: str, *, personal: bool = False) -> str:
    """The subject that most of the words point to, or "". Of a person's life there are fewer."""
    return max(found, key=found.__getitem__) if (found := _subjects(text, personal=personal)) else ""


def topic_of(text: str, room_title: str, person: str = "") -> str:
    """The title of the section where `text` belongs. With `person` it is about them.

    One word is a guess: "run" is sport to one and a trial to another. A room that says what it is about knows
    better, unless its title points the same way.
    """
    found = _subjects(text, personal=bool(person))
    subject = max(found, key=found.__getitem__) if found else ""
    if person:
        return _fitting(f"{person}: {subject[:1].lower()}{subject[1:]}" if subject else person)
    named = room_title if _NAME.fullmatch(room_title) else ""
    about = _subjects(named)
    if named and (subject in about or found.get(subject, 0) < _SURE):
        return _fitting(named)
    return _fitting(subject or named or GENERAL)


def _subjects(text: str, *, personal: bool = False) -> dict[str, int]:
    """How many words of `text` point to each subject."""
    counts: dict[str, int] = {}
    for word in telling_words(text):
        subject = _subject_of().get(word, "")
        if subject and (subject in _OF_A_PERSON if personal else subject != "Community"):
            counts[subject] = counts.get(subject, 0) + 1
    return counts


def _fitting(title: str) -> str:
    return one_line(title).replace("#", "").strip()[:MAX_TITLE].rstrip() or GENERAL
