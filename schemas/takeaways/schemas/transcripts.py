"""Messages in one internal form, whatever platform they come from.

`Part` is what a message consists of; it is also valid on the wire, so that reading is idempotent.
Bytes of images and files never get this far: an `Attachment` says what there was and how large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from takeaways.schemas.events import Author


class _Part(BaseModel):
    """`cut_chars` says how many characters were left out at the end; 0 means that it is whole."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Text(_Part):
    type: Literal["text"] = "text"
    text: str
    cut_chars: int = 0


class Thinking(_Part):
    type: Literal["thinking"] = "thinking"
    text: str = ""
    cut_chars: int = 0


class ToolCall(_Part):
    """`arguments` is JSON as text."""

    type: Literal["tool_call"] = "tool_call"
    id: str = ""
    name: str = ""
    arguments: str = ""
    cut_chars: int = 0


class ToolResult(_Part):
    type: Literal["tool_result"] = "tool_result"
    call_id: str = ""
    text: str = ""
    is_error: bool = False
    cut_chars: int = 0


class Attachment(_Part):
    """An image, document, audio clip or other file in place of its bytes."""

    type: Literal["attachment"] = "attachment"
    kind: str = "file"
    media_type: str = ""
    size_bytes: int | None = None
    name: str = ""


Part = Annotated[Text | Thinking | ToolCall | ToolResult | Attachment, Field(discriminator="type")]
Parts = tuple[Part, ...]
PARTS: Final[TypeAdapter[Parts]] = TypeAdapter(Parts)


@dataclass(frozen=True, slots=True)
class Said:
    """One message of a room as extraction reads it.

    `said_at_ms` with `offset_minutes` is the wall clock of who said it; `sort_key` puts a room in order.
    """

    agent_id: str
    room_id: str
    message_id: str
    role: str
    author: Author
    parts: Parts
    said_at_ms: int
    offset_minutes: int = 0
    position: int | None = None
    run_started_ms: int | None = None
    ordinal: int = 0
    arrival: int = 0

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """By `position` where the platform gives one, else by time, start of the run and ordinal."""
        if self.position is not None:
            return (0, self.position, 0, 0, self.message_id)
        return (1, self.said_at_ms, self.run_started_ms or 0, self.ordinal, self.message_id)
