"""Forgetting: agents, rooms and persons on request, and what rested on a message that changed.

Each function works inside the caller's transaction, which holds the agent's row. An erasure raises the
epoch, so that a job that runs can commit nothing of what is gone. What cannot be done inside the
transaction is a logged row in `erasures`; `erasing` goes on with it until it is done.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, delete, func, null, or_, select, update

from takeaways.recall.standing import in_database as standing
from takeaways.recall.store import load_memory
from takeaways.schemas.database import now_ms
from takeaways.schemas.memories import Memory
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
    standing_note_pins,
)
from takeaways.workers.consolidation import store
from takeaways.workers.consolidation.account import Account, How, difference, retirements
from takeaways.workers.consolidation.edits import withdraw_lines
from takeaways.workers.consolidation.scrub import scrubbed

ERASED: Final = "erased"


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
    standing.forget_agent(connection, agent_id)
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
            due_since_ms=None,
            due_kind=None,
            due_reason=None,
            not_before_ms=None,
            parked_because=None,
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
    for table in (notes, standing_note_pins, runs):
        connection.execute(delete(table).where(table.c.agent_id == agent_id, table.c.room_id == room_id))
    _log(connection, agent_id, "room", room_id)


def forget_person(connection: Connection, agent_id: str, person_id: str, at_ms: int) -> None:
    """What the person said, and what was said in runs made for them, goes with what rests on it.

    The summaries and titles of the rooms they were in go too: nobody can tell which words of those are theirs.
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
        .values(summary=None, summary_at_ms=None, title=None)
    )
    connection.execute(
        update(runs).where(runs.c.agent_id == agent_id, runs.c.user_id == person_id).values(user_id=None)
    )
    # The note about a person is the same for every agent, and goes with the first that has to forget them.
    standing.forget_user(connection, person_id)
    connection.execute(
        delete(persons).where(persons.c.agent_id == agent_id, persons.c.person_id == person_id)
    )
    connection.execute(persons.insert().values(agent_id=agent_id, person_id=person_id, deleted_at_ms=at_ms))
    _log(connection, agent_id, "person", person_id)


def withdraw(connection: Connection, agent_id: str, keys: Iterable[tuple[str, str]], because: str) -> None:
    """Retire what was learned from messages that were edited or deleted: `keys` are (room id, message id).

    Lines that rest on them leave the memory in a revision of their own; history keeps what was believed. The
    other candidates of those lines, and those that had given way to what is retired, wait again.
    """
    learned = _resting_on(connection, agent_id, list(keys))
    if learned:
        _retire(connection, agent_id, learned, because)


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
        _retire(connection, agent_id, learned, ERASED)
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
    """Withdraw candidates: their lines go, and what gave way to them alone waits again, as if they never were."""
    current = load_memory(connection, agent_id)
    memory, freed = withdraw_lines(current.memory, frozenset(learned))
    if because == ERASED:
        memory = _scrubbed(connection, agent_id, memory, learned)
    mine = candidates.c.agent_id == agent_id
    withdrawn = connection.execute(
        select(candidates.c.candidate_id, candidates.c.state).where(
            mine, candidates.c.candidate_id.in_(learned)
        )
    ).all()
    connection.execute(
        update(candidates)
        .where(mine, candidates.c.candidate_id.in_(learned))
        .values(state="withdrawn", reason=because)
    )
    again = sorted({*freed, *_outlived(connection, agent_id, frozenset(learned))} - set(learned))
    wait = connection.execute(
        update(candidates)
        .where(mine, candidates.c.candidate_id.in_(again))
        .where(candidates.c.state.not_in(("waiting", "quarantined", "withdrawn")))
        .values(state="waiting", reason=None, settled_by=None, settled_revision=None, superseded_by=null())
    ).rowcount
    settled = sum(row.state == "waiting" for row in withdrawn)
    connection.execute(
        update(agents)
        .where(agents.c.agent_id == agent_id)
        .values(
            candidates_total=agents.c.candidates_total + wait,
            candidates_settled=agents.c.candidates_settled + settled,
        )
    )
    if memory != current.memory:
        kept = {line.id for section in memory.sections for line in section.lines}
        gone = [
            line.id for section in current.memory.sections for line in section.lines if line.id not in kept
        ]
        # What was erased must not stand in the account either.
        retired = () if because == ERASED else retirements(current.memory, memory, how=How.WITHDRAWN)
        made = Account(
            changes=difference(current.memory, memory, dict.fromkeys(gone, because)), retired=retired
        )
        account = {**made.to_json(), "withdrawn": sorted(learned), "freed": again}
        store.save_revision(
            connection,
            agent_id,
            current.number + 1,
            memory,
            account=account,
            made_by="withdrawal",
            job_id=None,
        )


def _scrubbed(connection: Connection, agent_id: str, memory: Memory, learned: list[str]) -> Memory:
    """Without what only the erased candidates said, also in titles and gists of other sections."""
    rows = connection.execute(
        select(candidates.c.candidate_id, candidates.c.topic, candidates.c.text, candidates.c.evidence).where(
            candidates.c.agent_id == agent_id
        )
    ).all()
    erased = set(learned)
    texts = [
        text
        for row in rows
        if row.candidate_id in erased
        for text in (row.topic, row.text, *(evidence["quote"] for evidence in row.evidence))
    ]
    topics = {row.candidate_id: row.topic for row in rows if row.candidate_id not in erased}
    return scrubbed(memory, texts, topics)


def _outlived(connection: Connection, agent_id: str, learned: frozenset[str]) -> list[str]:
    """Candidates that had given way to these alone. Where something else still says otherwise, only it is left."""
    rows = connection.execute(
        select(candidates.c.candidate_id, candidates.c.superseded_by).where(
            candidates.c.agent_id == agent_id, candidates.c.state == "superseded"
        )
    ).all()
    freed: list[str] = []
    for row in rows:
        by = row.superseded_by or []
        left = [id_ for id_ in by if id_ not in learned]
        if len(left) == len(by):
            continue
        if not left:
            freed.append(row.candidate_id)
            continue
        connection.execute(
            update(candidates)
            .where(candidates.c.agent_id == agent_id, candidates.c.candidate_id == row.candidate_id)
            .values(superseded_by=left)
        )
    return freed


def _forget_history(connection: Connection, agent_id: str) -> None:
    """Earlier revisions, their sections and the pinned notes show what was erased: only the newest memory stays.

    So do the words in which the model gave its reasons, for they may repeat anything that it was shown.
    """
    current = connection.execute(select(agents.c.revision).where(agents.c.agent_id == agent_id)).scalar_one()
    of_agent = revisions.c.agent_id == agent_id
    kept = connection.execute(
        select(revisions.c.sections).where(of_agent, revisions.c.revision == current)
    ).scalar_one_or_none()
    connection.execute(delete(revisions).where(of_agent, revisions.c.revision != current))
    connection.execute(update(revisions).where(of_agent).values(account={"erased": True}))
    connection.execute(
        delete(section_texts).where(
            section_texts.c.agent_id == agent_id, section_texts.c.digest.not_in(kept or [])
        )
    )
    connection.execute(
        update(candidates)
        .where(candidates.c.agent_id == agent_id, candidates.c.state.not_in(("waiting", "quarantined")))
        .values(reason=None)
    )
    for table in (notes, note_texts):
        connection.execute(delete(table).where(table.c.agent_id == agent_id))


def _resting_on(connection: Connection, agent_id: str, keys: list[tuple[str, str]]) -> list[str]:
    """Candidates, whatever became of them, that name one of these messages as evidence."""
    wanted = set(keys)
    in_rooms = sorted({room_id for room_id, _ in keys})
    found = connection.execute(
        select(candidates.c.candidate_id, candidates.c.room_id, candidates.c.evidence).where(
            candidates.c.agent_id == agent_id, candidates.c.room_id.in_(in_rooms)
        )
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
            erasure_id=uuid.uuid4().hex,
            agent_id=agent_id,
            scope=scope,
            subject_id=subject_id,
            asked_ms=at_ms,
            account={},
        )
    )
