"""What requests to a model cost, in tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of the requests behind one answer; sums with `+`.

    `input_tokens` is all that was sent: what the provider read from its prompt cache (`cached_tokens`) and
    wrote into it (`written_tokens`) is part of it. Thinking is part of `output_tokens`.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    calls: int = 1

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.written_tokens + other.written_tokens,
            self.calls + other.calls,
        )


NO_USAGE: Final = Usage(calls=0)
