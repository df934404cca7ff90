"""`ScriptedModel`, the stand-in for a model.

Without a script it is additive: one lesson for each message of a person, one line for each lesson, one
section for each room; a session summary and a gist depend on the set of lessons alone. So after everything
is merged the memory is the same whatever the order and the batches, which is what a test of faults
compares.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from takeaways.schemas.errors import CallAborted, ModelUnavailable
from takeaways.schemas.memories import MAX_QUOTE, Lesson
from takeaways.schemas.queues import Kind
from takeaways.schemas.text import one_line
from takeaways.workers.consolidation import render as consolidation
from takeaways.workers.consolidation.account import gist_of
from takeaways.workers.extraction import render as extraction
from takeaways.workers.models.answers import (
    Accounted,
    ConsolidationAnswer,
    CreateSection,
    Edit,
    ExtractionAnswer,
    Fate,
    Learned,
    NewLine,
    Quote,
    RoomLearned,
    UpdateSection,
)
from takeaways.workers.models.requests import (
    ConsolidationRequest,
    Excerpt,
    ExtractionRequest,
    OfferedCandidate,
    OfferedLine,
    RoomPart,
    Source,
)
from takeaways.workers.models.seam import Answered, Call, Usage
from takeaways.workers.models.tokens import estimate
from takeaways.workers.text.placeholders import is_placeholder
from takeaways.workers.text.plain import plain_line

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Extracts = ExtractionAnswer | Exception | Callable[[ExtractionRequest], ExtractionAnswer]
Consolidates = ConsolidationAnswer | Exception | Callable[[ConsolidationRequest], ConsolidationAnswer]

_LESSON_CHARS: Final = 200
_SIMPLE_ID: Final = re.compile(r"(?=.{1,80}$)[a-z0-9]+(?:-[a-z0-9]+)*")
_SUMMARY: Final = re.compile(r"(\d+) lessons? so far, check ([0-9a-f]{16})")


class ScriptedModel:
    """Answers from `extractions` and `consolidations` in order, then by the additive rule.

    An item of a script is an answer, an exception to raise, or a function from the request to the answer.
    Every request is kept, in `extraction_requests` and `consolidation_requests`. `delay_seconds` is how long
    a call takes; one that is called off raises `CallAborted`, one that takes longer than it may
    `ModelUnavailable`. Safe to use from several threads.
    """

    name = "scripted"
    prompt_version = "scripted-1"

    def __init__(
        self,
        *,
        window: int = 200_000,
        extractions: Iterable[Extracts] = (),
        consolidations: Iterable[Consolidates] = (),
        delay_seconds: float = 0.0,
        overhead: int = 0,
        count: Callable[[str], int] = estimate,
    ) -> None:
        self.extraction_requests: list[ExtractionRequest] = []
        self.consolidation_requests: list[ConsolidationRequest] = []
        self.delay_seconds = delay_seconds
        self._window = window
        self._overhead = overhead
        self._count = count
        self._extractions: deque[Extracts] = deque(extractions)
        self._consolidations: deque[Consolidates] = deque(consolidations)
        self._lock = threading.Lock()

    @property
    def window(self) -> int:
        return self._window

    def count_tokens(self, text: str) -> int:
        return self._count(text)

    def overhead_tokens(self, kind: Kind) -> int:
        return self._overhead

    def exact_tokens(self, request: ExtractionRequest, call: Call) -> int | None:
        """The estimate is all there is."""
        return None

    def then_extract(self, *script: Extracts) -> None:
        """Add to the script of extractions."""
        with self._lock:
            self._extractions.extend(script)

    def then_consolidate(self, *script: Consolidates) -> None:
        """Add to the script of consolidations."""
        with self._lock:
            self._consolidations.extend(script)

    def extract(self, request: ExtractionRequest, call: Call) -> Answered[ExtractionAnswer]:
        with self._lock:
            self.extraction_requests.append(request)
            scripted = self._extractions.popleft() if self._extractions else lessons_of
        self._work(call)
        return self._answered(_played(scripted, request), extraction.render(request))

    def consolidate(self, request: ConsolidationRequest, call: Call) -> Answered[ConsolidationAnswer]:
        with self._lock:
            self.consolidation_requests.append(request)
            scripted = self._consolidations.popleft() if self._consolidations else merged
        self._work(call)
        return self._answered(_played(scripted, request), consolidation.render(request))

    def _work(self, call: Call) -> None:
        if call.abort.wait(min(self.delay_seconds, call.timeout_seconds)) or call.abort.is_set():
            raise CallAborted("the call was called off")
        if self.delay_seconds > call.timeout_seconds:
            raise ModelUnavailable(f"no answer within {call.timeout_seconds:g} s")

    def _answered(self, answer: Answer, prompt: str) -> Answered[Answer]:
        usage = Usage(
            input_tokens=self._overhead + self._count(prompt), output_tokens=self._count(str(answer))
        )
        return Answered(answer, usage, self.name)


def _played(scripted: Answer | Exception | Callable[[Request], Answer], request: Request) -> Answer:
    if isinstance(scripted, Exception):
        raise scripted
    return scripted(request) if callable(scripted) else scripted


def lessons_of(request: ExtractionRequest) -> ExtractionAnswer:
    """One fact for each message of a person, and a summary that counts the room's lessons."""
    return ExtractionAnswer(rooms=tuple(map(_room, request.rooms)))


def _room(room: RoomPart) -> RoomLearned:
    topic = topic_of(room.room_id)
    learned = [(one, lesson) for one in room.excerpts if (lesson := _lesson(one, topic)) is not None]
    summary = _summary(room.previous_summary, [f"{one.message_id}\n{lesson.text}" for one, lesson in learned])
    return RoomLearned(room=room.label, summary=summary, candidates=tuple(lesson for _, lesson in learned))


def _lesson(excerpt: Excerpt, topic: str) -> Learned | None:
    if excerpt.author.kind != "person":
        return None
    spoken = next((span.text for span in excerpt.spans if span.source is Source.SPOKEN), "")
    text = plain_line(one_line(spoken)[:_LESSON_CHARS])
    if is_placeholder(text):
        return None
    quote = Quote(message=excerpt.label, quote=spoken.strip()[: min(_LESSON_CHARS, MAX_QUOTE)])
    return Learned(kind=Lesson.FACT, topic=topic, text=text, evidence=(quote,))


def _summary(before: str, lessons: list[str]) -> str:
    """How many lessons there were, and a sum over them: the same for every order, another when one is
    counted twice.
    """
    known = _SUMMARY.search(before)
    count, check = (int(known[1]), int(known[2], 16)) if known else (0, 0)
    for lesson in lessons:
        check += int.from_bytes(hashlib.sha256(lesson.encode("utf-8", "surrogatepass")).digest()[:8])
    total = count + len(lessons)
    return f"{total} lesson{'' if total == 1 else 's'} so far, check {check % 2**64:016x}"


def topic_of(room_id: str) -> str:
    """The title of a room's section. Different rooms have titles that differ by more than case and dashes."""
    if _SIMPLE_ID.fullmatch(room_id):
        return f"Room {room_id}"
    shown = one_line(room_id)[:80]
    return f"Room {shown} {hashlib.sha256(room_id.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def merged(request: ConsolidationRequest) -> ConsolidationAnswer:
    """One section for each topic, one line for each candidate."""
    topics: dict[str, list[OfferedCandidate]] = {}
    for candidate in request.candidates:
        topics.setdefault(candidate.topic, []).append(candidate)
    known = {section.title: section for section in request.sections}
    edits: list[Edit] = []
    for topic, candidates in topics.items():
        lines = tuple(NewLine(kind=one.kind, text=one.text, candidates=(one.label,)) for one in candidates)
        section = known.get(topic)
        if section is None:
            edits.append(CreateSection(title=topic, gist=gist_of(candidates), lines=lines))
        else:
            told: list[OfferedLine | OfferedCandidate] = [*section.lines, *candidates]
            edits.append(UpdateSection(section=section.label, gist=gist_of(told), add=lines))
    account = (Accounted(candidate=one.label, fate=Fate.MERGED) for one in request.candidates)
    return ConsolidationAnswer(edits=tuple(edits), account=tuple(account))
