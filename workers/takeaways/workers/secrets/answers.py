"""Mending and masking what a model answered, before anything of it is checked, kept or stored."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

from takeaways.schemas.text import mend
from takeaways.workers.secrets.library import mask

A = TypeVar("A", bound=BaseModel)


def mask_answer(answer: A) -> A:
    """`answer` without secrets in any of its strings (texts, topics, titles, gists, quotes, reasons), nor anything that
    no store holds: a model may write NUL.
    """
    return _masked(answer)  # type: ignore[no-any-return] # a model gives a model of its own class


def _masked(value: Any) -> Any:
    if isinstance(value, BaseModel):
        fields = {name: getattr(value, name) for name in type(value).model_fields}
        changed = {name: new for name, old in fields.items() if (new := _masked(old)) is not old}
        return value.model_copy(update=changed) if changed else value
    if isinstance(value, tuple):
        items = tuple(map(_masked, value))
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    # An enum's value is one of ours, and so no secret.
    return mask(mend(value)) if type(value) is str else value
