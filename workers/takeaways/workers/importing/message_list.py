"""Lists of chat messages as the OpenAI and the Anthropic interfaces take them, and conversations of these.

Both kinds are read here, because files mix them: what differs lies inside `content`, which stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from takeaways.schemas.events import Message
from takeaways.schemas.text import one_line
from takeaways.workers.importing.problems import Reporter
from takeaways.workers.importing.records import Record
from takeaways.workers.importing.rooms import Draft
from takeaways.workers.importing.shape import Context
from takeaways.workers.importing.speech import ROLES, by_role, identifier, message, text_of
from takeaways.workers.importing.times import moment
from takeaways.workers.importing.turns import by_user_turn

_IDS = ("id", "message_id", "uuid")
_TIMES = ("time", "timestamp", "created_at", "create_time", "created")
_SAID = ("content", "tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_content", "audio")
_CONVERSATION_IDS = ("id", "conversation_id", "room_id", "session_id", "thread_id")


def fits(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and _says_something(value)


def fits_conversation(value: Any) -> bool:
    said = _messages_of(value)
    return isinstance(said, list) and any(fits(item) for item in said)


def rooms(records: Iterator[Record], context: Context) -> Iterator[Draft]:
    """The file is one conversation."""
    said = []
    for record in records:
        if found := read_message(
            record.value, number=record.number, context=context, line=record.line, record=record.name
        ):
            said.append(found)
    yield Draft("", context.title, tuple(by_user_turn(said)), in_file_order=True)


def rooms_of_conversations(records: Iterator[Record], context: Context) -> Iterator[Draft]:
    """Each record is a conversation: named by its own id, else by its place in the file."""
    for record in records:
        value = record.value if isinstance(record.value, dict) else {}
        own = first_of(value, _CONVERSATION_IDS)
        name = "" if record.alone else identifier(own) or str(record.number)
        title = text_of(value.get("title")) or (context.title if record.alone else f"{context.title}, {name}")
        said = _with_system_prompt(value, _messages_of(record.value))
        yield Draft(
            name, title, tuple(by_user_turn(read_messages(said, record, context))), in_file_order=True
        )


def read_messages(
    said: Iterable[Any], record: Record, context: Context, *, within: str = "message"
) -> Iterator[Message]:
    """Yield the wire messages of a list that stands in one record; report the items that are none."""
    for number, item in enumerate(said, start=1):
        where = ", ".join(part for part in (record.name, f"{within} {number}") if part)
        if found := read_message(item, number=number, context=context, line=record.line, record=where):
            yield found


def read_message(
    value: Any, *, number: int, context: Context, line: int | None, record: str
) -> Message | None:
    """Return one chat message for the wire, or None, and then the reason was reported."""
    reporter: Reporter = context.reporter
    if not isinstance(value, dict) or not isinstance(value.get("role"), str):
        reporter.lost("no message: it has no role", line=line, record=record)
        return None
    role = ROLES.get(value["role"].lower())
    if role is None:
        reporter.lost(
            "no message: its role is none of user, assistant, system, developer, tool",
            line=line,
            record=record,
        )
        return None
    if not _says_something(value):
        reporter.lost("a message without content", line=line, record=record)
        return None
    name = one_line(text_of(value.get("name")))[:200] or None
    return message(
        message_id=identifier(first_of(value, _IDS)) or f"message-{number}",
        role=role,
        author=by_role(role, context.agent_id, name=name, content=value.get("content")),
        time=moment(first_of(value, _TIMES), reporter, line=line, record=record),
        name=name,
        **{field: value[field] for field in _SAID if value.get(field) is not None},
    )


def first_of(value: dict[str, Any], keys: Iterable[str]) -> Any:
    """The first of several names for the same thing that is there and not null."""
    return next((value[key] for key in keys if value.get(key) is not None), None)


def _says_something(value: dict[str, Any]) -> bool:
    return "content" in value or any(value.get(field) is not None for field in _SAID)


def _messages_of(value: Any) -> Any:
    return value.get("messages") if isinstance(value, dict) else value


def _with_system_prompt(value: dict[str, Any], said: list[Any]) -> list[Any]:
    """A request as the Anthropic interface takes it keeps the system prompt beside the messages."""
    prompt = value.get("system")
    return (
        [{"id": "system", "role": "system", "content": prompt}, *said]
        if prompt and isinstance(prompt, str | list)
        else said
    )
