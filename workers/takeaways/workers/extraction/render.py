"""What a model is shown of a room: messages as labelled excerpts, and excerpts as text.

Every line of what somebody wrote begins with `| `; every line of ours does not. So no text, in whatever
language, can end a room, begin a message or speak for somebody else. Nothing is escaped: what was
written stands there as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import regex

from takeaways.schemas.hidden import OVERRIDES, unhidden
from takeaways.schemas.text import one_line
from takeaways.schemas.transcripts import Attachment, Part, Said, Text, Thinking, ToolCall
from takeaways.workers.extraction.blobs import without_blobs
from takeaways.workers.extraction.escapes import unescaped
from takeaways.workers.extraction.inserted import is_note, pieces, without_thoughts
from takeaways.workers.extraction.shorten import shorten
from takeaways.workers.models.requests import Excerpt, ExtractionRequest, RoomPart, Source, Span
from takeaways.workers.models.tokens import estimate
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.secrets import mask

_FOLDER: Final = regex.compile(r"(?<![\w-])agent-memory(?![\w-])")
MEMORY_TOOLS: Final = frozenset({"read_memory", "search_memory", "memory"})
_LAST_NAME: Final = regex.compile(r"__|[./:]")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_TITLE_TOKENS: Final = 60
_NAME_TOKENS: Final = 24
_MOST_TOKENS_OF_ONE: Final = 6
"""No character costs more, so that a short text need not be counted."""
HEADINGS: Final = {
    Source.SPOKEN: "said",
    Source.TOOL_CALL: "called a tool",
    Source.TOOL_RESULT: "a tool returned",
    Source.ATTACHMENT: "attached",
    Source.INSERTED: "inserted by the platform, said by nobody",
}


@dataclass(frozen=True, slots=True)
class Caps:
    """How many tokens of one message are kept, by who speaks. Beyond that only the beginning is.

    `answers` is for what the agent says when it is done, `agents` for what it says between calls of tools
    and for other agents.
    """

    people: int = 8_000
    answers: int = 3_000
    agents: int = 2_000
    tools: int = 800
    documents: int = 800
    inserted: int = 60


def caps_of(policy: Policy) -> Caps:
    """The caps that the settings ask for."""
    return Caps(
        people=policy.person_message_tokens,
        answers=policy.answer_message_tokens,
        agents=policy.agent_message_tokens,
        tools=policy.tool_message_tokens,
        documents=policy.tool_message_tokens,
    )


@dataclass(slots=True)
class Allowance:
    """What may still be taken of one message, for each kind of speaker and in all."""

    caps: Caps
    total: int | None = None
    spent: dict[str, int] = field(default_factory=dict)

    def take(self, kind: str, text: str) -> str:
        """The beginning of `text` that is allowed; its tokens are spent."""
        left = getattr(self.caps, kind) - self.spent.get(kind, 0)
        if self.total is not None:
            left = min(left, self.total - sum(self.spent.values()))
        tokens = estimate(text) if len(text) <= 2 * left else left + 1
        if tokens > left:
            text = shorten(text, left)
            tokens = estimate(text)
        self.spent[kind] = self.spent.get(kind, 0) + tokens
        return text


def excerpts(said: Sequence[Said], caps: Caps | None = None, *, first: int = 1) -> tuple[Excerpt, ...]:
    """The messages of one room in order, labelled from `first` on; those with nothing to show are no part."""
    reader = Reader(caps or Caps())
    found: list[Excerpt] = []
    for message in sorted(said, key=lambda one: one.sort_key):
        spans = reader.spans(message)
        if spans:
            found.append(excerpt(message, f"m{first + len(found)}", spans))
    return tuple(found)


def excerpt(said: Said, label: str, spans: tuple[Span, ...]) -> Excerpt:
    return Excerpt(
        label=label,
        message_id=said.message_id,
        role=said.role,
        author=said.author,
        said_at_ms=said.said_at_ms,
        offset_minutes=said.offset_minutes,
        spans=spans,
    )


class Reader:
    """Turns the messages of one room into spans, in order.

    It remembers which calls looked into the memory, in its folder or with its tools: what those return is our
    own note again.
    """

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._looked_up: set[str] = set()

    def spans(self, said: Said, total: int | None = None) -> tuple[Span, ...]:
        """What is shown of a message; `total` caps it over all kinds of speaker."""
        allowance = Allowance(self._caps, total)
        spans: list[Span] = []
        for source, text, lost in self._raw(said):
            kind = "inserted" if source is Source.INSERTED else _kind_of(said, source)
            kept = "" if source is Source.INSERTED and is_note(text) else allowance.take(kind, text)
            _append(spans, Span(source, kept, len(text) - len(kept) + lost))
        return tuple(spans)

    def _raw(self, said: Said) -> Iterator[tuple[Source, str, int]]:
        """The pieces of a message with their source and how much its producer had cut."""
        by_platform = said.author.kind == "system" or said.role in ("system", "developer")
        for part in said.parts:
            source, text, lost = self._read(part)
            if not text.strip() and not lost:
                continue
            text = mask(without_blobs(unhidden(text, keep=OVERRIDES)))  # before anything is cut off it
            if source is Source.SPOKEN and said.author.kind == "agent":
                text = without_thoughts(text)
            if by_platform:
                yield Source.INSERTED, text, lost
            elif source in (Source.SPOKEN, Source.TOOL_RESULT, Source.ATTACHMENT):
                if said.author.kind == "tool" and source is Source.SPOKEN:
                    source = Source.TOOL_RESULT
                yield from _sorted_out(source, text, lost)
            else:
                yield source, text, lost

    def _read(self, part: Part) -> tuple[Source, str, int]:
        if isinstance(part, Text):
            return Source.SPOKEN, part.text, part.cut_chars
        if isinstance(part, Thinking):
            return Source.SPOKEN, "", 0
        if isinstance(part, Attachment):
            source = Source.INSERTED if _FOLDER.search(part.name) else Source.ATTACHMENT
            shown = _placeholder(part)
            return source, f"{shown}\n{part.text}" if part.text else shown, part.cut_chars
        if isinstance(part, ToolCall):
            # Hosts put the name of a server before that of its tool: `mcp__notes__read_memory`.
            if _FOLDER.search(part.arguments) or _LAST_NAME.split(part.name)[-1] in MEMORY_TOOLS:
                self._looked_up.add(part.id or part.name)
            return Source.TOOL_CALL, f"{part.name}({unescaped(part.arguments)})", part.cut_chars
        if part.call_id and part.call_id in self._looked_up:
            return Source.INSERTED, part.text, part.cut_chars
        text = unescaped(part.text)
        return Source.TOOL_RESULT, f"error: {text}" if part.is_error else text, part.cut_chars


def _sorted_out(source: Source, text: str, lost: int) -> Iterator[tuple[Source, str, int]]:
    found = list(pieces(text))
    for number, (inserted, piece) in enumerate(found, start=1):
        last = number == len(found)
        yield Source.INSERTED if inserted else source, piece.strip("\n"), lost if last else 0
    if not found:
        yield source, "", lost


def _append(spans: list[Span], span: Span) -> None:
    """Add a span; what one says in several pieces is one, and so is a row of things that were left out
    whole.
    """
    before = spans[-1] if spans else None
    if before is not None and before.source is span.source:
        if before.text and span.text and span.source is Source.SPOKEN:
            text = f"{before.text}\n{span.text}"
            spans[-1] = Span(span.source, text, before.cut_chars + span.cut_chars)
            return
        if not span.text:
            spans[-1] = Span(span.source, before.text, before.cut_chars + span.cut_chars)
            return
    spans.append(span)


def _kind_of(said: Said, source: Source) -> str:
    if source in (Source.TOOL_CALL, Source.TOOL_RESULT) or said.author.kind == "tool":
        return "tools"
    if source is Source.ATTACHMENT:
        return "documents"
    if said.author.kind == "person":
        return "people"
    done = said.author.id == said.agent_id and not any(isinstance(part, ToolCall) for part in said.parts)
    return "answers" if done else "agents"


def _placeholder(part: Attachment) -> str:
    size = f"{part.size_bytes:,} bytes" if part.size_bytes is not None else ""
    known = [_short(text, _NAME_TOKENS) for text in (part.kind, part.media_type, part.name, size)]
    return f"[{', '.join(text for text in known if text)}]"


def render(request: ExtractionRequest) -> str:
    """The request as the text that a language model is sent and that tokens are counted on.

    It is the sum of `room_head`, `block` for each excerpt, and `room_foot`, room by room.
    """
    return "".join(_pieces_of(request.rooms))


def _pieces_of(rooms: Iterable[RoomPart]) -> Iterator[str]:
    for room in rooms:
        yield room_head(room.label, room.title, room.previous_summary)
        yield from map(block, room.excerpts)
        yield room_foot(room.label)


def room_head(label: str, title: str, previous_summary: str) -> str:
    """The opening fence of a room, its title and what was known of it."""
    shown = _short(title, _TITLE_TOKENS)
    head = f"=== room {label}{f': {shown}' if shown else ''} ===\n"
    return head + (f"summary so far:\n{quoted(previous_summary)}new messages:\n" if previous_summary else "")


def room_foot(label: str) -> str:
    return f"=== end of room {label} ===\n"


def block(excerpt: Excerpt) -> str:
    """One message: a header with label, local time, kind of author and name, then what it holds."""
    author = excerpt.author
    name = _short(author.name or author.id, _NAME_TOKENS)
    when = local_time(excerpt.said_at_ms, excerpt.offset_minutes)
    lines = [f"[{excerpt.label}] {when}, {author.kind} {name}\n"]
    for number, span in enumerate(excerpt.spans):
        if number or span.source is not Source.SPOKEN:
            lines.append(f"{HEADINGS[span.source]}:\n")
        lines.append(quoted(span.text))
        if span.cut_chars:
            lines.append(f"({span.cut_chars:,} more characters were left out)\n")
    return "".join(lines)


def _short(text: str, tokens: int) -> str:
    line = mask(one_line(unhidden(text)))
    return line if _MOST_TOKENS_OF_ONE * len(line) <= tokens else shorten(line, tokens)


def quoted(text: str) -> str:
    """Each line of `text` behind `| `, whatever ends a line in it."""
    return "".join(f"| {line}\n" for line in text.splitlines())


def local_time(at_ms: int, offset_minutes: int) -> str:
    """The wall clock of who said it, with weekday and offset: "Wed 2025-12-31 23:40 +01:00"."""
    sign, (hours, minutes) = "-" if offset_minutes < 0 else "+", divmod(abs(offset_minutes), 60)
    try:
        moment = _EPOCH + timedelta(milliseconds=at_ms, minutes=offset_minutes)
    except OverflowError:
        return "at an unknown time"
    return f"{_DAYS[moment.weekday()]} {moment:%Y-%m-%d %H:%M} {sign}{hours:02d}:{minutes:02d}"
