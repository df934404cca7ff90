"""Reading an agent's memory from the database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError
from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from takeaways.schemas.database import Database
from takeaways.schemas.errors import BadInput, NotFound, StoreUnavailable
from takeaways.schemas.memories import EMPTY, Memory, Section, SessionSummary
from takeaways.schemas.tables import agents, revisions, rooms, section_texts

ROOMS_SHOWN: Final = 30
_DIGESTS_A_QUERY: Final = 500


@dataclass(frozen=True, slots=True)
class Revision:
    """One whole version of an agent's memory. Number 0 is the empty memory that every agent is born with."""

    number: int
    memory: Memory
    made_at_ms: int


UNBORN: Final = Revision(0, EMPTY, 0)


@contextmanager
def snapshot(database: Database) -> Iterator[Connection]:
    """A transaction in which all that is read is from one moment. Raises `StoreUnavailable`."""
    with answered_or_unavailable(), database.read() as connection:
        if not database.is_sqlite:
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield connection


@contextmanager
def answered_or_unavailable() -> Iterator[None]:
    """Translate the database's failures to `StoreUnavailable`; the text names the kind and quotes no data."""
    try:
        yield
    except (DBAPIError, PoolTimeout) as error:
        kind = type(getattr(error, "orig", None) or error).__name__
        raise StoreUnavailable(
            f"the database did not answer ({kind}); see that it runs, that its URL is right "
            "and that its tables are there"
        ) from error


def load_memory(connection: Connection, agent_id: str, revision: int | None = None) -> Revision:
    """The current memory of an agent, or the one of `revision`.

    An agent that nobody knows, that was erased or that has no memory yet has revision 0, which is empty.
    Raises `NotFound` for a revision that is not there, `BadInput` for one that was thinned out.
    """
    if revision == 0:
        return UNBORN
    wanted = select(revisions.c.revision, revisions.c.sections, revisions.c.made_at_ms)
    wanted = wanted.where(revisions.c.agent_id == agent_id)
    if revision is None:
        current = select(agents.c.revision).where(agents.c.agent_id == agent_id).scalar_subquery()
        row = connection.execute(wanted.where(revisions.c.revision == current)).one_or_none()
    else:
        row = connection.execute(wanted.where(revisions.c.revision == revision)).one_or_none()
    if row is None:
        if revision is None:
            return UNBORN
        raise NotFound(
            f"agent {agent_id!r} has no revision {revision}; it may have been thinned out or erased"
        )
    if row.sections is None:
        raise BadInput(
            f"revision {row.revision} of agent {agent_id!r} was thinned out; `takeaways memory show "
            f"--revision {row.revision}` makes it again from the accounts"
        )
    sections = _sections(connection, agent_id, row.sections)
    missing = sum(digest not in sections for digest in row.sections)
    if missing:
        raise StoreUnavailable(
            f"revision {row.revision} of agent {agent_id!r} names {missing} sections that are not stored"
        )
    return Revision(
        row.revision, Memory(sections=tuple(sections[digest] for digest in row.sections)), row.made_at_ms
    )


def load_session_summaries(
    connection: Connection, agent_id: str, limit: int = ROOMS_SHOWN
) -> list[SessionSummary]:
    """The summaries of the most recently active rooms, newest first; rooms without one are passed over."""
    rows = connection.execute(
        select(rooms.c.room_id, rooms.c.title, rooms.c.summary, rooms.c.last_activity_ms)
        .where(rooms.c.agent_id == agent_id, rooms.c.summary.is_not(None), rooms.c.summary != "")
        .order_by(rooms.c.last_activity_ms.desc().nulls_last(), rooms.c.room_id)
        .limit(limit)
    )
    return [
        SessionSummary(
            room_id=row.room_id,
            title=row.title or "",
            text=row.summary,
            last_activity_ms=row.last_activity_ms or 0,
        )
        for row in rows
    ]


def _sections(connection: Connection, agent_id: str, digests: Sequence[str]) -> dict[str, Section]:
    found: dict[str, Section] = {}
    for start in range(0, len(digests), _DIGESTS_A_QUERY):
        rows = connection.execute(
            select(section_texts.c.digest, section_texts.c.content).where(
                section_texts.c.agent_id == agent_id,
                section_texts.c.digest.in_(digests[start : start + _DIGESTS_A_QUERY]),
            )
        )
        for row in rows:
            found[row.digest] = _section(agent_id, row.digest, row.content)
    return found


def _section(agent_id: str, digest: str, content: object) -> Section:
    try:
        return Section.model_validate(content)
    except ValidationError as error:
        raise StoreUnavailable(
            f"section {digest} of agent {agent_id!r} cannot be read: {error.error_count()} fields are not "
            "as this version of Takeaways knows them; upgrade the reader to the version of the workers"
        ) from None
