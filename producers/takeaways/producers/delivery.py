"""Getting entries into Redis within a bounded time: what to try again, when, and when to give up. No I/O."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from redis import exceptions

from takeaways.producers.entries import Entry
from takeaways.schemas.errors import Misconfigured, PublishFailed

FIRST_PAUSE_SECONDS: Final = 0.05
LONGEST_PAUSE_SECONDS: Final = 2.0

_REFUSALS: Final = (
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.AuthenticationWrongNumberOfArgsError,
    exceptions.NoPermissionError,
    exceptions.DataError,
)
_PASSING: Final = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.TryAgainError,
    exceptions.ClusterDownError,
    OSError,
)
# Errors that redis-py has no class for and that pass: a full disk, lost replicas, a long script.
_PASSING_WORDS: Final = ("MISCONF", "NOREPLICAS", "BUSY", "LOADING", "OOM")


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Try after a pause."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Stop. `permanent` when no patience would have helped."""

    permanent: bool


def decide(
    error: Exception, *, failures: int, elapsed_seconds: float, patience_seconds: float, jitter: float
) -> TryAgain | GiveUp:
    """What to do after the `failures`-th failure in a row. `jitter` is a random number from 0 to 1."""
    if not _passes(error):
        return GiveUp(permanent=True)
    left_seconds = patience_seconds - elapsed_seconds
    if left_seconds <= 0:
        return GiveUp(permanent=False)
    ceiling_seconds = min(FIRST_PAUSE_SECONDS * 2 ** min(failures - 1, 30), LONGEST_PAUSE_SECONDS)
    return TryAgain(min(ceiling_seconds * (0.5 + jitter / 2), left_seconds))


def _passes(error: Exception) -> bool:
    if isinstance(error, _REFUSALS):
        return False
    return isinstance(error, _PASSING) or str(error).startswith(_PASSING_WORDS)


class Delivery:
    """The entries of one call on their way. `waiting` are those not confirmed yet.

    An entry that Redis took although its answer was lost is sent again; its event id makes it a duplicate
    that intake ignores.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        *,
        address: str,
        patience_seconds: float,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.waiting = list(entries)
        self._address = address
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._jitter = jitter
        self._began = clock()
        self._failures = 0

    def settle(self, answers: Sequence[object] | Exception) -> float | None:
        """Take the answers to `waiting`, one each, or the error of the whole attempt.

        Returns the seconds to wait before the rest is tried again, or None when all is in. Raises
        `PublishFailed` when the time is over and `Misconfigured` when waiting would not help.
        """
        if isinstance(answers, Exception):
            error = answers
        else:
            failed = [
                (entry, answer)
                for entry, answer in zip(self.waiting, answers, strict=True)
                if isinstance(answer, Exception)
            ]
            if len(failed) < len(self.waiting):
                self._failures = 0
            self.waiting = [entry for entry, _ in failed]
            if not failed:
                return None
            error = failed[0][1]
        self._failures += 1
        elapsed_seconds = self._clock() - self._began
        verdict = decide(
            error,
            failures=self._failures,
            elapsed_seconds=elapsed_seconds,
            patience_seconds=self._patience_seconds,
            jitter=self._jitter(),
        )
        if isinstance(verdict, TryAgain):
            return verdict.seconds
        # The server's own words may quote what was sent, a failed connection's cannot.
        cause = None if isinstance(error, exceptions.ResponseError) else error
        raise self._failure(error, elapsed_seconds, permanent=verdict.permanent) from cause

    def _failure(self, error: Exception, elapsed_seconds: float, *, permanent: bool) -> Exception:
        ids = tuple(dict.fromkeys(entry.event_id for entry in self.waiting))
        what = f"event {ids[0]}" if len(ids) == 1 else f"{len(ids)} events (the first is {ids[0]})"
        if permanent:
            return Misconfigured(
                f"Redis at {self._address} refuses {what}: {_told(error)}. Check the address, the user's"
                " rights, and that no other program uses the names of the streams."
            )
        return PublishFailed(
            f"Redis at {self._address} did not take {what} within {elapsed_seconds:.1f} s:"
            f" {_told(error)}. Publish again later: the same call has the same event id, so that nothing is"
            " counted twice.",
            ids,
        )


def _told(error: Exception) -> str:
    """The error without what it may quote: an unknown command, for one, is reported with its arguments."""
    words = re.split("['\"`(]", str(error), maxsplit=1)[0].strip(" .,;:")[:200]
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
