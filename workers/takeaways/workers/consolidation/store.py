"""What a consolidation reads and writes: candidates, revisions, session summaries. SQL, and no decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import Connection, delete, null, select, update
from sqlalchemy.dialects import postgresql, sqlite

from takeaways.recall.escape import shown
from takeaways.schemas.database import now_ms
from takeaways.schemas.memories import Candidate, Memory
from takeaways.schemas.tables import agents, candidates, note_texts, notes, revisions, rooms, section_texts
from takeaways.workers.consolidation import thinning
from takeaways.workers.consolidation.became import Became

MAX_ROWS: Final = 1_000
_NOTES_COUNTED: Final = 200


def load_waiting(
    connection: Connection, agent_id: str, *, upto: int, quarantine_id: str | None
) -> tuple[Candidate, ...]:
    """Candidates that wait, in the order in which they were said; at most `MAX_ROWS` of them.

    `upto` is the horizon of the pass: a place that was not yet given when it began.
    """
    if quarantine_id is None:
        waiting = (candidates.c.state == "waiting", candidates.c.place < upto)
    else:
        waiting = (candidates.c.state == "quarantined", candidates.c.quarantine_id == quarantine_id)
    found = connection.execute(
        select(candidates)
        .where(candidates.c.agent_id == agent_id, *waiting)
        .order_by(candidates.c.said_at_ms, candidates.c.room_id, candidates.c.candidate_id)
        .limit(MAX_ROWS)
    ).mappings()
    return tuple(
        Candidate(
            id=row["candidate_id"],
            room_id=row["room_id"],
            kind=row["kind"],
            topic=row["topic"],
            text=row["text"],
            said_at_ms=row["said_at_ms"],
            evidence=tuple(row["evidence"]),
        )
        for row in found
    )


def still_waiting(connection: Connection, agent_id: str, ids: Iterable[str]) -> set[str]:
    """Which of these candidates nobody withdrew meanwhile."""
    return set(
        connection.execute(
            select(candidates.c.candidate_id)
            .where(candidates.c.agent_id == agent_id, candidates.c.candidate_id.in_(sorted(ids)))
            .where(candidates.c.state.in_(("waiting", "quarantined")))
        ).scalars()
    )


def settle(
    connection: Connection,
    agent_id: str,
    states: Mapping[str, Became],
    *,
    settled_by: str | None,
    revision: int,
) -> None:
    """Store what became of candidates, by id. Withdrawn ones stay withdrawn. `settled_by` is a job."""
    alike: dict[Became, list[str]] = {}
    for candidate_id, state in states.items():
        alike.setdefault(state, []).append(candidate_id)
    for state, ids in sorted(alike.items(), key=lambda one: one[1]):
        connection.execute(
            update(candidates)
            .where(candidates.c.agent_id == agent_id, candidates.c.candidate_id.in_(sorted(ids)))
            .where(candidates.c.state != "withdrawn")
            .values(
                state=state.state,
                reason=state.reason or None,
                superseded_by=list(state.superseded_by) or null(),
                settled_by=settled_by,
                settled_revision=revision,
                quarantine_id=None,
            )
        )


def recalled(connection: Connection, agent_id: str, memory: Memory) -> dict[str, int]:
    """How many of the latest notes showed each line, by its id. Only what was shown at all is in it."""
    latest = (
        select(notes.c.text_hash)
        .where(notes.c.agent_id == agent_id, notes.c.text_hash.is_not(None))
        .order_by(notes.c.pinned_at_ms.desc())
        .limit(_NOTES_COUNTED)
    )
    times = Counter(connection.execute(latest).scalars())
    texts = connection.execute(
        select(note_texts.c.text_hash, note_texts.c.text).where(
            note_texts.c.agent_id == agent_id, note_texts.c.text_hash.in_(sorted(times))
        )
    ).all()
    shown_in = [(_said_in(row.text), times[row.text_hash]) for row in texts]
    found: dict[str, int] = {}
    for section in memory.sections:
        for line in section.lines:
            item = shown(line.text)
            if count := sum(number for said, number in shown_in if item in said):
                found[line.id] = count
    return found


def _said_in(note: str) -> frozenset[str]:
    """The items of a note, and what its gists are made of."""
    lines = note.split("\n")
    return frozenset(line.removeprefix("- ") for line in lines) | {
        part for line in lines for part in line.split("; ")
    }


def set_aside(connection: Connection, agent_id: str, ids: Iterable[str], quarantine_id: str) -> None:
    """Take candidates out of the waiting ones, under the quarantine's name."""
    connection.execute(
        update(candidates)
        .where(candidates.c.agent_id == agent_id, candidates.c.candidate_id.in_(sorted(ids)))
        .values(state="quarantined", quarantine_id=quarantine_id)
    )


def save_revision(
    connection: Connection,
    agent_id: str,
    number: int,
    memory: Memory,
    *,
    account: dict[str, Any],
    made_by: str,
    job_id: str | None,
) -> None:
    """Store one whole revision and make it the agent's current one. Sections that did not change are not copied."""
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    texts = {section.digest: section.model_dump(mode="json") for section in memory.sections}
    if texts:
        rows = [
            {"agent_id": agent_id, "digest": key, "content": content}
            for key, content in sorted(texts.items())
        ]
        connection.execute(insert(section_texts).values(rows).on_conflict_do_nothing())
    connection.execute(
        revisions.insert().values(
            agent_id=agent_id,
            revision=number,
            sections=[section.digest for section in memory.sections],
            account=account,
            job_id=job_id,
            made_by=made_by,
            made_at_ms=now_ms(connection),
        )
    )
    connection.execute(update(agents).where(agents.c.agent_id == agent_id).values(revision=number))


def drop_old_summaries(connection: Connection, agent_id: str, *, keep: int) -> int:
    """Drop the summaries of all but the `keep` most recently active rooms, once their candidates are merged."""
    old = (
        select(rooms.c.room_id)
        .where(rooms.c.agent_id == agent_id, rooms.c.summary.is_not(None))
        .order_by(rooms.c.last_activity_ms.desc(), rooms.c.room_id)
        .offset(keep)
    )
    beyond = list(connection.execute(old).scalars())
    if not beyond:
        return 0
    waiting = connection.execute(
        select(candidates.c.room_id)
        .where(candidates.c.agent_id == agent_id, candidates.c.state.in_(("waiting", "quarantined")))
        .where(candidates.c.room_id.in_(beyond))
    )
    merged = sorted(set(beyond) - set(waiting.scalars()))
    connection.execute(
        update(rooms)
        .where(rooms.c.agent_id == agent_id, rooms.c.room_id.in_(merged))
        .values(summary=None, summary_at_ms=None)
    )
    return len(merged)


def thin(connection: Connection, agent_id: str) -> int:
    """Drop the whole text of old revisions that `thinning` finds superfluous; their accounts stay."""
    rows = connection.execute(
        select(revisions.c.revision, revisions.c.made_at_ms, revisions.c.made_by).where(
            revisions.c.agent_id == agent_id, revisions.c.sections.is_not(None)
        )
    ).all()
    if len(rows) <= thinning.NEWEST:
        return 0
    versions = [thinning.Version(row.revision, row.made_at_ms, row.made_by) for row in rows]
    numbers = thinning.superfluous(versions, now_ms(connection))
    if not numbers:
        return 0
    connection.execute(
        update(revisions)
        .where(revisions.c.agent_id == agent_id, revisions.c.revision.in_(numbers))
        .values(sections=null())
    )
    kept = connection.execute(
        select(revisions.c.sections).where(
            revisions.c.agent_id == agent_id, revisions.c.sections.is_not(None)
        )
    ).scalars()
    named = {key for sections in kept for key in sections}
    stored = connection.execute(select(section_texts.c.digest).where(section_texts.c.agent_id == agent_id))
    orphans = sorted(set(stored.scalars()) - named)
    for at in range(0, len(orphans), MAX_ROWS):
        connection.execute(
            delete(section_texts).where(
                section_texts.c.agent_id == agent_id,
                section_texts.c.digest.in_(orphans[at : at + MAX_ROWS]),
            )
        )
    return len(numbers)
