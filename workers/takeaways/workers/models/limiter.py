"""One limiter for a model, shared by all workers: what one call learns, no other has to.

A failed call pauses the model, for as long as the provider says or twice as long as the time before. When the
pause ends, one call goes first: it is the probe. So a provider that is down costs the whole fleet one call a
round. Calls at once and tokens a minute can be capped.

The state lies in Redis and may be lost: that costs a call which is refused. Without Redis everything is admitted.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final, Protocol

import structlog
from redis import Redis
from redis.exceptions import RedisError

from takeaways.schemas.queues import ModelKeys

log = structlog.get_logger(__name__)

ENOUGH_OF_UNREADABLE: Final = 3
"""One answer that cannot be read speaks against the batch; those of three agents in a row against the model."""
_WAIT_SECONDS: Final = 2.0
_REDIS_AWAY_SECONDS: Final = 5.0
_PARKED, _BUSY = "parked", "busy"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model is allowed, over all workers. None is no cap of ours; the back-off doubles between its two ends."""

    calls_at_once: int | None = None
    tokens_a_minute: int | None = None
    first_wait_seconds: float = 15.0
    most_wait_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class Paused:
    """How long nobody asks the model, and why. `parked`: a person has to act."""

    seconds: float
    why: str
    parked: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a call may begin: after `wait_seconds`, which is 0 for now. The `probe` finds out for all others whether
    the model is well again.
    """

    wait_seconds: float = 0.0
    probe: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """What a failed call says about the model: what the provider asked for, from how many agents in this trouble on it
    is the model's, and whether a person has to act.
    """

    least_seconds: float = 0.0
    enough: int = 1
    parked: bool = False


PLAIN_FAULT: Final = Fault()


@dataclass(frozen=True, slots=True)
class Trouble:
    """After a failed call: how long to wait, and whether this agent failed already since the model last answered.

    Where it did not, the model has served others meanwhile, and the batch itself may be what fails. `of_all`: as many
    agents are in this trouble as make it the model's.
    """

    wait_seconds: float
    again: bool
    of_all: bool = False


class Limiter(Protocol):
    def paused(self, model: str) -> Paused | None:
        """Whether nobody may ask `model` now."""
        ...

    def admit(self, model: str, call_id: str, *, tokens: int, lasts_seconds: float) -> Admission:
        """Let a call of about `tokens` begin. When it has to wait, nothing has begun."""
        ...

    def ended(self, model: str, call_id: str, *, answered: bool) -> None:
        """An admitted call ended, with an answer of whatever kind or without one."""
        ...

    def failed(self, model: str, agent_id: str, fault: Fault = PLAIN_FAULT, *, why: str = "") -> Trouble:
        """A call of this agent failed. `why` is what `paused` then says."""
        ...


class Unlimited:
    """Everything is admitted, and every failure waits for its own sake. For one process without Redis."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()

    def paused(self, model: str) -> Paused | None:
        return None

    def admit(self, model: str, call_id: str, *, tokens: int, lasts_seconds: float) -> Admission:
        return Admission()

    def ended(self, model: str, call_id: str, *, answered: bool) -> None:
        return

    def failed(self, model: str, agent_id: str, fault: Fault = PLAIN_FAULT, *, why: str = "") -> Trouble:
        return Trouble(max(fault.least_seconds, self._limits.first_wait_seconds), again=True)


class SharedLimiter:
    """The limiter in Redis. While Redis is away it stands aside, and asks again after five seconds."""

    def __init__(self, redis: Redis, limits: Limits | None = None) -> None:
        self._redis = redis
        self._limits = limits or Limits()
        self._alone = Unlimited(self._limits)
        self._admit = redis.register_script(_script("limiter_admit.lua"))
        self._failed = redis.register_script(_script("limiter_failed.lua"))
        self._ended = redis.register_script(_script("limiter_ended.lua"))
        self._away_until = 0.0

    def paused(self, model: str) -> Paused | None:
        if self._is_away:
            return None
        pause = ModelKeys.of(model).pause
        try:
            with self._redis.pipeline(transaction=False) as pipe:
                pipe.pttl(pause)
                pipe.get(pause)
                left_ms, why = pipe.execute()
        except RedisError as error:
            self._went_away(error)
            return None
        if left_ms <= 0:
            return None
        kind, _, told = _text(why).partition(" ")
        return Paused(left_ms / 1000, told, parked=kind == _PARKED)

    def admit(self, model: str, call_id: str, *, tokens: int, lasts_seconds: float) -> Admission:
        keys, limits = ModelKeys.of(model), self._limits
        waits_ms = self._run(
            self._admit,
            [keys.pause, keys.rounds, keys.probe, keys.flight, keys.bucket],
            [
                call_id,
                limits.calls_at_once or 0,
                limits.tokens_a_minute or 0,
                tokens,
                round(lasts_seconds * 1000),
                round(_WAIT_SECONDS * 1000),
            ],
        )
        answer = int(waits_ms or 0)
        return Admission(max(answer, 0) / 1000, probe=answer < 0)

    def ended(self, model: str, call_id: str, *, answered: bool) -> None:
        keys = ModelKeys.of(model)
        self._run(
            self._ended,
            [keys.pause, keys.rounds, keys.troubled, keys.probe, keys.flight],
            [call_id, int(answered)],
        )

    def failed(self, model: str, agent_id: str, fault: Fault = PLAIN_FAULT, *, why: str = "") -> Trouble:
        keys, limits = ModelKeys.of(model), self._limits
        found = self._run(
            self._failed,
            [keys.pause, keys.rounds, keys.troubled],
            [
                agent_id,
                fault.enough,
                round(fault.least_seconds * 1000),
                round(limits.first_wait_seconds * 1000),
                round(limits.most_wait_seconds * 1000),
                f"{_PARKED if fault.parked else _BUSY} {why}",
            ],
        )
        if found is None:
            return self._alone.failed(model, agent_id, fault)
        return Trouble(found[0] / 1000, bool(found[1]), of_all=fault.enough > 1 and found[0] > 0)

    def close(self) -> None:
        self._redis.close()

    @property
    def _is_away(self) -> bool:
        return time.monotonic() < self._away_until

    def _run(self, script: Any, keys: list[str], arguments: list[Any]) -> Any:
        """What the script returns; None while Redis is away."""
        if self._is_away:
            return None
        try:
            return script(keys=keys, args=arguments)
        except RedisError as error:
            self._went_away(error)
            return None

    def _went_away(self, error: RedisError) -> None:
        log.warning("the limiter has no Redis; calls are made without it", error=type(error).__name__)
        self._away_until = time.monotonic() + _REDIS_AWAY_SECONDS


def _script(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
