"""Claude over real HTTP, for tests: a server on loopback, a model that talks to it, and things to ask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from takeaways.schemas.events import Author
from takeaways.schemas.memories import Lesson
from takeaways.workers.models.anthropic import AnthropicModel, Connection
from takeaways.workers.models.requests import (
    ConsolidationRequest,
    Excerpt,
    ExtractionRequest,
    OfferedCandidate,
    RoomPart,
    Source,
    Span,
)
from takeaways.workers.testing.claude import ClaudeServer

MODEL = "claude-haiku-5-5"
NOON = 1_767_265_200_000


@contextmanager
def claude(server: ClaudeServer, name: str = MODEL, **options: Any) -> Iterator[AnthropicModel]:
    """A model that talks to the server, over a connection of its own."""
    connection = Connection(base_url=server.url, api_key="a key")
    try:
        yield AnthropicModel(name, connection=connection, **options)
    finally:
        connection.close()


def said(number: int, text: str, *, kind: str = "person", source: Source = Source.SPOKEN) -> Excerpt:
    author = Author.model_validate({"id": "Ana" if kind == "person" else kind, "kind": kind})
    at_ms = NOON + number * 60_000
    return Excerpt(f"m{number}", f"id-{number}", "user", author, at_ms, 60, (Span(source, text),))


def rooms(*texts: Sequence[str], summary: str = "") -> ExtractionRequest:
    """A request with a room for each list of texts; labels are counted over all of them."""
    parts, number = [], 0
    for place, room in enumerate(texts, start=1):
        excerpts = []
        for text in room:
            number += 1
            excerpts.append(said(number, text))
        parts.append(RoomPart(f"r{place}", f"room-{place}", f"Room {place}", summary, tuple(excerpts)))
    return ExtractionRequest(tuple(parts))


def candidates(*texts: str) -> ConsolidationRequest:
    offered = (
        OfferedCandidate(f"c{place}", Lesson.FACT, "Staging", text, NOON + place * 60_000)
        for place, text in enumerate(texts, start=1)
    )
    return ConsolidationRequest((), tuple(offered))


LESSON = "Always use port 9443 for staging."
ONE_ROOM = rooms([LESSON, "I prefer short answers."])
