"""One step of an extraction: read the oldest unread segment, ask the model, commit what it learned."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, update
from sqlalchemy.engine import RowMapping

from takeaways.schemas.database import now_ms
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents
from takeaways.workers.extraction import backlog
from takeaways.workers.extraction.answer import Accepted, accept
from takeaways.workers.extraction.filling import filled
from takeaways.workers.extraction.render import caps_of
from takeaways.workers.extraction.segment import Planned, next_request
from takeaways.workers.jobs import kept_answers, quarantine
from takeaways.workers.jobs.budgets import extraction_tokens, step_tokens
from takeaways.workers.jobs.job import Job
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.leases import fenced
from takeaways.workers.leases.claim import attempts_key
from takeaways.workers.models import ExtractionAnswer
from takeaways.workers.models.requests import ExtractionRequest


class Extraction:
    """The steps of an extraction pass: every message up to its horizon belongs to one committed step."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._one_room = False

    def step(self) -> bool:
        """Read one segment. False when nothing unread is left up to the horizon."""
        planned, revisions = self._plan()
        if planned is None:
            return False
        self._commit(revisions, self._ask(planned))
        return True

    def _ask(self, planned: Planned) -> Accepted:
        job = self._job
        if not planned.request.rooms:  # messages that hold nothing to show
            return Accepted()
        job.phase("extracting")
        accepted = kept_answers.asked_once(
            job,
            planned.request,
            lambda: job.ask(planned.tokens, lambda: job.model.extract(planned.request, job.call)),
            lambda answer: accept(planned.request, answer, job.lease.agent_id),
            ExtractionAnswer,
        )
        job.phase("writing")
        return accepted

    def narrow(self) -> bool:
        """One room a call, so that what is wrong with one stops no other that shared its call."""
        planned, _ = self._plan()
        self._one_room = True
        return planned is not None and len({room_id for room_id, _ in planned.message_keys}) > 1

    def set_aside(self, why: Outcome, detail: str) -> None:
        """Quarantine the segment that comes next: the same backlog always gives the same plan."""
        job = self._job
        planned, revisions = self._plan()
        if planned is None:
            return
        with fenced(job.services.database, job.lease) as (connection, row):
            quarantine_id = quarantine.put(
                connection,
                job.lease,
                items=len(revisions),
                why=why,
                detail=detail,
                policy=job.services.policy,
            )
            backlog.set_aside(connection, job.lease.agent_id, revisions, quarantine_id)
            first_time = job.lease.work.quarantine_id is None
            self._progress(connection, row, read=len(revisions) if first_time else 0, made=0)
        job.tally.set_aside = why

    def finish(self, connection: Connection, row: RowMapping) -> dict[str, Any]:
        """The marks of the pass, as they were when it began."""
        work, agent_id = self._job.lease.work, self._job.lease.agent_id
        return {
            "runs_served": max(row["runs_served"], work.runs),
            "extractions_asked_served": max(row["extractions_asked_served"], work.asked),
            **quarantine.next_retry(connection, agent_id, Kind.EXTRACTION),
        }

    def _plan(self) -> tuple[Planned | None, dict[backlog.Key, int]]:
        job = self._job
        work, model = job.lease.work, job.model
        with job.services.database.read() as connection:
            rooms, revisions = backlog.load(
                connection, job.lease.agent_id, upto=work.upto, quarantine_id=work.quarantine_id
            )
        if not rooms:
            return None, {}
        room_tokens = extraction_tokens(job.window, model.overhead_tokens(Kind.EXTRACTION))
        budget_tokens, caps = job.at_most(room_tokens), caps_of(job.services.policy)

        def plan(tokens: int) -> Planned:
            planned = next_request(rooms, tokens, model.count_tokens, caps)
            if not self._one_room:
                return planned
            oldest = [room for room in rooms if room.room_id == planned.message_keys[0][0]]
            return next_request(oldest, tokens, model.count_tokens, caps)

        if budget_tokens < room_tokens:  # something was too large: no step grows then
            planned = plan(budget_tokens)
        else:
            planned = filled(plan, budget_tokens, step_tokens(job.window), self._exact_tokens)
        return planned, {key: revisions[key] for key in planned.message_keys}

    def _exact_tokens(self, request: ExtractionRequest) -> int | None:
        return self._job.model.exact_tokens(request, self._job.call)

    def _commit(self, revisions: dict[backlog.Key, int], accepted: Accepted) -> None:
        job = self._job
        agent_id = job.lease.agent_id
        with fenced(job.services.database, job.lease) as (connection, row):
            # A message that was edited or deleted while the model read it stays unread, and teaches nothing.
            still = backlog.unchanged(connection, agent_id, revisions)
            learned = [
                candidate
                for candidate in accepted.candidates
                if all((candidate.room_id, evidence.message_id) in still for evidence in candidate.evidence)
            ]
            backlog.mark_read(connection, agent_id, still, job.lease.job_id)
            kept_answers.drop(connection, agent_id, job.lease.kind)
            made = backlog.add_candidates(
                connection, agent_id, learned, first_place=row["candidates_total"], job_id=job.lease.job_id
            )
            backlog.set_summaries(
                connection, agent_id, accepted.summaries, at_ms=now_ms(connection), job_id=job.lease.job_id
            )
            if (quarantine_id := job.lease.work.quarantine_id) is not None:
                quarantine.lift(connection, quarantine_id)
            job.tally.messages_read += len(still)
            job.tally.candidates_made += made
            self._progress(
                connection, row, read=0 if quarantine_id else len(still), made=made, places=len(learned)
            )

    def _progress(
        self, connection: Connection, row: RowMapping, *, read: int, made: int, places: int = 0
    ) -> None:
        """Move the counters; what comes next begins with a first attempt."""
        lease = self._job.lease
        connection.execute(
            update(agents)
            .where(agents.c.agent_id == lease.agent_id)
            .values(
                messages_read=row["messages_read"] + read,
                candidates_total=row["candidates_total"] + places,
                candidates_settled=row["candidates_settled"] + places - made,
                attempts=1,
                attempts_at=attempts_key(connection, lease.agent_id, lease.kind, lease.work),
            )
        )
        self._job.record(connection)
