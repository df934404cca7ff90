"""What a prompt cache would have saved: tokens read and written for each prefix that a request marks."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

from takeaways.workers.testing.claude.checks import blocks
from takeaways.workers.testing.claude.served import Count

LIFETIME_SECONDS: Final = 300.0
LEAST_TOKENS: Final = 1_024
TURN_TOKENS: Final = 4


def tokens_of(body: dict[str, Any], count: Count) -> int:
    """All the input of a request."""
    schema = (body.get("output_config") or {}).get("format")
    asked = count(json.dumps(schema, separators=(",", ":"))) if schema else 0
    return asked + sum(_tokens(block, count) for block in blocks(body)) + TURN_TOKENS * len(body["messages"])


def _tokens(block: dict[str, Any], count: Count) -> int:
    if block.get("type") == "text":
        return count(block["text"])
    return count(json.dumps({key: value for key, value in block.items() if key != "cache_control"}))


@dataclass(frozen=True, slots=True)
class Counted:
    """The input of one request: what was read from the cache, written to it, and neither."""

    fresh: int
    read: int
    written: int

    @property
    def total(self) -> int:
        return self.fresh + self.read + self.written


class PromptCache:
    """Remembers every marked prefix of at least `least_tokens` for five minutes after its last use. Thread-safe."""

    def __init__(self, count: Count, *, least_tokens: int = LEAST_TOKENS) -> None:
        self._count = count
        self._least = least_tokens
        self._until: dict[str, float] = {}
        self._lock = threading.Lock()

    def take(self, body: dict[str, Any]) -> Counted:
        """Count a request, and remember its prefixes."""
        total = tokens_of(body, self._count)
        prefixes = self._prefixes(body)
        now = time.monotonic()
        with self._lock:
            read = max((tokens for key, tokens in prefixes if self._until.get(key, 0.0) > now), default=0)
            self._until.update((key, now + LIFETIME_SECONDS) for key, _ in prefixes)
        longest = max((tokens for _, tokens in prefixes), default=0)
        return Counted(total - longest, read, longest - read)

    def _prefixes(self, body: dict[str, Any]) -> list[tuple[str, int]]:
        """Hash and size of each prefix that ends at a mark. Model and schema are part of every prefix."""
        running = hashlib.sha256(
            json.dumps([body["model"], body.get("output_config")], sort_keys=True).encode()
        )
        schema = (body.get("output_config") or {}).get("format")
        tokens = self._count(json.dumps(schema, separators=(",", ":"))) if schema else 0
        found = []
        for block in blocks(body):
            plain = {key: value for key, value in block.items() if key != "cache_control"}
            running.update(json.dumps(plain, sort_keys=True).encode())
            tokens += _tokens(block, self._count)
            if "cache_control" in block and tokens >= self._least:
                found.append((running.hexdigest(), tokens))
        return found
