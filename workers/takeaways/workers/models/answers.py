"""What a model answers: the schemas of its structured output. Code checks every label and length.

A `create` makes a section, an `update` names only the lines that change, a `delete` removes a section.
Every candidate offered is accounted for once, in `account`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from takeaways.schemas.memories import MAX_GIST, MAX_QUOTE, MAX_TEXT, MAX_TITLE, Lesson

Label = Annotated[str, Field(min_length=1, max_length=20)]
Sentence = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]
Title = Annotated[str, Field(min_length=1, max_length=MAX_TITLE)]
Gist = Annotated[str, Field(max_length=MAX_GIST)]
Reason = Annotated[str, Field(max_length=300)]


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Quote(_Answer):
    message: Label
    quote: Annotated[str, Field(min_length=1, max_length=MAX_QUOTE)]


class Learned(_Answer):
    """A candidate as the model words it. Every quote stands in the message that it names."""

    kind: Lesson
    topic: Title
    text: Sentence
    evidence: Annotated[tuple[Quote, ...], Field(min_length=1, max_length=5)]


class RoomLearned(_Answer):
    room: Label
    summary: Annotated[str, Field(max_length=4_000)]
    candidates: tuple[Learned, ...] = ()


class ExtractionAnswer(_Answer):
    rooms: tuple[RoomLearned, ...]


class NewLine(_Answer):
    """A line made from candidates (at least one)."""

    kind: Lesson
    text: Sentence
    candidates: Annotated[tuple[Label, ...], Field(min_length=1)]


class ReplacedLine(NewLine):
    """`line` says something else from now on. It keeps what it rested on only where `still_rests` is true."""

    line: Label
    still_rests: bool = False


class RemovedLine(_Answer):
    """`by` is the line or candidate that says it better or says otherwise, where there is one."""

    line: Label
    reason: Reason
    by: Label | None = None


class CreateSection(_Answer):
    op: Literal["create"] = "create"
    title: Title
    gist: Gist
    lines: Annotated[tuple[NewLine, ...], Field(min_length=1)]


class UpdateSection(_Answer):
    op: Literal["update"] = "update"
    section: Label
    title: Title | None = None
    gist: Gist | None = None
    add: tuple[NewLine, ...] = ()
    replace: tuple[ReplacedLine, ...] = ()
    remove: tuple[RemovedLine, ...] = ()


class DeleteSection(_Answer):
    op: Literal["delete"] = "delete"
    section: Label
    reason: Reason


class Fate(StrEnum):
    """What became of a candidate.

    merged: a created, added or replaced line names it. duplicate: `line` says it already and now rests on it
    too. superseded: `line` or candidate `by` was said later and says otherwise. dropped: not worth keeping.
    """

    MERGED = "merged"
    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"
    DROPPED = "dropped"


class Accounted(_Answer):
    """`by` is the label of the line (`l3`) or candidate (`c4`) that it repeats or that superseded it."""

    candidate: Label
    fate: Fate
    by: Label | None = None
    reason: Reason = ""


Edit = Annotated[CreateSection | UpdateSection | DeleteSection, Field(discriminator="op")]


class ConsolidationAnswer(_Answer):
    edits: tuple[Edit, ...] = ()
    account: tuple[Accounted, ...] = ()
