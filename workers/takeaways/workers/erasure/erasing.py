"""The steps of an erasure that no transaction can hold: streams, dead letters, folders, the database's own log.

Each may be repeated. An erasure stays open in `erasures`, and whoever sweeps goes on with it, until all of
them are done; its account then says what they found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog
from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy import RowMapping, delete, func, or_, select, update

from takeaways.recall.workspaces import FAILED, Workspaces
from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.errors import StoreUnavailable
from takeaways.schemas.queues import STREAMS
from takeaways.schemas.tables import dead_letters, erasures, workspaces
from takeaways.workers.erasure.mentions import mentions
from takeaways.workers.intake.scripts import script

log = structlog.get_logger(__name__)

_AT_ONCE: Final = 100
_ENTRIES_AT_ONCE: Final = 500
_LETTERS_AT_ONCE: Final = 50
_CLOCKS_APART_MS: Final = 60_000
"""Entries are dated by the clock of Redis, erasures by the database's."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a step found. `left` is what keeps the erasure open."""

    found: Mapping[str, int]
    left: int = 0


def go_on(database: Database, redis: Redis | None) -> int:
    """Go on with open erasures; returns how many are done now. Without Redis they stay open."""
    with database.read() as connection:
        waiting = (
            connection.execute(
                select(erasures)
                .where(erasures.c.done_ms.is_(None))
                .order_by(erasures.c.asked_ms)
                .limit(_AT_ONCE)
            )
            .mappings()
            .all()
        )
    if not waiting:
        return 0
    streams = _streams(redis, max(row["asked_ms"] for row in waiting))
    ended = {row["erasure_id"]: _ended(database, row, streams) for row in waiting}
    # Last, because what the other steps deleted is in the log too.
    logged = not database.checkpoint()
    done = 0
    with database.write() as connection:
        for erasure_id, steps in sorted(ended.items()):
            found: dict[str, Any] = {name: number for step in steps for name, number in step.found.items()}
            left = sum(step.left for step in steps) + logged
            done += not left
            connection.execute(
                update(erasures)
                .where(erasures.c.erasure_id == erasure_id)
                .values(account=found, done_ms=None if left else now_ms(connection))
            )
    return done


def _ended(database: Database, row: RowMapping, streams: Step) -> tuple[Step, ...]:
    return streams, _letters(database, row), _folders(database, row)


def _streams(redis: Redis | None, upto_ms: int) -> Step:
    """Delete what was acknowledged; what was not is dropped by the intake, and then deleted the next time."""
    if redis is None:
        return Step({}, 1)
    deleted = needed = 0
    try:
        forget = redis.register_script(script("entry_ids", "forget"))
        for stream in STREAMS:
            after = "-"
            while after:
                answer: Any = forget(
                    keys=[stream], args=[f"{upto_ms + _CLOCKS_APART_MS}-0", _ENTRIES_AT_ONCE, after]
                )
                deleted += int(answer[0])
                needed += int(answer[1])
                after = answer[2].decode() if isinstance(answer[2], bytes) else str(answer[2])
    except (RedisError, OSError) as error:
        log.warning("an erasure waits for Redis", error=type(error).__name__)
        return Step({}, 1)
    return Step({"stream_entries": deleted}, needed)


def _letters(database: Database, row: RowMapping) -> Step:
    """Delete the dead letters that name what was erased, or whose agent nobody could make out."""
    agent_id, subject_id = row["agent_id"], row["subject_id"]
    after, gone = "", []
    while True:
        with database.read() as connection:
            found = connection.execute(
                select(dead_letters.c.dead_letter_id, dead_letters.c.agent_id, dead_letters.c.raw)
                .where(
                    dead_letters.c.dead_letter_id > after,
                    dead_letters.c.at_ms <= row["asked_ms"] + _CLOCKS_APART_MS,
                )
                .where(or_(dead_letters.c.agent_id == agent_id, dead_letters.c.agent_id.is_(None)))
                .order_by(dead_letters.c.dead_letter_id)
                .limit(_LETTERS_AT_ONCE)
            ).all()
        for letter in found:
            raw = bytes(letter.raw)
            of_agent = letter.agent_id == agent_id or mentions(raw, agent_id)
            if of_agent and (row["scope"] == "agent" or mentions(raw, subject_id)):
                gone.append(letter.dead_letter_id)
        if len(found) < _LETTERS_AT_ONCE:
            break
        after = found[-1].dead_letter_id
    if gone:
        with database.write() as connection:
            connection.execute(delete(dead_letters).where(dead_letters.c.dead_letter_id.in_(gone)))
    return Step({"dead_letters": len(gone) + int(row["account"].get("dead_letters", 0))})


def _folders(database: Database, row: RowMapping) -> Step:
    """Bring the folders on this machine up to date. Those on others are, by whoever watches them there."""
    here = Workspaces(database)
    with database.read() as connection:
        others = connection.execute(
            select(func.count())
            .select_from(workspaces)
            .where(workspaces.c.agent_id == row["agent_id"], workspaces.c.machine != here.machine)
        ).scalar_one()
    try:
        synced = here.sync([row["agent_id"]])
    except StoreUnavailable as error:
        log.warning("an erasure waits for the database", why=str(error))
        return Step({}, 1)
    # A folder that is gone, or not ours any more, shows nothing that we could take back.
    left = [one for one in synced if one.outcome == FAILED and Path(one.path).is_dir()]
    for one in left:
        log.warning("an erasure waits for a folder", folder=one.path, why=one.detail)
    return Step({"folders": len(synced), "folders_elsewhere": others}, len(left))
