"""Kept answers: what a model said stays until it is committed, so that a crash in between asks no second time.

At most one for each agent and kind of job: whoever holds the lease asks one thing at a time. An answer is
found again by the hash of what was asked, by whatever job comes next; the lease fences its writing like any
other commit. The commit drops it, an erasure does, and the sweep after a day.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog
from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection, delete, select

from takeaways.schemas.database import Database, assert_no_transaction, now_expression, now_ms
from takeaways.schemas.errors import AnswerUnreadable, EditRefused
from takeaways.schemas.ids import digest
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import kept_answers
from takeaways.workers.faults import fault_point
from takeaways.workers.leases import fenced
from takeaways.workers.models import Answered, MemoryModel
from takeaways.workers.models.requests import ConsolidationRequest, ExtractionRequest
from takeaways.workers.secrets import mask_answer

if TYPE_CHECKING:
    from takeaways.workers.jobs.job import Job

log = structlog.get_logger(__name__)

KEPT_HOURS: Final = 24
_HOUR_MS: Final = 3_600_000

A = TypeVar("A", bound=BaseModel)
Checked = TypeVar("Checked")


@dataclass(frozen=True, slots=True)
class Kept(Generic[A]):
    answer: A
    model: str


def asked_once(
    job: Job,
    request: ExtractionRequest | ConsolidationRequest,
    ask: Callable[[], Answered[A]],
    check: Callable[[A], Checked],
    answers: type[A],
) -> Checked:
    """`check` of the answer that an earlier job left uncommitted, or else of a new one, which is kept first.

    Only what passes `check` is kept: a bad answer must be asked for again, not read again. The call is recorded
    with the job that made it, in the same commit. Raises what `ask` and `check` raise, and `FencedOff`.
    """
    lease = job.lease
    asked = prompt_hash(lease.kind, request, job.model)
    with job.services.database.read() as connection:
        kept = find(connection, lease.agent_id, lease.generation, lease.kind, asked, answers)
    if kept is not None:
        try:
            checked = check(kept.answer)
        except (AnswerUnreadable, EditRefused):
            log.info("a kept answer no longer passes; the model is asked again")
        else:
            job.tally.model = kept.model
            return checked
    assert_no_transaction()
    fault_point("before_model")
    answered = ask()
    fault_point("after_model")
    job.tally.spent(answered.usage, answered.model)
    answer = mask_answer(answered.answer)
    checked = check(answer)
    with fenced(job.services.database, lease) as (connection, _):
        drop(connection, lease.agent_id, lease.kind)
        connection.execute(
            kept_answers.insert().values(
                agent_id=lease.agent_id,
                kind=lease.kind.value,
                generation=lease.generation,
                prompt_hash=asked,
                job_id=lease.job_id,
                model=answered.model,
                # As ASCII: what a model says may hold what a database's text does not take.
                answer=json.dumps(answer.model_dump(mode="python"), ensure_ascii=True),
                kept_at_ms=now_ms(connection),
            )
        )
        job.record(connection)
    return checked


def prompt_hash(kind: Kind, request: ExtractionRequest | ConsolidationRequest, model: MemoryModel) -> str:
    """Equal only where the same model, under the same instructions, is asked the same."""
    return digest(kind.value, model.name, model.prompt_version, repr(request))


def find(
    connection: Connection, agent_id: str, generation: int, kind: Kind, asked: str, answers: type[A]
) -> Kept[A] | None:
    """The answer kept for this question, or None. One that cannot be read any more counts as none."""
    row = connection.execute(
        select(kept_answers.c.answer, kept_answers.c.model).where(
            kept_answers.c.agent_id == agent_id,
            kept_answers.c.generation == generation,
            kept_answers.c.kind == kind.value,
            kept_answers.c.prompt_hash == asked,
        )
    ).one_or_none()
    if row is None:
        return None
    try:
        return Kept(answers.model_validate(json.loads(row.answer)), row.model)
    except (ValidationError, ValueError):
        return None


def drop(connection: Connection, agent_id: str, kind: Kind | None = None) -> None:
    """Forget what is kept for an agent, of one kind or of both, within the caller's transaction."""
    gone = delete(kept_answers).where(kept_answers.c.agent_id == agent_id)
    connection.execute(gone if kind is None else gone.where(kept_answers.c.kind == kind.value))


def drop_old(database: Database, *, keep_hours: float = KEPT_HOURS) -> int:
    """Delete answers that nobody came back for in so long. Returns how many."""
    with database.read() as connection:
        past = kept_answers.c.kept_at_ms < now_expression(connection.dialect.name) - round(
            keep_hours * _HOUR_MS
        )
        if connection.execute(select(kept_answers.c.agent_id).where(past).limit(1)).first() is None:
            return 0
    with database.write() as connection:
        past = kept_answers.c.kept_at_ms < now_expression(connection.dialect.name) - round(
            keep_hours * _HOUR_MS
        )
        return connection.execute(delete(kept_answers).where(past)).rowcount
