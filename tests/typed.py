"""Commands as a person types them, in this process: what is printed, and with which exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from takeaways.workers.cli import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Ran]


def typed(capsys: pytest.CaptureFixture[str]) -> Run:
    """A function that runs `takeaways` with the words that it is given."""

    def run(*words: str) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main(words)
        captured = capsys.readouterr()
        code = ended.value.code
        return Ran(code if isinstance(code, int) else 0, captured.out, captured.err)

    return run
