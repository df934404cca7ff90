"""One step of a consolidation: merge the oldest waiting candidates into the memory, as one new revision."""

from __future__ import annotations

from typing import Any

import structlog
from sqlalchemy import Connection, update
from sqlalchemy.engine import RowMapping

from takeaways.recall.store import Revision, load_memory
from takeaways.schemas.database import now_ms
from takeaways.schemas.errors import EditRefused
from takeaways.schemas.memories import Candidate, Memory
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents
from takeaways.workers.consolidation import store
from takeaways.workers.consolidation.account import with_trimming
from takeaways.workers.consolidation.became import became
from takeaways.workers.consolidation.edits import Account, Applied, Guards, apply
from takeaways.workers.consolidation.fit import Fitted, fit
from takeaways.workers.consolidation.offer import Offer, offer, offered_tokens
from takeaways.workers.consolidation.render import render
from takeaways.workers.consolidation.repair import SHARE, repairing
from takeaways.workers.jobs import kept_answers, quarantine
from takeaways.workers.jobs.budgets import consolidation_tokens, memory_tokens
from takeaways.workers.jobs.job import Job
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.leases import fenced
from takeaways.workers.leases.claim import attempts_key
from takeaways.workers.models import ConsolidationAnswer
from takeaways.workers.models.requests import ConsolidationRequest

log = structlog.get_logger(__name__)


class Consolidation:
    """The steps of a consolidation pass. The model is not called when no candidate waits."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def step(self) -> bool:
        """Merge one batch. False when no candidate waits up to the horizon."""
        job = self._job
        current, start, batch = self._plan()
        if batch is None:
            return False
        job.phase("consolidating")
        applied = self._ask(start.memory, batch)
        end = self._fit(applied.memory)
        account = with_trimming(
            applied.account, current.memory, end.memory, {**start.reasons(), **end.reasons()}
        )
        job.phase("writing")
        self._commit(current, batch, account, end.memory)
        return True

    def _ask(self, memory: Memory, batch: Offer) -> Applied:
        """The model's edits applied. An answer that breaks a rule is asked for once more, with the complaints."""
        job, model = self._job, self._job.model
        answers: list[ConsolidationAnswer] = []
        try:
            return self._asked(memory, batch, batch.request, answers)
        except EditRefused as refused:
            room_tokens = consolidation_tokens(job.window, model.overhead_tokens(Kind.CONSOLIDATION))
            again = repairing(
                batch.request, answers[-1], refused.complaints, room_tokens - batch.tokens, model.count_tokens
            )
            if again is None:
                raise
            log.info("the edits break a rule and are asked for again", complaints=len(refused.complaints))
        return self._asked(memory, batch, again, answers)

    def _asked(
        self,
        memory: Memory,
        batch: Offer,
        request: ConsolidationRequest,
        answers: list[ConsolidationAnswer],
    ) -> Applied:
        def check(answer: ConsolidationAnswer) -> Applied:
            answers.append(answer)
            return apply(memory, batch.candidates, batch, answer, Guards())

        job = self._job
        return kept_answers.asked_once(
            job,
            request,
            lambda: job.ask(
                job.model.count_tokens(render(request)), lambda: job.model.consolidate(request, job.call)
            ),
            check,
            ConsolidationAnswer,
        )

    def narrow(self) -> bool:
        """Candidates are merged into one memory: there is nothing to take apart."""
        return False

    def set_aside(self, why: Outcome, detail: str) -> None:
        """Quarantine the batch that comes next: the same candidates and memory always give the same batch."""
        job = self._job
        _, _, batch = self._plan()
        if batch is None:
            return
        ids = [candidate.id for candidate in batch.candidates]
        with fenced(job.services.database, job.lease) as (connection, row):
            quarantine_id = quarantine.put(
                connection, job.lease, items=len(ids), why=why, detail=detail, policy=job.services.policy
            )
            store.set_aside(connection, job.lease.agent_id, ids, quarantine_id)
            first_time = job.lease.work.quarantine_id is None
            self._progress(connection, row, settled=len(ids) if first_time else 0)
        job.tally.set_aside = why

    def finish(self, connection: Connection, row: RowMapping) -> dict[str, Any]:
        """The marks of the pass, as they were when it began. A pass without candidates moves them too."""
        work, agent_id = self._job.lease.work, self._job.lease.agent_id
        store.thin(connection, agent_id)
        store.drop_old_summaries(connection, agent_id, keep=self._job.services.policy.rooms_summarised)
        return {
            "compactions_served": max(row["compactions_served"], work.compactions),
            "consolidations_asked_served": max(row["consolidations_asked_served"], work.asked),
            "idle_served_ms": max(row["idle_served_ms"] or 0, work.last_success_ms or 0) or None,
            "consolidation_waited": False,
            **quarantine.next_retry(connection, agent_id, Kind.CONSOLIDATION),
        }

    def _plan(self) -> tuple[Revision, Fitted, Offer | None]:
        """The current revision, its memory within its share (a window may have become smaller), and the batch."""
        job = self._job
        work, model = job.lease.work, job.model
        with job.services.database.read() as connection:
            current = load_memory(connection, job.lease.agent_id)
            waiting = store.load_waiting(
                connection, job.lease.agent_id, upto=work.upto, quarantine_id=work.quarantine_id
            )
        if not waiting:
            return current, Fitted(current.memory), None
        room_tokens = consolidation_tokens(job.window, model.overhead_tokens(Kind.CONSOLIDATION))
        start = self._fit(current.memory)
        room_tokens -= round(room_tokens * SHARE)
        return current, start, offer(start.memory, waiting, job.at_most(room_tokens), model.count_tokens)

    def _fit(self, memory: Memory) -> Fitted:
        job = self._job
        model = job.model
        with job.services.database.read() as connection:
            at_ms = now_ms(connection)
            recalled = store.recalled(connection, job.lease.agent_id, memory)
        share_tokens = memory_tokens(job.window)
        return fit(
            memory, share_tokens, lambda shown: offered_tokens(shown, model.count_tokens), at_ms, recalled
        )

    def _commit(self, current: Revision, batch: Offer, account: Account, memory: Memory) -> None:
        job = self._job
        agent_id = job.lease.agent_id
        offered: dict[str, Candidate] = {candidate.id: candidate for candidate in batch.candidates}
        with fenced(job.services.database, job.lease) as (connection, row):
            kept_answers.drop(connection, agent_id, job.lease.kind)
            # An edited message may have taken a line or a candidate away while the model worked: plan again.
            if row["revision"] != current.number or store.still_waiting(connection, agent_id, offered) != set(
                offered
            ):
                return
            number = current.number + 1
            store.settle(
                connection,
                agent_id,
                became(current.memory, memory, account),
                settled_by=job.lease.job_id,
                revision=number,
            )
            store.save_revision(
                connection,
                agent_id,
                number,
                memory,
                account=account.to_json(),
                made_by="consolidation",
                job_id=job.lease.job_id,
            )
            if (quarantine_id := job.lease.work.quarantine_id) is not None:
                quarantine.lift(connection, quarantine_id)
            job.tally.candidates_settled += len(offered)
            job.tally.revision = number
            job.tally.grew(_lines(current.memory), _lines(memory), offered_tokens(memory))
            self._progress(connection, row, settled=0 if quarantine_id else len(offered))

    def _progress(self, connection: Connection, row: RowMapping, *, settled: int) -> None:
        """Move the counter; what comes next begins with a first attempt."""
        lease = self._job.lease
        connection.execute(
            update(agents)
            .where(agents.c.agent_id == lease.agent_id)
            .values(
                candidates_settled=row["candidates_settled"] + settled,
                attempts=1,
                attempts_at=attempts_key(connection, lease.agent_id, lease.kind, lease.work),
            )
        )
        self._job.record(connection)


def _lines(memory: Memory) -> int:
    return sum(len(section.lines) for section in memory.sections)
