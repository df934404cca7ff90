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
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import structlog
from sqlalchemy import Connection, case, select, update

from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.errors import (
    AnswerCut,
    AnswerUnreadable,
    BadInput,
    CallAborted,
    EditRefused,
    FencedOff,
    ModelRefused,
    ModelRejected,
    ModelUnavailable,
    TooLong,
)
from takeaways.schemas.ids import why_bad
from takeaways.schemas.queues import Kind
from takeaways.schemas.secrets import mask
from takeaways.schemas.tables import agents, jobs
from takeaways.workers.asking import NotAdmitted, OutOfTokens, ask_model
from takeaways.workers.budgets import LEAST_ROOM_TOKENS, WindowTooSmall, step_tokens
from takeaways.workers.endings import SPREAD, Ending, Fault, back_off_seconds, ending_after, fault_of
from takeaways.workers.faults import fault_point
from takeaways.workers.leases import (
    Claimed,
    Heartbeat,
    Lease,
    NotClaimed,
    claim,
    fenced,
    hold_off,
    release,
)
from takeaways.workers.leases.claim import lock
from takeaways.workers.models import Answered, Call, MemoryModel, Usage
from takeaways.workers.models.limiter import Limiter
from takeaways.workers.models.prices import Price, cost_microdollars
from takeaways.workers.models.resolve import AgentModel
from takeaways.workers.models.shelf import Chosen, Models
from takeaways.workers.outcomes import Outcome, level_of
from takeaways.workers.schedule.decide import Decision, Hold
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.spending import day_of

log = structlog.get_logger(__name__)

PARKED_SECONDS = 3600.0
MAX_HALVINGS = 3

A = TypeVar("A")
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
    def models(self) -> Models: ...
    @property
    def limiter(self) -> Limiter: ...
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
    model: str | None = None
    calls: int = 0
    cached_tokens: int = 0
    cost_microdollars: int | None = None
    waited_seconds: float | None = None
    """From when the work was due to the claim; None where nothing was claimed."""
    wait_seconds: float | None = None
    """How long nothing of the agent may start now."""
    grown: Grown | None = None
    set_aside: bool = False
    """Whether something was quarantined: a person may want to look."""

    @property
    def words(self) -> str:
        """The result as Flower shows it: the ending, what came of it, and what it cost."""
        counts = {
            "messages read": self.messages_read,
            "candidates made": self.candidates_made,
            "candidates settled": self.candidates_settled,
            "tokens": self.input_tokens + self.output_tokens,
        }
        parts = [f"{number:,} {what}" for what, number in counts.items() if number]
        if self.revision is not None:
            parts.append(f"revision {self.revision}")
        if self.wait_seconds:
            parts.append(f"again in {self.wait_seconds:,.0f} s")
        if detail := self.detail or (self.outcome.meaning if self.set_aside else None):
            parts.append(detail)
        if self.job_id:
            parts.append(f"job {self.job_id}")
        return ": ".join(filter(None, (self.outcome.value, "; ".join(parts))))


@dataclass(frozen=True, slots=True)
class Grown:
    """The memory before and after a consolidation: its lines, and the tokens that it takes afterwards."""

    lines_before: int
    lines_after: int
    tokens: int


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
    written_tokens: int = 0
    cost_microdollars: int | None = 0
    revision: int | None = None
    model: str | None = None
    price: Price | None = None
    grown: Grown | None = None
    set_aside: Outcome | None = None
    recorded_tokens: int = 0

    def spent(self, usage: Usage, model: str) -> None:
        """Add what a call cost, whether it brought an answer or not. Without a price the sum is unknown."""
        self.model = model
        if not usage.calls:
            return
        self.calls += usage.calls
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cached_tokens += usage.cached_tokens
        self.written_tokens += usage.written_tokens
        cost = cost_microdollars(usage, self.price)
        known = cost is not None and self.cost_microdollars is not None
        self.cost_microdollars = (self.cost_microdollars or 0) + (cost or 0) if known else None

    def grew(self, lines_before: int, lines_after: int, tokens: int) -> None:
        """Note what a step made of the memory. Over several steps it is what it was before the first."""
        first = lines_before if self.grown is None else self.grown.lines_before
        self.grown = Grown(first, lines_after, tokens)

    @property
    def unrecorded_tokens(self) -> int:
        """What the agent's day does not yet count."""
        return self.input_tokens + self.output_tokens - self.recorded_tokens

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
    waited_seconds: float = 0.0
    tally: Tally = field(default_factory=Tally)
    halvings: int = 0
    _chosen: Chosen | None = None
    _window: int | None = None
    _asked_tokens: int = 0
    _refused_tokens: int = 0
    _most_tokens: int | None = None
    _too_long: TooLong | AnswerCut | None = None

    @property
    def model(self) -> MemoryModel:
        """The model that works for this agent. Raises `ModelUnavailable` where the provider must be asked first."""
        return self._choice.model

    @property
    def window(self) -> int:
        """The window that its steps are measured by."""
        return self._choice.window if self._window is None else self._window

    @property
    def _choice(self) -> Chosen:
        if self._chosen is None:
            self._chosen = self.services.models.chosen(self.lease.kind, self.lease.agent)
            self.tally.price = self._chosen.price
        return self._chosen

    def ask(self, tokens: int, call: Callable[[], Answered[A]]) -> Answered[A]:
        """One call of the model whose step takes `tokens`. A step that was too large is not sent again as it is."""
        if self._too_long is not None and tokens >= self._refused_tokens:
            raise self._too_long
        self._asked_tokens = tokens
        return ask_model(self, tokens, call)

    def at_most(self, room_tokens: int) -> int:
        """What a step may take of `room_tokens`, after larger ones were too long."""
        return room_tokens if self._most_tokens is None else min(room_tokens, self._most_tokens)

    def shrink(self, error: TooLong | AnswerCut) -> bool:
        """Halve the step, by the provider's number where it gave one. False when it cannot be made smaller."""
        if error is self._too_long or self.halvings >= MAX_HALVINGS:
            return False
        self.halvings += 1
        self._too_long, self._refused_tokens = error, self._asked_tokens
        # Below that a short message would be cut to nothing, and count as read.
        self._most_tokens = max(self._asked_tokens // 2, LEAST_ROOM_TOKENS)
        limit = error.limit_tokens if isinstance(error, TooLong) else None
        if limit is not None and limit < step_tokens(self.window):
            self._window = limit
        return True

    def fit_into_today(self, left: int) -> bool:
        """Make the step so small that the agent's tokens of today suffice. False when nothing useful is left."""
        room_tokens = (left - self.model.overhead_tokens(self.lease.kind)) * 3 // 4
        if room_tokens < LEAST_ROOM_TOKENS or room_tokens >= self._asked_tokens:
            return False
        self._most_tokens = self.at_most(room_tokens)
        return True

    def begin_anew(self) -> None:
        """What comes next is planned in full again."""
        self.halvings, self._most_tokens, self._too_long = 0, None, None

    def record(self, connection: Connection, *, progress: bool = True, **more: Any) -> None:
        """Write the tally into the job's row, and what was spent into the agent's day, within the transaction
        that commits the step.

        An ending writes no `progress`: each step has recorded its own, and one whose commit failed made none.
        """
        tally = self.tally
        made: dict[str, Any] = {
            "messages_read": tally.messages_read,
            "candidates_made": tally.candidates_made,
            "candidates_settled": tally.candidates_settled,
            "revision": tally.revision,
        }
        chosen = self._chosen
        connection.execute(
            update(jobs)
            .where(jobs.c.job_id == self.lease.job_id)
            .values(
                calls=tally.calls,
                input_tokens=tally.input_tokens,
                output_tokens=tally.output_tokens,
                cached_tokens=tally.cached_tokens,
                written_tokens=tally.written_tokens,
                cost_microdollars=tally.cost_microdollars,
                model=tally.model,
                window=self.window if chosen else None,
                prompt_version=chosen.model.prompt_version if chosen else None,
                **(made if progress else {}),
                **more,
            )
        )
        if spent := tally.unrecorded_tokens:
            day = day_of(now_ms(connection))
            before = case((agents.c.spent_day == day, agents.c.spent_tokens), else_=0)
            connection.execute(
                update(agents)
                .where(agents.c.agent_id == self.lease.agent_id)
                .values(spent_day=day, spent_tokens=before + spent)
            )
            tally.recorded_tokens += spent


class Work(Protocol):
    """The steps of one kind of job."""

    def step(self) -> bool:
        """Do the next piece of the pass and commit it. False when nothing of the pass is left."""
        ...

    def narrow(self) -> bool:
        """From now on, put into a step only what belongs together. False where the step at hand already is so."""
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
    if isinstance(claimed, NotClaimed):
        return _not_claimed(claimed)
    fault_point("after_claim")
    return _run(claimed, services, phase)


def _held_by_its_model(kind: Kind, agent_id: str, services: JobServices) -> JobResult | None:
    """The result for an agent whose model nobody may ask now; None where it may be asked."""
    with services.database.read() as connection:
        row = connection.execute(
            select(agents.c.model, agents.c.model_window).where(agents.c.agent_id == agent_id)
        ).one_or_none()
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
        except (ModelUnavailable, AnswerUnreadable) as error:
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
        except (ModelRejected, EditRefused) as error:
            outcome = Outcome.REFUSED_EDITS if isinstance(error, EditRefused) else Outcome.FAILED
            return Ending(
                outcome,
                str(error)[:2_000],
                back_off_seconds(lease.attempts, random.random()),  # noqa: S311 - jitter, not a secret
            )
        fault_point("after_step")
        if services.drain.is_set():
            return Ending(Outcome.INTERRUPTED)
        if time.monotonic() >= slice_ends:
            return Ending(Outcome.CONTINUES)


def _stopped_by(error: ModelUnavailable | AnswerUnreadable, job: Job) -> Ending:
    """Tell the limiter, so that no other worker has to find out, and end the job."""
    lease = job.lease
    fault = fault_of(error) or Fault()
    name = getattr(error, "model", "") or job.services.models.name_for(lease.kind, lease.agent)
    trouble = job.services.limiter.failed(
        name,
        lease.agent_id,
        least_seconds=fault.least_seconds,
        enough=fault.enough,
        why=str(error),
        parked=fault.parked,
    )
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
