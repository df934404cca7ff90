"""`AnthropicModel`: Claude, or whatever speaks the Messages API at `ANTHROPIC_BASE_URL`."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

import structlog
from pydantic import BaseModel

from takeaways.schemas.errors import (
    AnswerCut,
    AnswerUnreadable,
    CallAborted,
    FromModel,
    ModelFailed,
    ModelOverloaded,
    ModelParked,
    ModelRefused,
    ModelRejected,
    ModelUnavailable,
    ParkedBecause,
    TooLong,
)
from takeaways.schemas.ids import digest
from takeaways.schemas.queues import Kind
from takeaways.schemas.usage import NO_USAGE, Usage
from takeaways.workers.consolidation import render as consolidation
from takeaways.workers.extraction import render as extraction
from takeaways.workers.jobs.budgets import step_tokens
from takeaways.workers.models.answers import ConsolidationAnswer, ExtractionAnswer
from takeaways.workers.models.anthropic.body import (
    Manner,
    body,
    first_turn,
    instructions,
    manner_of,
    output_limits,
    repair_turn,
)
from takeaways.workers.models.anthropic.connection import Connection, shared_connection
from takeaways.workers.models.anthropic.facts import Facts
from takeaways.workers.models.anthropic.reply import Reply, Verdict
from takeaways.workers.models.anthropic.schema import output_schema
from takeaways.workers.models.json_answers import read_answer
from takeaways.workers.models.prompts import prompt, prompts_version
from takeaways.workers.models.requests import ConsolidationRequest, ExtractionRequest
from takeaways.workers.models.seam import Answered, Call
from takeaways.workers.models.tokens import estimate
from takeaways.workers.models.windows import plausible, resolve_window

log = structlog.get_logger(__name__)

A = TypeVar("A", bound=BaseModel)

NEAR: Final = 0.75
"""From this share of a step on, by our estimate, the provider is asked for the true count."""
SPARE_TOKENS: Final = 400
"""For what the provider puts around a request and a schema, beyond the text of both."""
_ROUNDING: Final = 100
"""What is planned with leaves a little more than what is sent, so that a step as planned is never over."""
_LEAST_OUTPUT: Final = 1_000
_NUMBER: Final = re.compile(r"\d[\d,]*")
_ASK_AGAIN_SECONDS: Final = 3_600.0
_ASK_SOON_SECONDS: Final = 60.0
_DESCRIBE_SECONDS: Final = 20.0
_COUNT_SECONDS: Final = 20.0
_SCHEMAS: Final[dict[Kind, type[BaseModel]]] = {
    Kind.EXTRACTION: ExtractionAnswer,
    Kind.CONSOLIDATION: ConsolidationAnswer,
}


class AnthropicModel:
    """A model by name, over a `connection` that may be shared; without one, over the one of this process.

    `window` and `most_output` are what the operator set; without them the Models API is asked once. Safe to use
    from many threads. What it learns of a server (that it takes no schemas, that it counts higher than our estimate,
    that it gives shorter answers, that it takes less at once) it keeps.
    """

    def __init__(
        self,
        name: str,
        *,
        window: int | None = None,
        most_output: int | None = None,
        connection: Connection | None = None,
    ) -> None:
        self._name = name
        self._override = window
        self._most_output = most_output
        self._connection = connection or shared_connection()
        self._facts: Facts | None = None
        self._facts_until = 0.0
        self._asking = threading.Lock()
        self._manners: dict[Kind, Manner] = {}
        self._scale = 1.0
        self._no_counts_until = 0.0
        self._narrow: int | None = None
        self._narrow_until = 0.0
        self._last_count: tuple[str, int] | None = None

    @property
    def name(self) -> str:
        return self._name

    @cached_property
    def prompt_version(self) -> str:
        """Of all prompts and schemas: it changes with every word of them."""
        schemas = [json.dumps(output_schema(schema), sort_keys=True) for schema in _SCHEMAS.values()]
        return prompts_version(*schemas)

    @property
    def reported_window(self) -> int | None:
        """The window as the provider states it, or None. Asks once; raises the kinds of `ModelUnavailable`."""
        return self.facts().window

    @property
    def window(self) -> int:
        """What the operator set, else what the provider states, else 32,000 with one warning; less where the
        provider was seen to take less.
        """
        window = self._override or resolve_window(self._name, self.reported_window).tokens
        narrow = self._narrow if time.monotonic() < self._narrow_until else None
        return window if narrow is None else min(window, narrow)

    def narrow(self, limit: int | None) -> None:
        """For an hour, plan for no more than the `limit` that the provider named as it refused a request."""
        if (limit := plausible(limit)) is not None and limit < self.window:
            log.warning("the provider takes less at once", model=self._name, window=limit)
            self._narrow, self._narrow_until = limit, time.monotonic() + _ASK_AGAIN_SECONDS

    def serves(self) -> bool:
        """Whether the provider lists this model. Raises the kinds of `ModelUnavailable` where it does not say."""
        return self.facts().known

    def count_tokens(self, text: str) -> int:
        """Our estimate, raised by what the provider was seen to count beyond it."""
        return self._scaled(estimate(text))

    def overhead_tokens(self, kind: Kind) -> int:
        """The instructions and the schema in the larger of the two forms in which they are sent."""
        schema = output_schema(_SCHEMAS[kind])
        told = instructions(kind, schema, structured=False)
        return self._scaled(estimate(told) + estimate(prompt("closing")) + SPARE_TOKENS + _ROUNDING)

    def extract(self, request: ExtractionRequest, call: Call) -> Answered[ExtractionAnswer]:
        """Read the rooms: one call for all of them."""
        material = extraction.render(request)
        return _Exchange(self, Kind.EXTRACTION, ExtractionAnswer, material, call, _rooms_of(request)).run()

    def consolidate(self, request: ConsolidationRequest, call: Call) -> Answered[ConsolidationAnswer]:
        """Merge the candidates."""
        material = consolidation.render(request)
        return _Exchange(
            self, Kind.CONSOLIDATION, ConsolidationAnswer, material, call, lambda answer: None
        ).run()

    def facts(self) -> Facts:
        """What the provider says of this model; `Facts()` where it lists nothing of the name, as many gateways do.

        Raises the kinds of `ModelUnavailable`, unless the operator set a window: then it works without.
        """
        with self._asking:
            if self._facts is None or time.monotonic() >= self._facts_until:
                self._facts, seconds = self._ask_for_facts()
                self._facts_until = time.monotonic() + seconds
            return self._facts

    def forget_facts(self) -> None:
        """Ask again: the provider no longer has the model, whatever it said of it before."""
        with self._asking:
            self._facts = None

    def _ask_for_facts(self) -> tuple[Facts, float]:
        """The facts, and for how long they are good."""
        try:
            return Facts.of(self._connection.describe(self._name, Call(_DESCRIBE_SECONDS))), math.inf
        except ModelParked as parked:
            if parked.reason is not ParkedBecause.UNKNOWN_MODEL:
                raise
        except (ModelRejected, TooLong):
            pass
        except ModelUnavailable:
            if self._override is None:
                raise
            return Facts(), _ASK_SOON_SECONDS
        return Facts(), _ASK_AGAIN_SECONDS

    def manner(self, kind: Kind) -> Manner:
        """How the provider is asked for this kind of answer, as far as is known by now."""
        return self._manners.get(kind) or manner_of(kind, self.facts())

    def relax(self, kind: Kind, manner: Manner, complaint: str) -> Manner | None:
        """Ask with less from now on, where the complaint is about how we ask; None where it is not."""
        lesser = manner.without(complaint)
        if lesser is not None:
            log.warning(
                "the provider does not take all that is asked of it", model=self._name, left=str(lesser)
            )
            self._manners[kind] = lesser
        return lesser

    def output_limits(self) -> tuple[int, int]:
        """How long an answer may be, and how long when it was cut."""
        facts = self.facts()
        return output_limits(
            self.window, facts if self._most_output is None else replace(facts, most_output=self._most_output)
        )

    def shorten(self, limit: int, complaint: str) -> bool:
        """Ask for shorter answers from now on, where `limit` is what the provider complains about."""
        _, found, told = complaint.partition("max_tokens")
        if not found or limit <= _LEAST_OUTPUT:
            return False
        numbers = [int(number.replace(",", "")) for number in _NUMBER.findall(told)]
        self._most_output = max((n for n in numbers if _LEAST_OUTPUT <= n < limit), default=limit // 2)
        log.warning("the provider gives shorter answers", model=self._name, most_output=self._most_output)
        return True

    def _scaled(self, tokens: int) -> int:
        return tokens if self._scale == 1.0 else int(tokens * self._scale) + 1

    def counted(self, estimated: int, true: int) -> None:
        """Learn from a count of the provider's. `estimated` is ours of the same request, without the scale."""
        if true > estimated * self._scale:
            self._scale = 1.05 * true / max(1, estimated)
            log.warning(
                "the provider counts more tokens than our estimate, which is raised",
                model=self._name,
                scale=round(self._scale, 2),
            )

    def size(self, kind: Kind, made: dict[str, Any], call: Call) -> int:
        """Tokens of a request: the estimate, or the provider's count where that is needed and can be had."""
        system = made["system"]
        told = estimate(system) if isinstance(system, str) else sum(estimate(one["text"]) for one in system)
        told += estimate(json.dumps(made.get("output_config", {}), separators=(",", ":")))
        estimated = told + sum(estimate(turn["content"]) for turn in made["messages"]) + SPARE_TOKENS
        scaled = self._scaled(estimated)
        if scaled < NEAR * step_tokens(self.window):
            return scaled
        true = self._count(made, call)
        if true is None:
            return scaled
        self.counted(estimated, true)
        return true

    def exact_tokens(self, request: ExtractionRequest, call: Call) -> int | None:
        """What the provider counts of the request that `extract` would send."""
        kind = Kind.EXTRACTION
        turns = first_turn(extraction.render(request))
        try:
            return self._count(
                body(self._name, kind, output_schema(_SCHEMAS[kind]), turns, self.manner(kind)), call
            )
        except (CallAborted, TooLong):
            return None

    def _count(self, made: dict[str, Any], call: Call) -> int | None:
        """The provider's count, asked once for the same request; None where it gives none now. Raises `TooLong`."""
        key = digest(json.dumps(made, sort_keys=True))
        last = self._last_count
        if last is not None and last[0] == key:
            return last[1]
        if time.monotonic() < self._no_counts_until:
            return None
        seconds = min(call.timeout_seconds, _COUNT_SECONDS)
        try:
            true = self._connection.count(self._name, made, replace(call, timeout_seconds=seconds))
        except (CallAborted, TooLong):
            raise
        except FromModel as failure:
            if isinstance(failure, ModelRejected | ModelParked):  # this server does not count
                self._no_counts_until = time.monotonic() + _ASK_AGAIN_SECONDS
            return None
        self._last_count = key, true
        return true

    def send(self, made: dict[str, Any], call: Call) -> Reply:
        return self._connection.send(self._name, made, call)


def _rooms_of(request: ExtractionRequest) -> Callable[[ExtractionAnswer], str | None]:
    """What is wrong with the rooms of an answer: one that it forgets would be read and never remembered."""
    asked = [room.label for room in request.rooms]

    def problem_of(answer: ExtractionAnswer) -> str | None:
        told = [room.room for room in answer.rooms]
        if missing := [label for label in asked if label not in told]:
            return f"`rooms` lacks {', '.join(missing[:8])}"
        if len(told) != len(set(told)):
            return "`rooms` has a room more than once"
        return None

    return problem_of


@dataclass(slots=True)
class _Exchange(Generic[A]):
    """One call of the seam: a request, and at most one more for each cause that another one may cure.

    Those are: a parameter that the server does not take, an answer that was cut, an answer that is none. A step that is
    too large is never sent.
    """

    model: AnthropicModel
    kind: Kind
    schema: type[A]
    material: str
    call: Call
    problem_of: Callable[[A], str | None]
    spent: Usage = NO_USAGE
    longer: bool = False
    repaired: bool = False
    deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self.deadline = time.monotonic() + self.call.timeout_seconds

    def run(self) -> Answered[A]:
        turns = first_turn(self.material)
        try:
            while True:
                reply = self._reply(turns)
                answer = self._read(reply)
                if isinstance(answer, self.schema):
                    return Answered(answer, self.spent, self.model.name, reply.request_id, reply.stop_reason)
                if isinstance(answer, str):
                    turns = repair_turn(turns, reply.text, answer)
        except FromModel as ending:
            ending.spent = self.spent + ending.spent
            raise

    def _read(self, reply: Reply) -> A | str | None:
        """The answer; or what is wrong with it, to be repaired; or None to ask for it in more tokens.

        Raises how the call ends where neither is left.
        """
        match reply.verdict:
            case Verdict.REFUSED:
                raise self._ended(ModelRefused(reply.category), reply)
            case Verdict.TOO_LONG:
                raise self._ended(
                    TooLong(f"{self.model.name}: the window was full before the answer was"), reply
                )
            case Verdict.CUT:
                first, second = self.model.output_limits()
                if self.longer or second <= first:
                    limit = second if self.longer else first
                    raise self._ended(
                        AnswerCut(f"{self.model.name}: the answer was cut at {limit:,} tokens"), reply
                    )
                self.longer = True
                return None
            case Verdict.UNFINISHED:
                problem = f"it stopped for the reason {reply.stop_reason!r} before it was complete"
            case _:
                try:
                    answer = read_answer(reply.text, self.schema)
                except AnswerUnreadable as unreadable:
                    problem = str(unreadable)
                else:
                    missing = self.problem_of(answer)
                    if missing is None:
                        return answer
                    problem = missing
        if self.repaired or not self.call.repairs:
            again = ", also when asked again" if self.repaired else ""
            raise self._ended(AnswerUnreadable(f"{self.model.name}: {problem}{again}"), reply)
        self.repaired = True
        return problem

    def _reply(self, turns: list[dict[str, Any]]) -> Reply:
        window = self.model.window
        manner = self.model.manner(self.kind)
        schema = output_schema(self.schema)
        while True:
            made = body(self.model.name, self.kind, schema, turns, manner)
            size = self.model.size(self.kind, made, self._rest())
            if size > step_tokens(window):
                self._too_large(size, repair=len(turns) > 1)
            limit = self.model.output_limits()[self.longer]
            try:
                reply = self.model.send({**made, "max_tokens": limit}, self._rest())
            except TooLong as too_long:
                self.model.narrow(too_long.limit_tokens)
                raise
            except ModelParked as parked:
                if parked.reason is ParkedBecause.UNKNOWN_MODEL:
                    self.model.forget_facts()
                raise
            except ModelOverloaded as busy:
                if busy.limit_tokens is None or size <= busy.limit_tokens:
                    raise
                # No waiting makes it fit.
                self.model.narrow(busy.limit_tokens)
                told = f"{self.model.name}: the step takes {size:,} tokens of {busy.limit_tokens:,} a minute"
                raise TooLong(told, busy.limit_tokens) from busy
            except ModelRejected as rejected:
                if self.model.shorten(limit, str(rejected)):
                    continue
                lesser = self.model.relax(self.kind, manner, str(rejected))
                if lesser is None:
                    raise
                manner = lesser
                continue
            if not reply.usage.input_tokens:
                # Some servers do not count: an agent's tokens of the day are to hold all the same.
                output = reply.usage.output_tokens or estimate(reply.text)
                counted = replace(reply.usage, input_tokens=size, output_tokens=output)
                reply = replace(reply, usage=counted)
            self.spent = self.spent + reply.usage
            log.info(
                "the model answered",
                model=self.model.name,
                request_id=reply.request_id,
                stop_reason=reply.stop_reason,
                input_tokens=reply.usage.input_tokens,
                cached_tokens=reply.usage.cached_tokens,
                output_tokens=reply.usage.output_tokens,
            )
            return reply

    def _too_large(self, size: int, *, repair: bool) -> None:
        limit = step_tokens(self.model.window)
        if repair:
            raise AnswerUnreadable(
                f"{self.model.name}: the answer is not of our schema, and there is no room to ask for another"
            )
        raise TooLong(f"{self.model.name}: the step takes {size:,} tokens of at most {limit:,}", limit)

    def _rest(self) -> Call:
        """The call with the time that is left of it."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise ModelFailed(
                f"{self.model.name}: no whole answer within {round(self.call.timeout_seconds, 1):g} s",
                model=self.model.name,
            )
        return replace(self.call, timeout_seconds=left)

    def _ended(self, ending: FromModel, reply: Reply) -> FromModel:
        ending.request_id, ending.stop_reason = reply.request_id, reply.stop_reason
        return ending
