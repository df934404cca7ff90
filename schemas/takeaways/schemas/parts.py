"""What a message consists of, whatever platform it comes from.

Parts are also valid on the wire. Bytes of images and files never get this far: an `Attachment` says what
there was and how large.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


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
    """An image, document, audio clip or other file in place of its bytes.

    `text` is what it says where it came as text: read, but nobody's words in the conversation.
    """

    type: Literal["attachment"] = "attachment"
    kind: str = "file"
    media_type: str = ""
    size_bytes: int | None = None
    name: str = ""
    text: str = ""
    cut_chars: int = 0


AnyPart = Text | Thinking | ToolCall | ToolResult | Attachment
Part = Annotated[AnyPart, Field(discriminator="type")]
Parts = tuple[Part, ...]
PARTS: Final[TypeAdapter[Parts]] = TypeAdapter(Parts)
