"""Reading one room: which sentences of it are lessons, in whose words, resting on which messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import regex

from takeaways.schemas.memories import MAX_QUOTE, MAX_TEXT, Lesson
from takeaways.schemas.text import one_line
from takeaways.schemas.words import is_common, plain_words, telling_words
from takeaways.workers.extraction.dates import day_of, made_absolute
from takeaways.workers.models.answers import Learned, Quote, RoomLearned
from takeaways.workers.models.offline import cues
from takeaways.workers.models.offline.cues import Voice
from takeaways.workers.models.offline.sentences import sentences
from takeaways.workers.models.offline.summary import session_summary
from takeaways.workers.models.offline.topics import topic_of
from takeaways.workers.models.offline.wording import exact, shortened
from takeaways.workers.models.requests import Excerpt, RoomPart, Source

PASTED_CHARS: Final = 3_000
_ANSWER_WORDS: Final = 7
_ERROR: Final = regex.compile(
    r"^.{0,40}?\b(?P<error>\w*(?:Error|Exception): [^\n]{3,100}|Error: [^\n]{3,100}|"
    r"[^\n:]{0,60}: (?:command not found|No such file or directory|Permission denied))",
    regex.MULTILINE,
)
_ORDERS: Final = regex.compile(r"\b(?:always|never|must|remember|rule|save|user|https?)\b", regex.IGNORECASE)


class Judge(Protocol):
    """A second opinion on sentences for which no rule has a cue."""

    def lessons(self, sentences: tuple[str, ...]) -> tuple[Lesson | None, ...]: ...


@dataclass(frozen=True, slots=True)
class _Company:
    """Who is in the room, which says how its sentences are to be read.

    private: two people among themselves. What either tells of their life is worth keeping, and what they tell
    each other to do is not meant for the agent.
    """

    names: tuple[str, ...]
    people: int
    private: bool


@dataclass(frozen=True, slots=True)
class _Saying:
    """A sentence with what is needed to judge it."""

    excerpt: Excerpt
    sentence: str
    voice: Voice
    kind: Lesson | None
    question: tuple[Excerpt, str] | None


def read_room(part: RoomPart, judge: Judge | None = None) -> RoomLearned:
    """The lessons of the new messages and the session's summary."""
    company = _company(part)
    sayings = list(_sayings(part, company))
    if judge is not None:
        sayings = _asked(judge, sayings, company)
    found: dict[str, Learned] = {}
    for saying in sayings:
        learned = _learned(saying, part, company)
        if learned is not None:
            found.setdefault(learned.text.casefold(), learned)
    candidates = tuple(found.values())
    told = tuple(_with_speaker(learned) if company.private else learned.text for learned in candidates)
    return RoomLearned(room=part.label, summary=session_summary(part, told), candidates=candidates)


def _with_speaker(learned: Learned) -> str:
    """In a private talk the topic begins with who said it."""
    return f"{learned.topic.partition(':')[0]}: {learned.text}"


def _speaks(excerpt: Excerpt) -> Voice | None:
    if excerpt.author.kind == "person":
        return Voice.PERSON
    return Voice.AGENT if excerpt.author.kind == "agent" else None


def _company(part: RoomPart) -> _Company:
    people: dict[str, str] = {}
    agent = False
    for excerpt in part.excerpts:
        voice = _speaks(excerpt)
        if voice is Voice.PERSON and excerpt.text(Source.SPOKEN):
            people[excerpt.author.id] = excerpt.author.name or excerpt.author.id
        agent = agent or voice is Voice.AGENT
    names = {name for full in people.values() for name in _called(full)}
    return _Company(tuple(sorted(names)), len(people), private=len(people) == 2 and not agent)


def _called(name: str) -> Iterator[str]:
    """The ways in which somebody is called: in full, by first name, and short for it."""
    first = name.split()[0] if name.split() else ""
    yield name
    yield from (first[:length] for length in range(3, len(first) + 1))
    if len(first) >= 4:
        yield first[:3] + first[2]


def _sayings(part: RoomPart, company: _Company) -> Iterator[_Saying]:
    asked: tuple[Excerpt, str] | None = None
    for excerpt in part.excerpts:
        voice = _speaks(excerpt)
        spoken = excerpt.text(Source.SPOKEN)
        if voice is None or not spoken:
            continue
        pending = asked if asked and asked[0].author.id != excerpt.author.id else None
        asked = None
        for sentence in sentences(spoken):
            if cues.is_question(sentence):
                asked = (excerpt, sentence)
                continue
            if cues.must_not_be_kept(sentence):
                continue
            kind = _kind(sentence, voice, company, pasted=len(spoken) > PASTED_CHARS)
            if company.private and pending and _answers(shortened(sentence, company.names), company):
                yield _Saying(excerpt, sentence, voice, Lesson.FACT, pending)
            else:
                yield _Saying(excerpt, sentence, voice, kind, None)
            if not cues.is_small_talk(sentence):
                pending = None


def _answers(sentence: str, company: _Company) -> bool:
    """A few words that say something only together with the question before them."""
    return (
        len(plain_words(sentence)) <= _ANSWER_WORDS
        and _substance(sentence, company) >= 1
        and not cues.is_small_talk(sentence)
        and not cues.speaks_to_another(sentence)
        and not cues.tells_of_the_speaker(sentence)
    )


def _kind(sentence: str, voice: Voice, company: _Company, *, pasted: bool) -> Lesson | None:
    kind = cues.lesson_of(sentence, voice)
    if company.private:
        about = cues.tells_of_the_speaker(sentence)
        if kind in (Lesson.RULE, Lesson.CORRECTION) and not cues.is_standing_order(sentence):
            kind = None
        if cues.is_small_talk(sentence):
            return None
        if kind is None and _tells(sentence, company, about=about):
            kind = Lesson.FACT
        elif kind is not None and not kind.must_obey and not _tells(sentence, company, about=about):
            kind = None
    if pasted and kind not in (None, Lesson.RULE, Lesson.PREFERENCE):
        return None
    return kind


def _substance(sentence: str, company: _Company) -> int:
    """How many specific words it has. To call somebody by name says nothing."""
    called = {name.lower() for name in company.names}
    return sum(not is_common(word) for word in telling_words(sentence) if word not in called)


def _tells(sentence: str, company: _Company, *, about: bool) -> bool:
    """Whether it says enough to be read without its surroundings: of oneself a little, of others more."""
    needed = 1 if about else 3
    if not about and cues.speaks_to_another(sentence):
        return False
    return len(plain_words(sentence)) >= 3 and _substance(sentence, company) >= needed


def _asked(judge: Judge, sayings: list[_Saying], company: _Company) -> list[_Saying]:
    """Ask about what persons said without a cue. In a private talk the rules read all that tells of somebody."""
    if company.private:
        return sayings
    open_ = [
        at
        for at, saying in enumerate(sayings)
        if saying.kind is None and saying.voice is Voice.PERSON and len(plain_words(saying.sentence)) >= 3
    ]
    opinions = judge.lessons(tuple(sayings[at].sentence for at in open_))
    judged = list(sayings)
    for at, kind in zip(open_, opinions, strict=True):
        saying = judged[at]
        judged[at] = _Saying(saying.excerpt, saying.sentence, saying.voice, kind, saying.question)
    return judged


def _learned(saying: _Saying, part: RoomPart, company: _Company) -> Learned | None:
    if saying.kind is None:
        return None
    excerpt = saying.excerpt
    word = exact if saying.kind.must_obey else shortened
    text = word(saying.sentence, company.names)
    quotes = [Quote(message=excerpt.label, quote=saying.sentence[:MAX_QUOTE])]
    if saying.question is not None:
        asked, question = saying.question
        text = f"{shortened(question, company.names)} {text}"
        quotes.append(Quote(message=asked.label, quote=question[:MAX_QUOTE]))
    elif saying.kind is Lesson.FAILURE and (error := _error_before(part, excerpt)):
        label, message = error
        text = f"{one_line(message)}: {text}"
        quotes.append(Quote(message=label, quote=message))
    text = made_absolute(text, day_of(excerpt.said_at_ms, excerpt.offset_minutes), saying.kind)
    name = excerpt.author.name or excerpt.author.id
    topic = topic_of(text, part.title, name if company.private else "")
    if not company.private and saying.voice is Voice.PERSON and cues.tells_of_the_speaker(text):
        text = f"{name if excerpt.author.name or company.people > 1 else 'User'}: {text}"
    return Learned(kind=saying.kind, topic=topic, text=one_line(text)[:MAX_TEXT], evidence=tuple(quotes))


def _error_before(part: RoomPart, excerpt: Excerpt) -> tuple[str, str] | None:
    """The last error that a tool showed before `excerpt`, where it is the bare error of a program."""
    at = part.excerpts.index(excerpt)
    for earlier in reversed(part.excerpts[max(0, at - 6) : at]):
        if shown := list(_ERROR.finditer(earlier.text(Source.TOOL_RESULT))):
            message = shown[-1]["error"].strip()
            safe = not _ORDERS.search(message) and not cues.must_not_be_kept(message)
            return (earlier.label, message) if safe else None
    return None
