"""Running one job: claim, work in steps under the lease, release. Both kinds of job go through here.

*When*: a hint says that an agent may have work; `claim` decides whether it has.
*What*: steps of the pass, each with one call to the model outside any transaction and one fenced commit,
until the pass is done, the slice is over, or something ends it.
*How it can end*: the words of `Outcome`. Every ending is stored in `jobs` with what it read and cost.
"""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import replace
from typing import Any

import structlog
from sqlalchemy import bindparam, select, update
from sqlalchemy.exc import DBAPIError

from takeaways.schemas.database import is_lock_timeout, now_ms
from takeaways.schemas.errors import (
    AnswerCut,
    AnswerUnreadable,
    CallAborted,
    EditRefused,
    FencedOff,
    ModelRefused,
    ModelRejected,
    ModelUnavailable,
    TooLong,
)
from takeaways.schemas.queues import Kind
from takeaways.schemas.secrets import mask
from takeaways.schemas.tables import agents
from takeaways.workers.faults import fault_point
from takeaways.workers.jobs.asking import NotAdmitted, OutOfTokens
from takeaways.workers.jobs.budgets import WindowTooSmall
from takeaways.workers.jobs.endings import SPREAD, Ending, back_off_seconds, ending_after, fault_of
from takeaways.workers.jobs.job import Job, JobServices, Phase, Work
from takeaways.workers.jobs.outcomes import Outcome, level_of
from takeaways.workers.jobs.result import JobResult
from takeaways.workers.jobs.tally import Tally
from takeaways.workers.leases import Claimed, NotClaimed, claim, fenced, hold_off, release
from takeaways.workers.leases.claim import lock
from takeaways.workers.models import Call
from takeaways.workers.models.limiter import PLAIN_FAULT
from takeaways.workers.models.resolve import AgentModel
from takeaways.workers.schedule.decide import Decision, Hold

log = structlog.get_logger(__name__)

PARKED_SECONDS = 3600.0
_MODEL_OF = select(agents.c.model, agents.c.model_window).where(agents.c.agent_id == bindparam("agent_id"))


def run_job(
    kind: Kind, agent_id: str, services: JobServices, *, phase: Phase = lambda name: None
) -> JobResult:
    """Run one job for an agent, if it has work of this kind. Safe to call at any time, any number of times.

    Raises what nobody expected (after the lease was given back and the ending stored), so that it is seen.
    """
    if services.drain.is_set():
        return JobResult(Outcome.INTERRUPTED, detail="the worker shuts down")
    try:
        if (held := _held_by_its_model(kind, agent_id, services)) is not None:
            return held
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
    except DBAPIError as error:
        if not is_lock_timeout(error):
            raise
        return JobResult(Outcome.BUSY, detail="another process keeps the agent's row locked")
    if isinstance(claimed, NotClaimed):
        return _not_claimed(claimed)
    fault_point("after_claim")
    return _run(claimed, services, phase)


def _held_by_its_model(kind: Kind, agent_id: str, services: JobServices) -> JobResult | None:
    """The result for an agent whose model nobody may ask now; None where it may be asked."""
    with services.database.read() as connection:
        row = connection.execute(_MODEL_OF, {"agent_id": agent_id}).one_or_none()
    if row is None:
        return None
    model = services.models.name_for(kind, AgentModel(row.model, row.model_window))
    if (paused := services.limiter.paused(model)) is None:
        return None
    held = hold_off(
        services.database,
        agent_id,
        kind,
        policy=services.policy,
        wait_seconds=paused.seconds * random.uniform(1.0, 1.0 + SPREAD),  # noqa: S311 - jitter, not a secret
        because=paused.why if paused.parked else None,
    )
    if held.decision is None or held.decision.hold not in (Hold.NOT_YET, Hold.PARKED):
        return _not_claimed(held)
    return JobResult(
        Outcome.PARKED if paused.parked else Outcome.OVERLOADED,
        detail=paused.why,
        model=model,
        wait_seconds=paused.seconds,
    )


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
        job = Job(lease, services, Call(services.policy.call_seconds, abort), phase, claimed.waited_ms / 1000)
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
                Ending(
                    Outcome.FAILED,
                    f"{type(error).__name__}",
                    back_off_seconds(lease.attempts, random.random()),  # noqa: S311 - jitter, not a secret
                ),
            )
            raise
        return _try_to_end(job, work, ending)


def _work_of(job: Job) -> Work:
    if job.lease.kind is Kind.EXTRACTION:
        from takeaways.workers.extraction.handler import Extraction

        return Extraction(job)
    from takeaways.workers.consolidation.handler import Consolidation

    return Consolidation(job)


def _steps(job: Job, work: Work) -> Ending:
    lease, services = job.lease, job.services
    slice_ends = time.monotonic() + services.policy.slice_seconds
    if lease.exhausted:
        work.set_aside(Outcome.QUARANTINED, f"tried {lease.attempts - 1} times without an ending")
    while True:
        try:
            if not work.step():
                return Ending(_done(job.tally), pass_done=True)
        except ModelRefused as refused:
            job.begin_anew()
            if not work.narrow():
                work.set_aside(Outcome.REFUSED, str(refused))
        except (TooLong, AnswerCut) as too_large:
            if not job.shrink(too_large):
                job.begin_anew()
                work.narrow()
                why = Outcome.TOO_LONG if isinstance(too_large, TooLong) else Outcome.UNREADABLE_ANSWER
                work.set_aside(why, str(too_large))
        except OutOfTokens as out:
            if not job.fit_into_today(out.left):
                return Ending(
                    Outcome.DAILY_TOKENS,
                    str(out),
                    out.next_day_seconds,
                    parked_because=str(out),
                    attempt_back=True,
                )
        except NotAdmitted as waits:
            wait_seconds = waits.wait_seconds * random.uniform(1.0, 2.0)  # noqa: S311 - jitter, not a secret
            return Ending(Outcome.OVERLOADED, str(waits), wait_seconds, attempt_back=True)
        except (ModelUnavailable, AnswerUnreadable, ModelRejected) as error:
            return _stopped_by(error, job)
        except CallAborted:
            return Ending(Outcome.INTERRUPTED)
        except WindowTooSmall as too_small:
            return Ending(
                Outcome.PARKED,
                str(too_small),
                PARKED_SECONDS,
                parked_because=str(too_small),
                attempt_back=True,
            )
        except EditRefused as error:
            return Ending(
                Outcome.REFUSED_EDITS,
                str(error)[:2_000],
                back_off_seconds(lease.attempts, random.random()),  # noqa: S311 - jitter, not a secret
            )
        fault_point("after_step")
        if services.drain.is_set():
            return Ending(Outcome.INTERRUPTED)
        if time.monotonic() >= slice_ends:
            return Ending(Outcome.CONTINUES)


def _stopped_by(error: ModelUnavailable | AnswerUnreadable | ModelRejected, job: Job) -> Ending:
    """Tell the limiter, so that no other worker has to find out, and end the job."""
    lease = job.lease
    name = getattr(error, "model", "") or job.services.models.name_for(lease.kind, lease.agent)
    fault = fault_of(error) or PLAIN_FAULT
    trouble = job.services.limiter.failed(name, lease.agent_id, fault, why=str(error))
    return ending_after(error, trouble=trouble, attempts=lease.attempts, jitter=random.random())  # noqa: S311 - jitter, not a secret


def _done(tally: Tally) -> Outcome:
    if tally.set_aside is not None:
        return tally.set_aside
    return Outcome.REMEMBERED if tally.stored_something else Outcome.NOTHING_TO_REMEMBER


def _try_to_end(job: Job, work: Work, ending: Ending) -> JobResult:
    fault_point("before_release")
    if ending.detail is not None:
        ending = replace(
            ending,
            detail=mask(ending.detail),
            parked_because=ending.parked_because and mask(ending.parked_because),
        )
    try:
        decision = _end(job, work, ending)
    except FencedOff:
        return _fenced_off(job)
    fault_point("after_release")
    tally = job.tally
    log.log(
        level_of(ending.outcome, set_aside=tally.set_aside is not None),
        "ended",
        outcome=ending.outcome,
        reason=job.lease.work.reason,
        messages_read=tally.messages_read,
        tokens=tally.input_tokens + tally.output_tokens,
        detail=ending.detail,
    )
    if decision.next is not None and decision.reason is not None:
        job.services.hints.hint(decision.next, job.lease.agent_id, decision.reason)
    return _result(job, ending.outcome, ending.detail, ending.wait_seconds)


def _end(job: Job, work: Work, ending: Ending) -> Decision:
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
        if ending.parked_because is not None:
            values["parked_because"] = ending.parked_because
        job.record(
            connection,
            progress=False,
            outcome=ending.outcome.value,
            detail=ending.detail,
            ended_ms=now_ms(connection),
        )
        return release(
            connection,
            lock(connection, lease.agent_id) or row,
            lease,
            policy=services.policy,
            attempt_back=(ending.outcome.gives_attempt_back or ending.attempt_back) and not ending.pass_done,
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
        job.record(connection, progress=False, outcome=Outcome.FENCED_OFF.value, ended_ms=now_ms(connection))
    return _result(job, Outcome.FENCED_OFF, None)


def _result(job: Job, outcome: Outcome, detail: str | None, wait_seconds: float | None = None) -> JobResult:
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
        model=tally.model,
        calls=tally.calls,
        cached_tokens=tally.cached_tokens,
        cost_microdollars=tally.cost_microdollars,
        waited_seconds=job.waited_seconds,
        wait_seconds=wait_seconds,
        grown=tally.grown,
        set_aside=tally.set_aside is not None,
    )
