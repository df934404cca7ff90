"""Whether one line says what another says, or says otherwise of the same thing.

Both err on the side of no: two lines that are kept apart cost some words, a fact that was thrown away is
lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import regex

from takeaways.schemas.memories import Lesson
from takeaways.schemas.words import is_common, plain_words, telling_words

_NEGATION: Final = regex.compile(
    r"\b(?:not|no|never|none|without|nor|cannot|nicht|kein\w*|niemals|pas|jamais|nunca|не|никогда|нельзя)\b|n['’]t\b"
    r"|[不没]|しない|ません|않|안 |ไม่|ห้าม|(?<!\p{L})(?:אל|לא|मत|नहीं)(?!\p{L})",
    regex.IGNORECASE,
)
_TURNED: Final = regex.compile(
    r"(?:\bnot|\bno longer|\binstead of|\brather than|\bnever)\s+(?:on |at |in |to |the |by |via )*"
    r"(?P<old>[^\s,.;:!?]+)",
    regex.IGNORECASE,
)
_CHANGE: Final = regex.compile(
    r"\b(?:now|no longer|anymore|instead|moved|changed|switched|renamed|replaced|updated|since then|"
    r"from now on|actually)\b",
    regex.IGNORECASE,
)
_ASSERTS: Final = regex.compile(
    r"^(?:.{0,30}?[:,]\s+)?(?P<subject>[^,:;]{2,60}?)\s+"
    r"(?:(?:now|always|must|should|still|currently|will)\s+)*"
    r"(?P<verb>is|are|uses?|lives? (?:in|at)|goe?s? to|moved to|runs? (?:on|at|every)|costs?"
    r"|starts? (?:on|at)|ends? (?:on|at)|expires? on|belongs? to|listens? on|needs?|requires?)\s+"
    r"(?:now |always )?(?P<value>[^,;]{1,80})",
    regex.IGNORECASE,
)
_IDENTIFYING: Final = regex.compile(
    r"\d|(?<=\s|^)[\"“`]?\p{Lu}|[\w-]+[./_-][\w./-]+|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day"
)
_PRONOUNS: Final = frozenset(
    [
        "i",
        "we",
        "you",
        "he",
        "she",
        "it",
        "they",
        "this",
        "that",
        "there",
        "these",
        "those",
        "here",
        "what",
        "which",
        "who",
    ]
)
# What tells one thing from others of its kind: db1, ticket 41, server B. A version is no such name.
_NAMES: Final = regex.compile(
    r"(?i:\b(?!v\d)\p{L}+[-_]?\d+\b)|\#\d+"
    r"|(?i:\b(?:bugs?|builds?|cases?|cells?|chapters?|customers?|floors?|hosts?|invoices?|issues?|items?|lines?|nodes?"
    r"|orders?|pages?|parts?|phases?|projects?|rooms?|rules?|servers?|sprints?|stages?|steps?|tasks?|teams?|tickets?"
    r"|zones?)\s(?:no\.\s?)?)\d[\w.-]*|(?<=\p{L}\s)[A-HJ-Z]\b(?!['’.])"
)
_BELOW: Final = regex.compile(r"\b(?:up to|under|below|less than|fewer than|at most)\b", regex.IGNORECASE)
_ABOVE: Final = regex.compile(r"\b(?:over|above|more than|at least|from|beyond)\b", regex.IGNORECASE)
_FILLERS: Final = frozenset(
    telling_words(
        "please kindly remember remind note again really thanks hey ok reminder btw sure bitte danke"
    )
)
_VALUE_KINDS: Final = frozenset(Lesson) - {Lesson.FACT, Lesson.FAILURE}


@dataclass(frozen=True, slots=True)
class Said:
    """What comparing a line takes. `owner` is the person whose own words its section keeps, or ""."""

    kind: Lesson
    owner: str
    words: frozenset[str]
    order: tuple[str, ...]
    numbers: frozenset[str]
    negated: bool
    subject: frozenset[str]
    verb: str
    value: frozenset[str]
    identifying: bool
    turned_from: frozenset[str]
    changes: bool
    names: frozenset[str]
    subject_names: frozenset[str]
    range: str

    @property
    def keys(self) -> tuple[str, ...]:
        """The words to find it by: the specific ones, where it has any."""
        return self.order or tuple(sorted(self.words))


@lru_cache(maxsize=20_000)
def said(kind: Lesson, text: str, title: str) -> Said:
    """Take `text` apart, once. `title` is that of its section or its topic."""
    words = frozenset(telling_words(text))
    asserts = _ASSERTS.match(text)
    subject, value, verb = "", "", ""
    if asserts and not _PRONOUNS & set(plain_words(asserts["subject"])):
        subject, value, verb = asserts["subject"], asserts["value"], asserts["verb"].lower()
    turned = frozenset(word for found in _TURNED.finditer(text) for word in telling_words(found["old"]))
    return Said(
        kind=kind,
        owner=title.partition(": ")[0].casefold() if ": " in title else "",
        words=words,
        order=tuple(word for word in telling_words(text) if not is_common(word)),
        numbers=frozenset(word for word in words if any(char.isdigit() for char in word)),
        negated=bool(_NEGATION.search(text)),
        subject=frozenset(telling_words(subject)),
        verb=verb.rstrip("s"),
        value=frozenset(telling_words(value)),
        identifying=bool(_IDENTIFYING.search(value)),
        turned_from=turned,
        changes=bool(_CHANGE.search(text)),
        names=_names(text),
        subject_names=_names(subject),
        range=("below" if _BELOW.search(text) else "") + ("above" if _ABOVE.search(text) else ""),
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(name.casefold() for name in _NAMES.findall(text))


def overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of their words that two lines have in common."""
    return len(one & other) / len(one | other) if one or other else 0.0


def repeats(new: Said, old: Said) -> bool:
    """Whether `new` says nothing that `old` does not say."""
    if new.numbers - old.numbers or new.names - old.names or not set(new.order) <= old.words | _FILLERS:
        return False  # about another thing, or with a detail of its own
    if new.negated != old.negated or not new.words or contradicts(new, old):
        return False
    if overlap(new.words, old.words) >= 0.75:
        return True
    return new.words <= old.words and sum(not is_common(word) for word in new.words) >= 2


def contradicts(new: Said, old: Said) -> bool:
    """Whether `new` says otherwise of what `old` is about, so that only the one said later can hold."""
    if new.turned_from and new.turned_from <= old.words - old.turned_from:
        return bool((new.words & old.words) - new.turned_from) and not new.turned_from & old.turned_from
    same_subject = new.subject and (new.subject, new.subject_names) == (old.subject, old.subject_names)
    if same_subject and new.verb == old.verb and new.value != old.value:
        different = new.value - old.value and old.value - new.value
        return bool(different) and (
            new.changes or (new.identifying and old.identifying and new.verb != "need")
        )
    if new.kind not in _VALUE_KINDS or old.kind not in _VALUE_KINDS:
        return False
    if new.kind is old.kind is Lesson.PREFERENCE and new.words == old.words and new.order != old.order:
        return True  # tea to coffee, coffee to tea
    if new.negated != old.negated and overlap(new.words, old.words) >= 0.7:
        return True
    other_things = new.range != old.range or (new.names != old.names and not new.changes)
    if new.numbers and old.numbers and not new.numbers & old.numbers and not other_things:
        return overlap(new.words - new.numbers, old.words - old.numbers) >= 0.75
    return False
