"""Places at which a process can be made to fail, for tests of faults.

`TAKEAWAYS_FAULT_AT=after_claim:3` kills the process (SIGKILL) when it passes that place for the third time;
`after_claim:3:stop` freezes it (SIGSTOP) instead. Without the variable a place is a call of an empty function.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Final, Literal, get_args

from takeaways.schemas.errors import Misconfigured

VARIABLE: Final = "TAKEAWAYS_FAULT_AT"

Place = Literal[
    # intake
    "after_read",
    "before_commit",
    "after_commit",
    "after_acknowledge",
    "after_hint",
    # hints, wherever they are sent from
    "before_hint_sent",
    "after_hint_sent",
    # a job
    "before_claim",
    "in_claim",
    "after_claim",
    "before_model",
    "after_model",
    "before_job_commit",  # of an answer, a step or the ending
    "after_step",
    "before_release",
    "in_release",
    "after_release",
]
PLACES: Final[tuple[Place, ...]] = get_args(Place)
_SIGNALS: Final = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def armed(spec: str, fail: Callable[[signal.Signals], None]) -> Callable[[Place], None]:
    """What counts the passages of one place and fails at the given one. Raises `Misconfigured`."""
    at, _, rest = spec.partition(":")
    passage, _, how = rest.partition(":")
    number = int(passage) if passage.isdecimal() else 0
    if at not in PLACES or number < 1 or (how or "kill") not in _SIGNALS:
        raise Misconfigured(f"{VARIABLE}: {spec!r} is not PLACE:NUMBER or PLACE:NUMBER:stop")
    lock = threading.Lock()
    passed = 0

    def pass_by(place: Place) -> None:
        nonlocal passed
        if place != at:
            return
        with lock:
            passed += 1
            now = passed == number
        if now:
            fail(_SIGNALS[how or "kill"])

    return pass_by


def _fail(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


def _nothing(place: Place) -> None:
    return


_spec: Final = os.environ.get(VARIABLE)
fault_point: Final[Callable[[Place], None]] = armed(_spec, _fail) if _spec else _nothing
