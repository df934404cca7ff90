"""Reading what a model passed to the tool: generous where the meaning is plain, never guessing a deletion."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from takeaways.recall.standing.codes import Code, Refused

MOST_OPERATIONS: Final = 50
# What models call the two texts, ours first: they know other tools that edit.
_CONTENT: Final = ("content", "new_text", "new_string", "new_str")
_OLD_TEXT: Final = ("old_text", "old_string", "old_str")


class Target(StrEnum):
    """Whose note: `memory` belongs to an agent, `user` to a person."""

    MEMORY = "memory"
    USER = "user"


class Action(StrEnum):
    ADD = "add"
    REPLACE = "replace"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Operation:
    """One change. `content` and `old_text` are as they came: the rules say what is wrong with them."""

    action: Action
    content: object
    old_text: object


@dataclass(frozen=True, slots=True)
class Request:
    """What a call asks for. A batch is applied all or nothing."""

    target: Target
    operations: tuple[Operation, ...]
    is_batch: bool


def target_of(arguments: object) -> Target:
    """Which note a call means; `memory` where it does not say. Raises `Refused` for another word."""
    named = arguments.get("target") if isinstance(arguments, Mapping) else None
    if named is None:
        return Target.MEMORY
    if not isinstance(named, str) or named not in set(Target):
        raise Refused(Code.INVALID_TARGET, "`target` is 'memory' or 'user'.")
    return Target(named)


def read(arguments: object) -> Request:
    """The request in a tool's arguments: an object, or its JSON. Raises `Refused`; unknown fields are ignored."""
    found = _object(arguments)
    target = target_of(found)
    operations = _list(found.get("operations"))
    if found.get("action") is not None:
        if operations:
            raise Refused(Code.INVALID_ARGUMENT, "Give `action` or `operations`, not both.")
        return Request(target, (_operation(found),), is_batch=False)
    if operations:
        if len(operations) > MOST_OPERATIONS:
            raise Refused(
                Code.INVALID_ARGUMENT,
                f"A call has at most {MOST_OPERATIONS} operations, this has {len(operations)}.",
            )
        return Request(
            target, tuple(_nth(place, one) for place, one in enumerate(operations, 1)), is_batch=True
        )
    if _is_bare(found):
        return Request(target, (Operation(Action.ADD, _first(found, _CONTENT), None),), is_batch=False)
    raise Refused(
        Code.MISSING_ACTION,
        "There is no `action`. Call with {action: 'add' | 'replace' | 'remove', content, old_text}, or with "
        "{operations: [{action, content, old_text}, …]} for several changes at once.",
    )


def _object(arguments: object) -> Mapping[str, Any]:
    if isinstance(arguments, str):
        arguments = _parsed(arguments, "The arguments")
    if not isinstance(arguments, Mapping):
        raise Refused(Code.INVALID_ARGUMENT, f"The arguments are an object, not {type(arguments).__name__}.")
    return arguments


def _list(operations: object) -> list[Any]:
    if isinstance(operations, str) and operations.strip():
        operations = _parsed(operations, "`operations`")
    if not operations:
        return []
    if not isinstance(operations, list):
        raise Refused(Code.INVALID_ARGUMENT, f"`operations` is a list, not {type(operations).__name__}.")
    return operations


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Refused(Code.INVALID_ARGUMENT, f"{name} cannot be read as JSON.") from None


def _nth(place: int, found: object) -> Operation:
    try:
        if not isinstance(found, Mapping):
            raise Refused(Code.INVALID_ARGUMENT, f"an operation is an object, not {type(found).__name__}.")
        if found.get("target") is not None:
            raise Refused(Code.INVALID_ARGUMENT, "`target` stands beside `operations`, not in them.")
        return _operation(found)
    except Refused as refused:
        raise in_batch(refused, place, None) from None


def _operation(found: Mapping[str, Any]) -> Operation:
    action = found.get("action")
    if action is None and _is_bare(found):
        action = Action.ADD
    if action is None:
        raise Refused(Code.MISSING_ACTION, "there is no `action`; it is 'add', 'replace' or 'remove'.")
    if not isinstance(action, str) or action not in set(Action):
        raise Refused(
            Code.UNKNOWN_ACTION,
            "`action` is 'add', 'replace' or 'remove'. There is nothing to read: the notes are in your prompt.",
        )
    return Operation(Action(action), _first(found, _CONTENT), _first(found, _OLD_TEXT))


def _is_bare(found: Mapping[str, Any]) -> bool:
    """Whether there is content and nothing that it could take the place of: then it is to be added."""
    return _first(found, _CONTENT) is not None and _first(found, _OLD_TEXT) is None


def _first(found: Mapping[str, Any], names: tuple[str, ...]) -> object:
    return next((found[name] for name in names if found.get(name) is not None), None)


def in_batch(refused: Refused, place: int, action: Action | None) -> Refused:
    """The same refusal, saying which operation of a batch it was."""
    name = f"Operation {place}" + (f" ({action})" if action else "")
    error = f"{name}: {refused.error} No operations were applied."
    return Refused(refused.code, error, operation=place, **refused.facts)
