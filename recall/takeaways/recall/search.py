"""Finding lines of an agent's memory, and paragraphs about its rooms, with the database's full text search.

What one agent knows is small: it is indexed for each question, in FTS5 of SQLite or as `tsvector` of
PostgreSQL, and ranked among itself. So there is no index that an erasure could leave behind or that grows with
the number of agents. (`docs/recall.md` has the time that takes.)
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection, text

from takeaways.recall.escape import blocks, shown
from takeaways.recall.terms import phrases, words
from takeaways.schemas.memories import Memory, SessionSummary

MOST_HITS: Final = 50
_TITLE_WEIGHT: Final = 0.4


@dataclass(frozen=True, slots=True)
class Hit:
    """A line of the topic `topic`, or a paragraph about the room `room_id`. `said_at_ms` orders in time."""

    text: str
    topic: str | None
    room_id: str | None
    said_at_ms: int


def search(
    connection: Connection,
    memory: Memory,
    summaries: Iterable[SessionSummary],
    question: str,
    *,
    limit: int = 10,
) -> list[Hit]:
    """What fits the question best, the best first. Any of its words may match, in any form of the word."""
    asked = phrases(question)
    documents = list(_documents(memory, summaries))
    if not asked or not documents:
        return []
    find = _in_sqlite if connection.dialect.name == "sqlite" else _in_postgresql
    places = find(connection, [(words(title), words(hit.text)) for title, hit in documents], asked)
    return [_shown(documents[place][1]) for place in places[: min(limit, MOST_HITS)]]


def _documents(memory: Memory, summaries: Iterable[SessionSummary]) -> Iterator[tuple[str, Hit]]:
    """(title, hit) of all that can be found; what several lines say is found once."""
    seen: set[str] = set()
    for section in memory.sections:
        newest = max(line.said_at_ms for line in section.lines)
        for said_at_ms, line in [
            (newest, section.gist),
            *((one.said_at_ms, one.text) for one in section.lines),
        ]:
            if line and line not in seen:
                seen.add(line)
                yield section.title, Hit(line, section.title, None, said_at_ms)
    for summary in summaries:
        for paragraph in re.split(r"\n\s*\n", summary.text):
            if paragraph.strip():
                yield (
                    f"{summary.title} {summary.room_id}",
                    Hit(paragraph, None, summary.room_id, summary.last_activity_ms),
                )


def _shown(hit: Hit) -> Hit:
    """The same hit as a model may see it: text that stays text."""
    if hit.topic is None:
        return replace(hit, text=blocks(hit.text))
    return replace(hit, text=shown(hit.text), topic=shown(hit.topic))


def _in_sqlite(
    connection: Connection, documents: Sequence[tuple[str, str]], asked: Sequence[tuple[str, ...]]
) -> list[int]:
    # In memory, so that nothing that was remembered reaches a temporary file.
    query = " OR ".join('"' + " ".join(phrase) + '"' for phrase in asked)
    with closing(sqlite3.connect(":memory:")) as index:
        index.execute("CREATE VIRTUAL TABLE found USING fts5(title, line, tokenize = 'porter unicode61')")
        index.executemany(
            "INSERT INTO found(rowid, title, line) VALUES (?, ?, ?)",
            [(place, title, line) for place, (title, line) in enumerate(documents)],
        )
        rows = index.execute(
            "SELECT rowid FROM found WHERE found MATCH ? ORDER BY bm25(found, ?, 1.0), rowid",
            (query, _TITLE_WEIGHT),
        )
        return [place for (place,) in rows]


_POSTGRESQL = text(
    """
    WITH found AS (
        SELECT place - 1 AS place,
               setweight(to_tsvector('english', title), 'B') || setweight(to_tsvector('english', line), 'A') AS words
        FROM unnest(CAST(:titles AS text[]), CAST(:lines AS text[])) WITH ORDINALITY AS document(title, line, place)
    ), asked AS (SELECT to_tsquery('english', :query) AS query)
    SELECT place FROM found, asked WHERE words @@ query
    ORDER BY ts_rank(CAST(ARRAY[0, 0, :title_weight, 1] AS real[]), words, query) DESC, place
    """
)


def _in_postgresql(
    connection: Connection, documents: Sequence[tuple[str, str]], asked: Sequence[tuple[str, ...]]
) -> list[int]:
    query = " | ".join(
        "(" + " <-> ".join(f"'{word}'" for word in phrase) + ")" for phrase in asked
    )  # words hold no quotes
    rows = connection.execute(
        _POSTGRESQL,
        {
            "titles": [title for title, _ in documents],
            "lines": [line for _, line in documents],
            "query": query,
            "title_weight": _TITLE_WEIGHT,
        },
    )
    return [int(place) for place in rows.scalars()]
