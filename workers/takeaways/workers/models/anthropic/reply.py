"""One reply of the Messages API, whole or as far as it came, and what its stop reason makes of it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from takeaways.schemas.usage import Usage


class Verdict(Enum):
    """What a reply is. Only a `WHOLE` one may hold an answer; `UNFINISHED` ones ended for another reason."""

    WHOLE = auto()
    CUT = auto()
    REFUSED = auto()
    TOO_LONG = auto()
    UNFINISHED = auto()


_VERDICTS = {
    "end_turn": Verdict.WHOLE,
    "stop_sequence": Verdict.WHOLE,
    "max_tokens": Verdict.CUT,
    "refusal": Verdict.REFUSED,
    "model_context_window_exceeded": Verdict.TOO_LONG,
}


@dataclass(frozen=True, slots=True)
class Reply:
    """`category` is why a refusal was one. `text` leaves thinking and everything else out."""

    text: str
    stop_reason: str
    usage: Usage
    request_id: str = ""
    category: str = ""

    @property
    def verdict(self) -> Verdict:
        """`tool_use`, `pause_turn` and reasons that are yet to be invented finish nothing: we offer no tools."""
        return _VERDICTS.get(self.stop_reason, Verdict.UNFINISHED)


@dataclass(slots=True)
class Incoming:
    """Puts the events of a stream together. `reply()` is None until the stream has said why it stopped."""

    request_id: str = ""
    _text: list[str] = field(default_factory=list)
    _usage: dict[str, int] = field(default_factory=dict)
    _stop_reason: str = ""
    _category: str = ""

    def take(self, event: Any) -> None:
        """Take in one event, tolerantly: gateways leave fields out."""
        match getattr(event, "type", None):
            case "message_start":
                self._count(getattr(getattr(event, "message", None), "usage", None))
            case "content_block_start":
                self._append(getattr(event, "content_block", None), "text")
            case "content_block_delta":
                self._append(getattr(event, "delta", None), "text_delta")
            case "message_delta":
                self._count(getattr(event, "usage", None))
                self._stopped(getattr(event, "delta", None))

    def take_message(self, message: Any) -> None:
        """Take in a whole message, from a server that does not stream, as tolerantly."""
        content = getattr(message, "content", None)
        if isinstance(content, str):
            self._text.append(content)
        for block in content if isinstance(content, list) else ():
            self._append(block, "text")
        self._count(getattr(message, "usage", None))
        self._stopped(message)

    @property
    def usage(self) -> Usage:
        """What the request cost as far as it is known."""
        known = self._usage
        cached, written = known.get("cache_read_input_tokens", 0), known.get("cache_creation_input_tokens", 0)
        return Usage(
            input_tokens=known.get("input_tokens", 0) + cached + written,
            output_tokens=known.get("output_tokens", 0),
            cached_tokens=cached,
            written_tokens=written,
        )

    def reply(self) -> Reply | None:
        if not self._stop_reason:
            return None
        return Reply("".join(self._text), self._stop_reason, self.usage, self.request_id, self._category)

    def _append(self, block: Any, kind: str) -> None:
        text = getattr(block, "text", None)
        if getattr(block, "type", None) == kind and isinstance(text, str):
            self._text.append(text)

    def _count(self, usage: Any) -> None:
        # Later events repeat the counts, some of them as zero or not at all.
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ):
            value = getattr(usage, name, None)
            if isinstance(value, int | float) and 0 < value < math.inf:
                self._usage[name] = int(value)

    def _stopped(self, holder: Any) -> None:
        reason = getattr(holder, "stop_reason", None)
        if isinstance(reason, str):
            self._stop_reason = reason
        category = getattr(getattr(holder, "stop_details", None), "category", None)
        if isinstance(category, str):
            self._category = category
