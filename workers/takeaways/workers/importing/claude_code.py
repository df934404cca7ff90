"""Claude Code sessions: one JSON record a line, the messages in Anthropic content blocks.

An answer that Claude Code wrote as several records stays several messages: a session that is still being
written grows by records, and each keeps its own id. A boundary of a compaction ends a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from takeaways.schemas.events import Author, Message
from takeaways.workers.extraction.inserted import pieces
from takeaways.workers.importing.problems import Reporter
from takeaways.workers.importing.records import Record
from takeaways.workers.importing.rooms import Draft, ImportedCompaction, Stretch
from takeaways.workers.importing.shape import Context
from takeaways.workers.importing.speech import a_person as person
from takeaways.workers.importing.speech import (
    a_tool,
    identifier,
    message,
    only_results,
    text_of,
    the_agent,
    the_system,
)
from takeaways.workers.importing.times import moment
from takeaways.workers.importing.turns import by_user_turn

SUBAGENT: Final = "subagent"
_SPOKEN: Final = frozenset({"user", "assistant"})
_MARKS: Final = ("uuid", "sessionId", "leafUuid", "messageId", "message")


def fits(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("type"), str)
        and any(mark in value for mark in _MARKS)
    )


def rooms(records: Iterator[Record], context: Context) -> Iterator[Draft]:
    session = _Session(context)
    for record in records:
        session.take(record)
    yield session.draft()


class _Session:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._reporter: Reporter = context.reporter
        self._title = context.title
        self._conversation_id: str | None = None
        self._time: datetime | None = None
        self._current: list[Message] = []
        self._stretches: list[Stretch] = []
        self._compactions: list[ImportedCompaction] = []

    def take(self, record: Record) -> None:
        value = record.value
        self._conversation_id = self._conversation_id or identifier(value.get("sessionId"))
        kind = value["type"]
        if kind in _SPOKEN:
            self._spoken(record, value)
        elif kind == "system" and value.get("subtype") == "compact_boundary":
            self._boundary(record, value)
        elif kind == "system" and (text := text_of(value.get("content"))):
            self._add(record, value, role="system", content=text, author=the_system())
        elif kind in ("summary", "ai-title", "custom-title"):
            self._title = (
                text_of(value.get("customTitle") or value.get("aiTitle") or value.get("summary"))
                or self._title
            )

    def draft(self) -> Draft:
        self._end_stretches()
        return Draft("", self._title, tuple(self._stretches), tuple(self._compactions), self._conversation_id)

    def _spoken(self, record: Record, value: dict[str, Any]) -> None:
        said = value.get("message")
        if not isinstance(said, dict) or "content" not in said:
            self._reporter.lost("a message without content", line=record.line, record=record.name)
            return
        self._add(
            record,
            value,
            role=value["type"],
            content=said["content"],
            author=self._author(value, said["content"]),
        )

    def _author(self, value: dict[str, Any], content: Any) -> Author:
        if value["type"] == "assistant":
            if value.get("isApiErrorMessage"):
                return the_system()
            return the_agent(SUBAGENT if value.get("isSidechain") else self._context.agent_id)
        if value.get("isMeta") or value.get("isCompactSummary") or value.get("isVisibleInTranscriptOnly"):
            return the_system()
        if only_results(content):
            return a_tool()
        if value.get("isSidechain"):
            return the_agent(self._context.agent_id)
        return the_system() if _inserted(content) else person()

    def _add(self, record: Record, value: dict[str, Any], *, role: str, content: Any, author: Author) -> None:
        at = moment(value.get("timestamp"), self._reporter, line=record.line, record=record.name)
        self._time = at or self._time
        self._current.append(
            message(
                message_id=identifier(value.get("uuid")) or f"record-{record.number}",
                role=role,
                content=content,
                author=author,
                time=self._time,
            )
        )

    def _boundary(self, record: Record, value: dict[str, Any]) -> None:
        self._end_stretches()
        meta = value.get("compactMetadata")
        meta = meta if isinstance(meta, dict) else {}
        tokens = meta.get("preTokens")
        before = [stretch.messages[-1].id for stretch in self._stretches[-1:]]
        self._compactions.append(
            ImportedCompaction(
                compaction=len(self._compactions) + 1,
                trigger=text_of(meta.get("trigger"))[:100] or None,
                tokens_before=tokens if type(tokens) is int and 0 <= tokens < 2**53 else None,
                last_message_id=identifier(value.get("logicalParentUuid")) or next(iter(before), None),
                compacted_at=moment(
                    value.get("timestamp"), self._reporter, line=record.line, record=record.name
                ),
            )
        )

    def _end_stretches(self) -> None:
        self._stretches += by_user_turn(self._current, compaction=len(self._compactions))
        self._current = []


def _inserted(content: Any) -> bool:
    """Whether the program wrote all of a user's turn by itself."""
    if isinstance(content, list):
        texts = [text_of(block.get("text")) for block in content if isinstance(block, dict)]
        return bool(texts) and len(texts) == len(content) and all(_inserted(text) for text in texts)
    return bool(text_of(content).strip()) and all(inserted for inserted, _ in pieces(content))
