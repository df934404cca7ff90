"""One job at work: what it may use, how large its steps may be, and what it writes of itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, case, update

from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.errors import AnswerCut, TooLong
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import agents, jobs
from takeaways.workers.jobs.asking import ask_model
from takeaways.workers.jobs.budgets import LEAST_ROOM_TOKENS, step_tokens
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.tally import Tally
from takeaways.workers.leases import Heartbeat, Lease
from takeaways.workers.models import Answered, Call, MemoryModel
from takeaways.workers.models.limiter import Limiter
from takeaways.workers.models.shelf import Chosen, Models
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.spending import day_of

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
