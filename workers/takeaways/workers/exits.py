"""Exit codes of our processes and commands.

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | it did not work; the line on stderr says what |
| 2 | the command was not understood |
| 3 | there is nothing of that name, or nothing to show |
| 4 | a setting or the environment cannot work; starting again does not help |
| 5 | Redis, the database or the model does not answer; trying again later may work |
| 70 | a worker made no progress and ended, to be started again |
| 130 | interrupted from the keyboard |
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    NOTHING_FOUND = 3
    MISCONFIGURED = 4
    UNAVAILABLE = 5
    STALLED = 70
    INTERRUPTED = 130
