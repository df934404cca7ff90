"""Which kind of lasting thing a sentence says, told by its wording alone.

Rules err on the side of silence: a sentence without a cue is no lesson. What somebody merely quotes, asks,
or reports of a third party is not theirs, so a cue inside quotation marks does not count. The wordings
themselves, in several languages, are in `cues.toml`.
"""

from __future__ import annotations

import tomllib
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Final

import regex

from takeaways.schemas.memories import Lesson


class Voice(StrEnum):
    """Who speaks, which says what a sentence may teach."""

    PERSON = "person"
    AGENT = "agent"


_QUESTION_MARK: Final = regex.compile(r"[?？؟][\"'”’)\s]*$")
_QUOTED: Final = regex.compile(r"[\"“„«「『][^\"”«»」』]{12,}[\"”“»」』]|`[^`]{20,}`")
_SPECIFIC_TOKEN: Final = regex.compile(r"\d|`[^`]+`|\b[\w-]+[./_][\w./-]+|\b[A-Z]{2,}\b")
_OF_PERSONS: Final = (
    ("decision", Lesson.DECISION),
    ("preference", Lesson.PREFERENCE),
    ("procedure", Lesson.PROCEDURE),
)


@cache
def _cues() -> dict[str, regex.Pattern[str]]:
    listed = tomllib.loads(files(__package__).joinpath("cues.toml").read_text(encoding="utf-8"))
    return {
        name: regex.compile("|".join(f"(?:{pattern})" for pattern in patterns), regex.IGNORECASE)
        for name, patterns in listed.items()
    }


def _has(cue: str, sentence: str) -> bool:
    return _cues()[cue].search(sentence) is not None


def is_question(sentence: str) -> bool:
    """Whether it asks something; also true of requests in the form of a question."""
    return bool(_QUESTION_MARK.search(sentence)) or _has("asks", sentence)


def must_not_be_kept(sentence: str) -> bool:
    """Whether it looks like a secret, a mask or a placeholder, repeats the memory, or is said not to be kept."""
    return any(_has(cue, sentence) for cue in ("secret", "placeholder", "restated", "private"))


def lesson_of(sentence: str, voice: Voice) -> Lesson | None:
    """The kind of lasting thing that `sentence` says, or None.

    Rules, corrections and preferences come from persons only; an agent's words may tell facts about the
    environment, procedures, and failures with what fixed them.
    """
    if is_question(sentence) or must_not_be_kept(sentence):
        return None
    own = _QUOTED.sub(" ", sentence)
    return _persons(own) if voice is Voice.PERSON else _agents(own)


def _persons(own: str) -> Lesson | None:
    reported = _has("reported", own)
    if not reported and _has("rule", own) and not _has("for_now", own):
        return Lesson.RULE
    if not reported and _has("correction", own):
        return Lesson.CORRECTION
    if _has("failure", own):
        return Lesson.FAILURE
    if _has("one_off", own):
        return None
    for cue, kind in _OF_PERSONS:
        if _has(cue, own):
            return kind
    return Lesson.FACT if _has("fact", own) and not _has("progress", own) and not reported else None


def _agents(own: str) -> Lesson | None:
    if _has("progress", own) or _has("reported", own):
        return None
    if _has("failure", own):
        return Lesson.FAILURE
    if _has("about_now", own):
        return None
    if _has("procedure", own):
        return Lesson.PROCEDURE
    return Lesson.FACT if _has("environment", own) and _SPECIFIC_TOKEN.search(own) else None


def is_small_talk(sentence: str) -> bool:
    """Whether it keeps a conversation going rather than telling something."""
    return _has("small_talk", sentence)


def is_standing_order(sentence: str) -> bool:
    """Whether it orders something for good even among people who talk to each other."""
    return _has("standing", sentence)


def tells_of_the_speaker(sentence: str) -> bool:
    """Whether the speaker speaks of themselves."""
    return _has("first_person", sentence)


def speaks_to_another(sentence: str) -> bool:
    """Whether the listener is spoken to."""
    return _has("addressed", sentence)
