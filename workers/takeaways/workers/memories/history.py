"""What an agent believed, when, and why it changed: reading revisions, accounts and evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, select

from takeaways.recall.store import Revision, load_memory
from takeaways.schemas.errors import BadInput, NotFound
from takeaways.schemas.memories import Evidence, Line
from takeaways.schemas.tables import agents, candidates, jobs, messages, revisions, rooms
from takeaways.workers.consolidation.account import Account, Retired, replay


@dataclass(frozen=True, slots=True)
class Made:
    """How a revision came about. `model` and `prompt_version` are None where no model made it."""

    number: int
    made_at_ms: int
    made_by: str
    author: str | None
    why: str
    job_id: str | None
    model: str | None
    prompt_version: str | None
    account: Mapping[str, Any]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Witness:
    """A message that a line rests on. Without `text_is_kept` only the quote is left of it."""

    candidate_id: str
    fate: str
    room_id: str
    room_title: str
    message_id: str
    author: str
    said_at_ms: int
    quote: str
    text_is_kept: bool


@dataclass(frozen=True, slots=True)
class Blamed:
    """A line with everything behind it. One that a person wrote rests on nobody's message."""

    section: str
    line: Line
    since_revision: int
    witnesses: tuple[Witness, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """Something that was believed until revision `number`, and what took its place there."""

    number: int
    made_at_ms: int
    retired: Retired
    now: str | None


def load_revision(connection: Connection, agent_id: str, number: int | None = None) -> Revision:
    """A revision whole, also one that was thinned out: it is made again from the accounts.

    Raises `BadInput` where it is not there.
    """
    if not number:
        return load_memory(connection, agent_id, number)
    rows = connection.execute(
        select(revisions.c.revision, revisions.c.sections.is_(None).label("thin"), revisions.c.made_at_ms)
        .where(revisions.c.agent_id == agent_id, revisions.c.revision <= number)
        .order_by(revisions.c.revision.desc())
    ).all()
    if not rows or rows[0].revision != number or not rows[0].thin:
        return load_memory(connection, agent_id, number)
    whole = next((row.revision for row in rows if not row.thin), 0)
    memory = load_memory(connection, agent_id, whole).memory
    for account in _accounts(connection, agent_id, after=whole, upto=number):
        memory = replay(memory, account)
    return Revision(number, memory, rows[0].made_at_ms)


def revision_at(connection: Connection, agent_id: str, at_ms: int) -> int:
    """The number of the revision that stood at an instant; 0 where there was none yet."""
    found = connection.execute(
        select(func.max(revisions.c.revision)).where(
            revisions.c.agent_id == agent_id, revisions.c.made_at_ms <= at_ms
        )
    ).scalar()
    return int(found or 0)


def made(connection: Connection, agent_id: str, *, limit: int) -> list[Made]:
    """The revisions, newest first."""
    rows = connection.execute(
        select(revisions, jobs.c.model, jobs.c.prompt_version)
        .outerjoin_from(revisions, jobs, jobs.c.job_id == revisions.c.job_id)
        .where(revisions.c.agent_id == agent_id)
        .order_by(revisions.c.revision.desc())
        .limit(limit)
    ).mappings()
    return [
        Made(
            number=row["revision"],
            made_at_ms=row["made_at_ms"],
            made_by=row["made_by"],
            author=row["account"].get("author"),
            why=row["account"].get("why") or "",
            job_id=row["job_id"],
            model=row["model"],
            prompt_version=row["prompt_version"],
            account=row["account"],
            is_whole=row["sections"] is not None,
        )
        for row in rows
    ]


def blame(connection: Connection, agent_id: str, number: int | None = None) -> list[Blamed]:
    """Every line of a revision with the messages behind it, in the order of the memory."""
    revision = load_revision(connection, agent_id, number)
    lines = [(section, line) for section in revision.memory.sections for line in section.lines]
    found = _witnesses(connection, agent_id, {id_ for _, line in lines for id_ in line.candidates})
    since = _since(connection, agent_id, revision.number)
    return [
        Blamed(
            section.title,
            line,
            since.get(line.id, 0),
            tuple(one for id_ in line.candidates for one in found.get(id_, ())),
        )
        for section, line in lines
    ]


def changes_of(connection: Connection, agent_id: str, line_id: str | None = None) -> list[Changed]:
    """What was retired, oldest first: of one line, by whichever name it went before, or of all."""
    rows = connection.execute(
        select(revisions.c.revision, revisions.c.made_at_ms, revisions.c.account)
        .where(revisions.c.agent_id == agent_id)
        .order_by(revisions.c.revision.desc())
    ).all()
    now = _texts(connection, agent_id)
    wanted = {line_id}
    found: list[Changed] = []
    for row in rows:  # backwards, so that what a line was called before is known when its turn comes
        for retired in Account.from_json(row.account).retired:
            if line_id is None or retired.line.id in wanted or retired.by in wanted:
                wanted.add(retired.line.id)
                found.append(Changed(row.revision, row.made_at_ms, retired, now.get(retired.by or "")))
            now[retired.line.id] = retired.line.text
    return found[::-1]


def line_named(connection: Connection, agent_id: str, name: str) -> Line:
    """The line of the current memory whose id begins with `name`.

    Raises `NotFound` where there is none, `BadInput` where there are several.
    """
    memory = load_memory(connection, agent_id).memory
    found = [
        line
        for section in memory.sections
        for line in section.lines
        if line.id == name or line.id.removeprefix("l:").startswith(name.removeprefix("l:"))
    ]
    if not found:
        raise NotFound(
            f"no line of {agent_id} has an id that begins so; `takeaways memory blame {agent_id}` shows the ids"
        )
    if len(found) > 1:
        raise BadInput(
            f"the ids of {len(found)} lines of {agent_id} begin so; give more of the one that is meant"
        )
    return found[0]


def _texts(connection: Connection, agent_id: str) -> dict[str, str]:
    memory = load_memory(connection, agent_id).memory
    return {line.id: line.text for section in memory.sections for line in section.lines}


def _accounts(connection: Connection, agent_id: str, *, after: int, upto: int) -> Iterator[Account]:
    rows = connection.execute(
        select(revisions.c.revision, revisions.c.account)
        .where(revisions.c.agent_id == agent_id, revisions.c.revision > after, revisions.c.revision <= upto)
        .order_by(revisions.c.revision)
    ).all()
    if len(rows) != upto - after:
        raise BadInput(f"agent {agent_id!r}: the accounts from revision {after} to {upto} are not all there")
    return (Account.from_json(row.account) for row in rows)


def _since(connection: Connection, agent_id: str, upto: int) -> dict[str, int]:
    """The revision in which each line last changed, as far as the accounts tell."""
    since: dict[str, int] = {}
    rows = connection.execute(
        select(revisions.c.revision, revisions.c.account)
        .where(revisions.c.agent_id == agent_id, revisions.c.revision <= upto)
        .order_by(revisions.c.revision)
    )
    for row in rows:
        for change in Account.from_json(row.account).changes:
            lines = change.section.lines if change.op == "create" else ()
            lines = change.put if change.op == "update" else lines
            since.update(dict.fromkeys((line.id for line in lines), row.revision))
    return since


def _witnesses(connection: Connection, agent_id: str, ids: set[str]) -> dict[str, list[Witness]]:
    rows = connection.execute(
        select(candidates, rooms.c.title)
        .outerjoin_from(
            candidates,
            rooms,
            (rooms.c.agent_id == candidates.c.agent_id) & (rooms.c.room_id == candidates.c.room_id),
        )
        .where(candidates.c.agent_id == agent_id)
    ).mappings()
    found: dict[str, list[Witness]] = {}
    wanted = [row for row in rows if row["candidate_id"] in ids]
    said = _messages(connection, agent_id, {row["room_id"] for row in wanted})
    for row in wanted:
        for given in row["evidence"]:
            evidence = Evidence.model_validate(given)
            message = said.get((row["room_id"], evidence.message_id))
            found.setdefault(row["candidate_id"], []).append(
                Witness(
                    candidate_id=row["candidate_id"],
                    fate=row["state"],
                    room_id=row["room_id"],
                    room_title=row["title"] or "",
                    message_id=evidence.message_id,
                    author=(message.author_name or message.author_id) if message else "",
                    said_at_ms=message.said_at_ms if message else row["said_at_ms"],
                    quote=evidence.quote,
                    text_is_kept=message is not None and message.expired_ms is None,
                )
            )
    return found


def _messages(connection: Connection, agent_id: str, in_rooms: set[str]) -> dict[tuple[str, str], Any]:
    rows = connection.execute(
        select(
            messages.c.room_id,
            messages.c.message_id,
            messages.c.author_id,
            messages.c.author_name,
            messages.c.said_at_ms,
            messages.c.expired_ms,
        ).where(messages.c.agent_id == agent_id, messages.c.room_id.in_(sorted(in_rooms)))
    )
    return {(row.room_id, row.message_id): row for row in rows}


def current_number(connection: Connection, agent_id: str) -> int:
    """The number of the agent's current revision; 0 for one that has no memory or that nobody knows."""
    found = connection.execute(select(agents.c.revision).where(agents.c.agent_id == agent_id)).scalar()
    return int(found or 0)
