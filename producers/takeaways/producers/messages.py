"""Messages as services hold them, made into messages for the wire; and complaints that help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from pydantic import ValidationError

from takeaways.schemas.errors import BadInput
from takeaways.schemas.events import Data, Message, Wire, complaint

_FIELDS: Final = frozenset(Message.model_fields)
# OpenAI's SDK writes these beside the content; they only repeat it.
_IGNORED: Final = frozenset({"annotations"})
_MOST_COMPLAINTS: Final = 5

AnyWire = TypeVar("AnyWire", bound=Wire)


@runtime_checkable
class SdkMessage(Protocol):
    """A message as an SDK returns it: `anthropic.types.Message`, OpenAI's `ChatCompletionMessage`, ..."""

    def model_dump(self, *, exclude_none: bool) -> dict[str, Any]:
        """Return the message as a dict."""
        ...


AnyMessage = Message | Mapping[str, Any] | SdkMessage


def as_messages(found: Iterable[AnyMessage], what: str) -> tuple[Message, ...]:
    """Read the messages of one event. Raises `BadInput`, which names the message by its place."""
    if isinstance(found, str | bytes | Mapping | Message):
        raise BadInput(f"{what} is a list of messages, not one {type(found).__name__}")
    return tuple(as_message(message, f"{what}.{place}") for place, message in enumerate(found))


def as_message(found: AnyMessage, what: str) -> Message:
    """Read one message: ours, a dict, or an SDK's object. What an SDK adds around a message is left away.

    A field of a plain dict that we do not know is refused, because it could be a misspelt one.
    """
    if isinstance(found, Message):
        return found
    fields: Mapping[str, Any]
    if isinstance(found, Mapping):
        fields = found if found.keys() <= _FIELDS else _without_wrapping(found)
    elif isinstance(found, SdkMessage):
        fields = {key: value for key, value in found.model_dump(exclude_none=True).items() if key in _FIELDS}
    else:
        raise BadInput(
            f"{what}: a message is a dict, a Message or an SDK's object, not {type(found).__name__}"
        )
    return made(Message, what, fields)


def _without_wrapping(found: Mapping[str, Any]) -> dict[str, Any]:
    """A dict as an API returned it says `"type": "message"`, and has more beside the message."""
    returned = found.get("type") == "message"
    return {key: value for key, value in found.items() if key in _FIELDS or not (returned or key in _IGNORED)}


def made(model: type[AnyWire], what: str, fields: Mapping[str, Any]) -> AnyWire:
    """Build a model of the wire. Raises `BadInput` with every broken rule, and no value that broke one."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        told = "; ".join(_told(model, problem) for problem in problems[:_MOST_COMPLAINTS])
        more = f"; and {len(problems) - _MOST_COMPLAINTS} more" if len(problems) > _MOST_COMPLAINTS else ""
        raise BadInput(f"{what}: {told}{more}") from None


def name_of(model: type[Data]) -> str:
    """`run.completed` for the type `takeaways.run.completed.v1`."""
    return ".".join(model.TYPE.split(".")[1:-1])


def _told(model: type[Wire], problem: Mapping[str, Any]) -> str:
    if problem["type"] != "extra_forbidden":
        return complaint(problem)
    field = str(problem["loc"][-1])
    known = list(model.model_fields) if len(problem["loc"]) == 1 else []
    close = get_close_matches(field, known, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}" if known else ""
    return complaint({**problem, "msg": f"there is no such field{'; ' if hint else ''}{hint}"})
