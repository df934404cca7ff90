"""Forgetting: agents, rooms and persons on request, and what rested on a message that changed.

Each function works inside the caller's transaction, which holds the agent's row. An erasure raises the
epoch, so that a job that runs can commit nothing of what is gone. What cannot be done inside the
transaction is a logged row in `erasures`; the sweep calls `continue_erasures` until it is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, func, or_, select, update

from takeaways.recall.store import load_memory
from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.ids import digest
from takeaways.schemas.tables import (
    agents,
    candidates,
    dead_letters,
    erasures,
    jobs,
    kept_answers,
    messages,
    note_texts,
    notes,
    persons,
    quarantines,
    revisions,
    rooms,
    runs,
    section_texts,
)
from takeaways.workers.consolidation import store
from takeaways.workers.consolidation.account import Account, difference
from takeaways.workers.consolidation.edits import withdraw_lines


def forget_agent(connection: Connection, agent_id: str, at_ms: int) -> None:
    """Everything about the agent goes; a tombstone stays. One made again under the same id starts empty.

    `at_ms` is the time of the deletion: events dated no later than it revive nothing.
    """
    for table in (
        rooms,
        runs,
        messages,
        candidates,
        section_texts,
        revisions,
        notes,
        note_texts,
        persons,
        jobs,
        kept_answers,
        quarantines,
    ):
        connection.execute(delete(table).where(table.c.agent_id == agent_id))
    connection.execute(delete(dead_letters).where(dead_letters.c.agent_id == agent_id))
    connection.execute(
        update(agents)
        .where(agents.c.agent_id == agent_id)
        .values(
            generation=agents.c.generation + 1,
            deleted_at_ms=func.max(at_ms, func.coalesce(agents.c.deleted_at_ms, at_ms))
            if connection.dialect.name == "sqlite"
            else func.greatest(at_ms, agents.c.deleted_at_ms),
            name=None,
            model=None,
            model_window=None,
            model_at_ms=None,
            messages_read=agents.c.messages_total,
            runs_served=agents.c.runs_total,
            compactions_served=agents.c.compactions_total,
            candidates_settled=agents.c.candidates_total,
            extractions_asked_served=agents.c.extractions_asked,
            consolidations_asked_served=agents.c.consolidations_asked,
            last_success_ms=None,
            idle_served_ms=None,
            wake_at_ms=None,
            left_for=None,
            left_until_ms=None,
            revision=0,
            extraction_retry_ms=None,
            consolidation_retry_ms=None,
            consolidation_waited=False,
            **_FENCE_OFF,
        )
    )
    _log(connection, agent_id, "agent", agent_id)


def forget_room(connection: Connection, agent_id: str, room_id: str, at_ms: int) -> None:
    """The room's messages go with what rests on them; its row stays as a tombstone of the next generation."""
    in_room = and_(messages.c.agent_id == agent_id, messages.c.room_id == room_id)
    learned = and_(candidates.c.agent_id == agent_id, candidates.c.room_id == room_id)
    _erase(connection, agent_id, messages_where=in_room, learned=_ids(connection, learned))
    connection.execute(
        update(rooms)
        .where(rooms.c.agent_id == agent_id, rooms.c.room_id == room_id)
        .values(
            generation=rooms.c.generation + 1,
            deleted_at_ms=at_ms,
            title=None,
            conversation_id=None,
            compaction=0,
            boundary_message_id=None,
            summary=None,
            summary_at_ms=None,
            last_activity_ms=None,
        )
    )
    connection.execute(delete(notes).where(notes.c.agent_id == agent_id, notes.c.room_id == room_id))
    _log(connection, agent_id, "room", room_id)


def forget_person(connection: Connection, agent_id: str, person_id: str, at_ms: int) -> None:
    """What the person said, and what was said in runs made for them, goes with what rests on it.

    The summaries of the rooms they were in go too: nobody can tell which words of those are theirs.
    """
    theirs = and_(
        messages.c.agent_id == agent_id,
        or_(messages.c.author_id == person_id, messages.c.user_id == person_id),
    )
    said = connection.execute(select(messages.c.room_id, messages.c.message_id).where(theirs)).all()
    learned = _resting_on(connection, agent_id, [(row.room_id, row.message_id) for row in said])
    _erase(connection, agent_id, messages_where=theirs, learned=learned)
    in_rooms = sorted({row.room_id for row in said})
    connection.execute(
        update(rooms)
        .where(rooms.c.agent_id == agent_id, rooms.c.room_id.in_(in_rooms))
        .values(summary=None, summary_at_ms=None)
    )
    connection.execute(
        delete(persons).where(persons.c.agent_id == agent_id, persons.c.person_id == person_id)
    )
    connection.execute(persons.insert().values(agent_id=agent_id, person_id=person_id, deleted_at_ms=at_ms))
    _log(connection, agent_id, "person", person_id)


def withdraw(connection: Connection, agent_id: str, keys: Iterable[tuple[str, str]], because: str) -> None:
    """Retire what was learned from messages that were edited or deleted: `keys` are (room id, message id).

    Lines that rest on them leave the memory in a revision of their own; history keeps what was believed. The
    other candidates of those lines wait again.
    """
    learned = _resting_on(connection, agent_id, list(keys))
    if learned:
        _retire(connection, agent_id, learned, because)


def continue_erasures(database: Database) -> int:
    """Do what is left of logged erasures; returns how many are done with it. Safe to repeat.

    SQLite keeps erased bytes in its write-ahead log until that is truncated.
    """
    with database.read() as connection:
        waiting = (
            connection.execute(select(erasures.c.erasure_id).where(erasures.c.done_ms.is_(None)).limit(100))
            .scalars()
            .all()
        )
    if not waiting:
        return 0
    database.checkpoint()
    with database.write() as connection:
        connection.execute(
            update(erasures).where(erasures.c.erasure_id.in_(waiting)).values(done_ms=now_ms(connection))
        )
    return len(waiting)


_FENCE_OFF: dict[str, Any] = {
    "epoch": agents.c.epoch + 1,
    "owner": None,
    "owner_kind": None,
    "lease_until_ms": None,
    "lease_boot": None,
    "extraction_pass": None,
    "consolidation_pass": None,
    "attempts": 0,
    "attempts_at": None,
}


def _erase(
    connection: Connection, agent_id: str, *, messages_where: ColumnElement[bool], learned: list[str]
) -> None:
    unread = connection.execute(
        select(func.count())
        .select_from(messages)
        .where(
            messages_where,
            messages.c.read_by.is_(None),
            messages.c.quarantine_id.is_(None),
            messages.c.state == "stored",
        )
    ).scalar_one()
    connection.execute(delete(messages).where(messages_where))
    # Whose words a kept answer repeats cannot be told from outside.
    connection.execute(delete(kept_answers).where(kept_answers.c.agent_id == agent_id))
    if learned:
        _retire(connection, agent_id, learned, "erased")
        connection.execute(
            delete(candidates).where(
                candidates.c.agent_id == agent_id, candidates.c.candidate_id.in_(learned)
            )
        )
        _forget_history(connection, agent_id)
    connection.execute(
        update(agents)
        .where(agents.c.agent_id == agent_id)
        .values(messages_read=agents.c.messages_read + unread, **_FENCE_OFF)
    )


def _retire(connection: Connection, agent_id: str, learned: list[str], because: str) -> None:
    current = load_memory(connection, agent_id)
    memory, freed = withdraw_lines(current.memory, frozenset(learned))
    waiting = connection.execute(
        select(func.count())
        .select_from(candidates)
        .where(
            candidates.c.agent_id == agent_id,
            candidates.c.candidate_id.in_(learned),
            candidates.c.state == "waiting",
        )
    ).scalar_one()
    connection.execute(
        update(candidates)
        .where(candidates.c.agent_id == agent_id, candidates.c.candidate_id.in_(learned))
        .values(state="withdrawn", reason=because)
    )
    connection.execute(
        update(candidates)
        .where(candidates.c.agent_id == agent_id, candidates.c.candidate_id.in_(sorted(freed)))
        .where(candidates.c.state != "waiting")
        .values(state="waiting", reason=None, settled_by=None, settled_revision=None)
    )
    connection.execute(
        update(agents)
        .where(agents.c.agent_id == agent_id)
        .values(
            candidates_total=agents.c.candidates_total + len(freed),
            candidates_settled=agents.c.candidates_settled + waiting,
        )
    )
    if memory != current.memory:
        kept = {line.id for section in memory.sections for line in section.lines}
        gone = [
            line.id for section in current.memory.sections for line in section.lines if line.id not in kept
        ]
        changes = difference(current.memory, memory, dict.fromkeys(gone, because))
        account = {**Account(changes=changes).to_json(), "withdrawn": sorted(learned), "freed": sorted(freed)}
        store.save_revision(
            connection,
            agent_id,
            current.number + 1,
            memory,
            account=account,
            made_by="withdrawal",
            job_id=None,
        )


def _forget_history(connection: Connection, agent_id: str) -> None:
    """Earlier revisions, their sections and the pinned notes show what was erased: only the newest revision stays."""
    current = connection.execute(select(agents.c.revision).where(agents.c.agent_id == agent_id)).scalar_one()
    kept = connection.execute(
        select(revisions.c.sections).where(revisions.c.agent_id == agent_id, revisions.c.revision == current)
    ).scalar_one_or_none()
    connection.execute(
        delete(revisions).where(revisions.c.agent_id == agent_id, revisions.c.revision != current)
    )
    connection.execute(
        delete(section_texts).where(
            section_texts.c.agent_id == agent_id, section_texts.c.digest.not_in(kept or [])
        )
    )
    for table in (notes, note_texts):
        connection.execute(delete(table).where(table.c.agent_id == agent_id))


def _resting_on(connection: Connection, agent_id: str, keys: list[tuple[str, str]]) -> list[str]:
    """Candidates, whatever became of them, that name one of these messages as evidence."""
    wanted = set(keys)
    in_rooms = sorted({room_id for room_id, _ in keys})
    found = connection.execute(
        select(candidates.c.candidate_id, candidates.c.room_id, candidates.c.evidence)
        .where(candidates.c.agent_id == agent_id, candidates.c.room_id.in_(in_rooms))
        .where(candidates.c.state != "withdrawn")
    )
    return sorted(
        row.candidate_id
        for row in found
        if any((row.room_id, evidence["message_id"]) in wanted for evidence in row.evidence)
    )


def _ids(connection: Connection, where: ColumnElement[bool]) -> list[str]:
    return sorted(connection.execute(select(candidates.c.candidate_id).where(where)).scalars())


def _log(connection: Connection, agent_id: str, scope: str, subject_id: str) -> None:
    at_ms = now_ms(connection)
    connection.execute(
        erasures.insert().values(
            erasure_id=digest(
                agent_id,
                scope,
                subject_id,
                at_ms,
                connection.execute(select(func.count()).select_from(erasures)).scalar_one(),
            ),
            agent_id=agent_id,
            scope=scope,
            subject_id=subject_id,
            asked_ms=at_ms,
            account={},
        )
    )
