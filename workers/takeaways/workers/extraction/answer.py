"""Holding what a model says it learned to what was really said.

A candidate is taken only where every quote stands in the message it names, and a rule, a correction or a
preference only from a person's own words. What is refused is refused with a reason and never stops the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import regex

from takeaways.schemas.errors import AnswerUnreadable
from takeaways.schemas.memories import MAX_QUOTE, MAX_TEXT, Candidate, Evidence, Lesson, candidate_id
from takeaways.schemas.secrets import without_masks
from takeaways.schemas.text import mend
from takeaways.workers.extraction.dates import day_of, made_absolute
from takeaways.workers.extraction.passing import is_of_the_harness, is_one_off, is_progress
from takeaways.workers.extraction.render import local_time
from takeaways.workers.extraction.support import can_carry
from takeaways.workers.models.answers import ExtractionAnswer, Learned, Quote
from takeaways.workers.models.requests import Excerpt, ExtractionRequest, RoomPart, Source
from takeaways.workers.text.placeholders import is_placeholder
from takeaways.workers.text.plain import plain_line, plain_title

_EVIDENCE: Final = (Source.SPOKEN, Source.TOOL_CALL, Source.TOOL_RESULT, Source.ATTACHMENT)
_LEAST_LETTERS: Final = 4
_LOOSE: Final = str.maketrans(
    dict.fromkeys("‘’‚‛′`´", "'")
    | dict.fromkeys("“”„‟″«»「」『』", '"')
    | dict.fromkeys("‐‑‒–—―−", "-")
    | {"…": "..."}
    | dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", "")
)
_LETTER: Final = regex.compile(r"[\p{L}\p{N}]")
_RELATIVE: Final = regex.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|this (?:morning|afternoon|evening|week|month|year)|"
    r"(?<!\bthe )(?:next|last) (?:week|weekend|month|year|quarter|night|(?:mon|tues|wednes|thurs|fri|satur|sun)day)|"
    r"\w+ (?:days?|weeks?|months?|years?) ago|in (?:an?|\d{1,2}|two|three|four|five|six|ten|a few|a couple of) "
    r"(?:days?|weeks?|months?|years?)(?! of)|this (?:quarter|weekend|(?:mon|tues|wednes|thurs|fri|satur|sun)day)|"
    r"(?:nächste|letzte|diese)[nrs]? (?:woche|monat|jahr)|la semaine (?:prochaine|dernière)|"
    r"(?:la )?(?:próxima semana|semana (?:que viene|pasada))|(?:на )?(?:следующей|прошлой) неделе|"
    r"heute|morgen früh|gestern|demain|hier|aujourd'hui|mañana|ayer|hoy)\b|"
    r"明日|昨日|今日|来週|先週|明天|昨天|今天|下周|上周|내일|어제|오늘",
    regex.IGNORECASE,
)


class RefusedBecause(StrEnum):
    """Why a candidate was not taken. Logs and metrics use these words."""

    UNKNOWN_ROOM = "unknown_room"
    UNKNOWN_MESSAGE = "unknown_message"
    MESSAGE_OF_ANOTHER_ROOM = "message_of_another_room"
    QUOTE_NOT_THERE = "quote_not_there"
    QUOTE_TOO_SHORT = "quote_too_short"
    INSERTED_BY_PLATFORM = "inserted_by_platform"
    NOBODY_SAID_SO = "nobody_said_so"
    NOT_THEIR_WORDS = "not_their_words"
    PLACEHOLDER = "placeholder"
    ONE_OFF = "one_off"
    PROGRESS = "progress"
    HARNESS = "harness"


@dataclass(frozen=True, slots=True)
class Refused:
    """`room` is the room's id, or "" where no room of the request was named. Nothing of the text is kept."""

    reason: RefusedBecause
    room: str


@dataclass(frozen=True, slots=True)
class Accepted:
    """Candidates in the order in which they were said, new summaries by room id, and what was refused.

    A room without an entry in `summaries` keeps the summary that it has.
    """

    candidates: tuple[Candidate, ...] = ()
    summaries: dict[str, str] = field(default_factory=dict)
    refused: tuple[Refused, ...] = ()


def accept(request: ExtractionRequest, answer: ExtractionAnswer, agent_id: str) -> Accepted:
    """Check an answer against what was asked.

    Raises `AnswerUnreadable` when a room is answered twice or none of the rooms asked about is answered: then
    nobody can tell which words to believe. Everything else is refused piece by piece.
    """
    rooms = {room.label: room for room in request.rooms}
    _check_shape(rooms, answer)
    found: dict[str, Candidate] = {}
    summaries: dict[str, str] = {}
    refused: list[Refused] = []
    for learned in answer.rooms:
        room = rooms.get(learned.room)
        if room is None:
            refused += [Refused(RefusedBecause.UNKNOWN_ROOM, "")] * max(1, len(learned.candidates))
            continue
        summary = mend(learned.summary).strip()
        if not is_placeholder(summary):
            summaries[room.room_id] = summary
        for one in learned.candidates:
            candidate = _candidate(one, room, request, agent_id)
            if isinstance(candidate, Candidate):
                found[candidate.id] = _folded(found.get(candidate.id), candidate)
            else:
                refused.append(Refused(candidate, room.room_id))
    in_order = sorted(found.values(), key=lambda one: (one.said_at_ms, one.room_id, one.id))
    return Accepted(tuple(in_order), summaries, tuple(refused))


def _check_shape(rooms: dict[str, RoomPart], answer: ExtractionAnswer) -> None:
    labels = [learned.room for learned in answer.rooms]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise AnswerUnreadable(f"the answer has room {twice[0]!r} more than once")
    if rooms and not rooms.keys() & set(labels):
        raise AnswerUnreadable(f"the answer is about none of the {len(rooms)} rooms that were asked about")


def _candidate(
    learned: Learned, room: RoomPart, request: ExtractionRequest, agent_id: str
) -> Candidate | RefusedBecause:
    text, topic = plain_line(learned.text), plain_title(learned.topic)
    if (refused := _passing(text, topic)) is not None:
        return refused
    evidence: list[tuple[int, Excerpt, Quote]] = []
    spoken: list[str] = []
    asked: list[str] = []
    for quote in learned.evidence:
        place = next((n for n, one in enumerate(room.excerpts) if one.label == quote.message), None)
        if place is None:
            elsewhere = any(one.label == quote.message for other in request.rooms for one in other.excerpts)
            return RefusedBecause.MESSAGE_OF_ANOTHER_ROOM if elsewhere else RefusedBecause.UNKNOWN_MESSAGE
        excerpt = room.excerpts[place]
        sources = _where(excerpt, quote.quote)
        if isinstance(sources, RefusedBecause):
            return sources
        if excerpt.author.kind == "person" and Source.SPOKEN in sources:
            spoken.append(excerpt.text(Source.SPOKEN))
        elif Source.SPOKEN in sources:
            asked.append(excerpt.text(Source.SPOKEN))
        evidence.append((place, excerpt, quote))
    if learned.kind.needs_a_person:
        if not spoken:
            return RefusedBecause.NOBODY_SAID_SO
        if not can_carry(spoken, text, asked):
            return RefusedBecause.NOT_THEIR_WORDS
    evidence.sort(key=lambda one: (one[1].said_at_ms, one[0]))
    newest = evidence[-1][1]
    text = _dated(text, learned.kind, newest)
    return Candidate(
        id=candidate_id(agent_id, room.room_id, newest.message_id, text),
        room_id=room.room_id,
        kind=learned.kind,
        topic=topic,
        text=text,
        said_at_ms=newest.said_at_ms,
        evidence=tuple(
            Evidence(message_id=one.message_id, quote=mend(quote.quote)[:MAX_QUOTE])
            for _, one, quote in evidence
        ),
    )


def _passing(text: str, topic: str) -> RefusedBecause | None:
    """Why a text is no lesson, whoever said it."""
    if is_placeholder(text) or is_placeholder(topic) or not without_masks(text).strip(" .,:;"):
        return RefusedBecause.PLACEHOLDER
    if is_of_the_harness(text) or is_of_the_harness(topic):
        return RefusedBecause.HARNESS
    if is_one_off(text):
        return RefusedBecause.ONE_OFF
    return RefusedBecause.PROGRESS if is_progress(text) else None


def _where(excerpt: Excerpt, quote: str) -> set[Source] | RefusedBecause:
    """From which sources of the message the quote may come, or why it is no evidence."""
    wanted = _loosened(quote)
    if not wanted:
        return RefusedBecause.QUOTE_TOO_SHORT
    sources: set[Source] = set()
    whole = False
    for source, said in _texts(excerpt):
        if wanted in said:
            sources.add(source)
            whole = whole or wanted == said
    if not sources:
        return RefusedBecause.QUOTE_NOT_THERE
    if not (whole or len(_LETTER.findall(wanted)) >= _LEAST_LETTERS):
        return RefusedBecause.QUOTE_TOO_SHORT
    sources.intersection_update(_EVIDENCE)
    return sources or RefusedBecause.INSERTED_BY_PLATFORM


def _texts(excerpt: Excerpt) -> Iterator[tuple[Source, str]]:
    return ((span.source, _loosened(span.text)) for span in excerpt.spans)


def _loosened(text: str) -> str:
    """What is left to compare when case, white space, kinds of quotes and dashes do not matter."""
    return " ".join(mend(text).translate(_LOOSE).casefold().split())


def _dated(text: str, kind: Lesson, newest: Excerpt) -> str:
    """Say the day where the text counts from when it was said: "tomorrow" means nothing a week later.

    What cannot be turned into a date is given the date on which it was said.
    """
    if _RELATIVE.search(text) is None:
        return text
    text = made_absolute(text, day_of(newest.said_at_ms, newest.offset_minutes), kind)
    if _RELATIVE.search(text) is None:
        return text[:MAX_TEXT]
    dated = f"{text} (said on {local_time(newest.said_at_ms, newest.offset_minutes)[4:14]})"
    return dated if len(dated) <= MAX_TEXT else text


def _folded(known: Candidate | None, again: Candidate) -> Candidate:
    """One lesson of one message that an answer has twice: its evidence together."""
    if known is None:
        return again
    more = [one for one in again.evidence if one not in known.evidence]
    return known.model_copy(update={"evidence": (*more, *known.evidence)})
