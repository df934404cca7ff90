"""Running one job: claim, work in steps under the lease, release. Both kinds of job go through here.

*When*: a hint says that an agent may have work; `claim` decides whether it has.
*What*: steps of the pass, each with one call to the model outside any transaction and one fenced commit,
until the pass is done, the slice is over, or something ends it.
*How it can end*: the words of `Outcome`. Every ending is stored in `jobs` with what it read and cost.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog
from sqlalchemy import Connection, update

from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.errors import (
    AnswerUnreadable,
    BadInput,
    CallAborted,
    EditRefused,
    FencedOff,
    ModelRefused,
    ModelUnavailable,
    TooLong,
)
from takeaways.schemas.ids import why_bad
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents, jobs
from takeaways.workers.budgets import WindowTooSmall
from takeaways.workers.faults import fault_point
from takeaways.workers.leases import Claimed, Heartbeat, Lease, NotClaimed, claim, fenced, release
from takeaways.workers.models import Call, MemoryModel, Usage
from takeaways.workers.outcomes import Outcome
from takeaways.workers.schedule.decide import Decision, Hold
from takeaways.workers.schedule.policy import Policy

log = structlog.get_logger(__name__)

BACK_OFF_SECONDS = 15.0
BACK_OFF_MAX_SECONDS = 3600.0
PARKED_SECONDS = 3600.0
MAX_HALVINGS = 4

Phase = Callable[[str], None]


class Hinting(Protocol):
    def hint(self, kind: Kind, agent_id: str, reason: str) -> None: ...


class JobServices(Protocol):
    """What a job needs of the process it runs in. `drain` is set when no new work may be claimed."""

    @property
    def database(self) -> Database: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def owner(self) -> str: ...
    @property
    def model(self) -> MemoryModel: ...
    @property
    def heartbeat(self) -> Heartbeat: ...
    @property
    def hints(self) -> Hinting: ...
    @property
    def drain(self) -> threading.Event: ...


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended, in the words and numbers that people and Flower are shown. No message text."""

    outcome: Outcome
    job_id: str | None = None
    reason: str | None = None
    messages_read: int = 0
    candidates_made: int = 0
    candidates_settled: int = 0
    revision: int | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    detail: str | None = None


@dataclass(slots=True)
class Tally:
    """What a job has read, made and spent so far."""

    messages_read: int = 0
    candidates_made: int = 0
    candidates_settled: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    revision: int | None = None
    model: str | None = None
    set_aside: Outcome | None = None

    def spent(self, usage: Usage, model: str) -> None:
        self.calls += usage.calls
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cached_tokens += usage.cached_tokens
        self.model = model

    @property
    def stored_something(self) -> bool:
        return self.candidates_made > 0 or self.revision is not None


@dataclass(slots=True)
class Job:
    """One job at work, as the two kinds of `Work` see it."""

    lease: Lease
    services: JobServices
    call: Call
    phase: Phase
    tally: Tally = field(default_factory=Tally)
    halvings: int = 0

    def record(self, connection: Connection, **more: Any) -> None:
        """Write the tally into the job's row, within the transaction that commits the step."""
        tally = self.tally
        connection.execute(
            update(jobs)
            .where(jobs.c.job_id == self.lease.job_id)
            .values(
                messages_read=tally.messages_read,
                candidates_made=tally.candidates_made,
                candidates_settled=tally.candidates_settled,
                calls=tally.calls,
                input_tokens=tally.input_tokens,
                output_tokens=tally.output_tokens,
                cached_tokens=tally.cached_tokens,
                revision=tally.revision,
                model=tally.model,
                prompt_version=self.services.model.prompt_version,
                **more,
            )
        )


class Work(Protocol):
    """The steps of one kind of job."""

    def step(self) -> bool:
        """Do the next piece of the pass and commit it. False when nothing of the pass is left."""
        ...

    def set_aside(self, why: Outcome, detail: str) -> None:
        """Quarantine what `step` tries next, visibly, so that the rest goes on."""
        ...

    def finish(self, connection: Connection, row: Any) -> dict[str, Any]:
        """The agent's columns that end the pass: its marks, as they were read when it began."""
        ...


def run_job(
    kind: Kind, agent_id: str, services: JobServices, *, phase: Phase = lambda name: None
) -> JobResult:
    """Run one job for an agent, if it has work of this kind. Safe to call at any time, any number of times.

    Raises what nobody expected (after the lease was given back and the ending stored), so that it is seen.
    """
    if services.drain.is_set():
        return JobResult(Outcome.INTERRUPTED, detail="the worker shuts down")
    fault_point("before_claim")
    job_id = uuid.uuid4().hex
    claimed = claim(
        services.database,
        agent_id,
        kind,
        owner=services.owner,
        job_id=job_id,
        policy=services.policy,
    )
    if isinstance(claimed, NotClaimed):
        return _not_claimed(claimed)
    fault_point("after_claim")
    return _run(claimed, services, phase)


def _not_claimed(claimed: NotClaimed) -> JobResult:
    if claimed.decision is None:
        return JobResult(Outcome.NOTHING_DUE, detail="this agent was never heard of")
    held = claimed.decision.hold
    return JobResult(
        Outcome.BUSY if held is Hold.LEASED else Outcome.NOTHING_DUE, detail=held.value if held else None
    )


def _run(claimed: Claimed, services: JobServices, phase: Phase) -> JobResult:
    lease = claimed.lease
    deadline_seconds = services.policy.slice_seconds + 2 * services.policy.call_seconds
    with (
        structlog.contextvars.bound_contextvars(
            agent_id=lease.agent_id, job_id=lease.job_id, kind=lease.kind.value
        ),
        services.heartbeat.watch(lease, deadline_seconds=deadline_seconds) as abort,
    ):
        job = Job(lease, services, Call(services.policy.call_seconds, abort), phase)
        work = _work_of(job)
        log.info("claimed", epoch=lease.epoch, reason=lease.work.reason, attempts=lease.attempts)
        try:
            ending = _steps(job, work)
        except FencedOff:
            return _fenced_off(job)
        except Exception as error:
            # The lease is given back whatever went wrong; the attempt stays counted.
            _try_to_end(
                job,
                work,
                _Ending(Outcome.FAILED, f"{type(error).__name__}", _back_off_seconds(lease.attempts)),
            )
            raise
        return _try_to_end(job, work, ending)


@dataclass(frozen=True, slots=True)
class _Ending:
    outcome: Outcome
    detail: str | None = None
    wait_seconds: float | None = None
    pass_done: bool = False
    parked: bool = False


def _work_of(job: Job) -> Work:
    if job.lease.kind is Kind.EXTRACTION:
        from takeaways.workers.extraction.handler import Extraction

        return Extraction(job)
    from takeaways.workers.consolidation.handler import Consolidation

    return Consolidation(job)


def _steps(job: Job, work: Work) -> _Ending:
    lease, services = job.lease, job.services
    slice_ends = time.monotonic() + services.policy.slice_seconds
    if lease.exhausted:
        work.set_aside(Outcome.QUARANTINED, f"tried {lease.attempts - 1} times without an ending")
    while True:
        try:
            if not work.step():
                return _Ending(_done(job.tally), pass_done=True)
        except ModelRefused as refused:
            work.set_aside(Outcome.REFUSED, str(refused))
        except TooLong as too_long:
            if job.halvings >= MAX_HALVINGS:
                work.set_aside(Outcome.TOO_LONG, str(too_long))
                job.halvings = 0
            else:
                job.halvings += 1
        except ModelUnavailable as unavailable:
            wait_seconds = unavailable.retry_after_seconds * random.uniform(1.0, 1.2)  # noqa: S311 - jitter, not a secret
            return _Ending(Outcome.OVERLOADED, str(unavailable), wait_seconds)
        except CallAborted:
            return _Ending(Outcome.INTERRUPTED)
        except WindowTooSmall as too_small:
            return _Ending(Outcome.TOO_LONG, str(too_small), PARKED_SECONDS, parked=True)
        except AnswerUnreadable as unreadable:
            return _Ending(Outcome.UNREADABLE_ANSWER, str(unreadable), _back_off_seconds(lease.attempts))
        except EditRefused as refused_edits:
            return _Ending(
                Outcome.REFUSED_EDITS, str(refused_edits)[:2_000], _back_off_seconds(lease.attempts)
            )
        fault_point("after_step")
        if services.drain.is_set():
            return _Ending(Outcome.INTERRUPTED)
        if time.monotonic() >= slice_ends:
            return _Ending(Outcome.CONTINUES)


def _done(tally: Tally) -> Outcome:
    if tally.set_aside is not None:
        return tally.set_aside
    return Outcome.REMEMBERED if tally.stored_something else Outcome.NOTHING_TO_REMEMBER


def _back_off_seconds(attempts: int) -> float:
    """Full seconds to wait after the given number of attempts: doubling from 15 s, at most an hour, with jitter."""
    wait_seconds = min(BACK_OFF_SECONDS * 2.0 ** (attempts - 1), BACK_OFF_MAX_SECONDS)
    return wait_seconds * random.uniform(0.5, 1.0)  # noqa: S311 - jitter, not a secret


def _try_to_end(job: Job, work: Work, ending: _Ending) -> JobResult:
    fault_point("before_release")
    try:
        decision = _end(job, work, ending)
    except FencedOff:
        return _fenced_off(job)
    fault_point("after_release")
    log.info("ended", outcome=ending.outcome, messages_read=job.tally.messages_read, detail=ending.detail)
    if decision.next is not None and decision.reason is not None:
        job.services.hints.hint(decision.next, job.lease.agent_id, decision.reason)
    return _result(job, ending.outcome, ending.detail)


def _end(job: Job, work: Work, ending: _Ending) -> Decision:
    lease, services = job.lease, job.services
    with fenced(services.database, lease) as (connection, row):
        values: dict[str, Any] = {}
        if ending.pass_done:
            values = {
                **work.finish(connection, row),
                f"{lease.kind}_pass": None,
                "attempts": 0,
                "attempts_at": None,
            }
        if ending.wait_seconds is not None:
            values["not_before_ms"] = now_ms(connection) + round(ending.wait_seconds * 1000)
        if ending.parked:
            values["parked_because"] = ending.detail
        job.record(
            connection, outcome=ending.outcome.value, detail=ending.detail, ended_ms=now_ms(connection)
        )
        return release(
            connection,
            row,
            lease,
            policy=services.policy,
            attempt_back=(ending.outcome.gives_attempt_back or ending.parked) and not ending.pass_done,
            values=values,
        )


def _fenced_off(job: Job) -> JobResult:
    """Store the ending of a job whose lease was lost. The agent's row belongs to another epoch by now."""
    lease = job.lease
    log.warning("fenced off", epoch=lease.epoch)
    with job.services.database.write() as connection:
        connection.execute(
            update(agents)
            .where(agents.c.agent_id == lease.agent_id, agents.c.generation == lease.generation)
            .where(agents.c.attempts > 1, agents.c.attempts_at.like(f"{lease.kind}:%"))
            .values(attempts=agents.c.attempts - 1)
        )
        job.record(connection, outcome=Outcome.FENCED_OFF.value, ended_ms=now_ms(connection))
    return _result(job, Outcome.FENCED_OFF, None)


def _result(job: Job, outcome: Outcome, detail: str | None) -> JobResult:
    tally = job.tally
    return JobResult(
        outcome=outcome,
        job_id=job.lease.job_id,
        reason=job.lease.work.reason.value,
        messages_read=tally.messages_read,
        candidates_made=tally.candidates_made,
        candidates_settled=tally.candidates_settled,
        revision=tally.revision,
        input_tokens=tally.input_tokens,
        output_tokens=tally.output_tokens,
        detail=detail,
    )


def ask(database: Database, agent_ids: Iterable[str], kinds: Iterable[Kind]) -> int:
    """Mark extraction, consolidation or both as asked for, whatever the counts say. Returns the agents marked.

    The job that answers is the same as any other; it ends at once where nothing waits. An agent never heard of
    is not made. Raises `BadInput` for an id that breaks the rule.
    """
    wanted = list(agent_ids)
    for agent_id in wanted:
        if problem := why_bad(agent_id):
            raise BadInput(f"agent id: {problem}")
    marks: dict[str, Any] = {f"{kind}s_asked": agents.c[f"{kind}s_asked"] + 1 for kind in kinds}
    with database.write() as connection:
        marks["wake_at_ms"] = now_ms(connection)
        marked = 0
        for agent_id in sorted(wanted):
            marked += connection.execute(
                update(agents).where(agents.c.agent_id == agent_id).values(marks)
            ).rowcount
    return marked
