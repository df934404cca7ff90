"""Team chats: many people, each message with sender and time. A file is one room, a day of it one run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from typing import Any

from takeaways.schemas.events import Author, Message
from takeaways.workers.importing.message_list import first_of
from takeaways.workers.importing.records import Record
from takeaways.workers.importing.rooms import Draft, Stretch
from takeaways.workers.importing.shape import Context
from takeaways.workers.importing.speech import a_person, identifier, message, text_of, the_agent
from takeaways.workers.importing.times import moment

_TIMES = ("create_time", "created_at", "timestamp", "time")
_AGENTS = frozenset({"assistant", "agent", "bot"})


def fits(value: Any) -> bool:
    return isinstance(value, dict) and "sender" in value and "content" in value and "role" not in value


def fits_file(value: Any) -> bool:
    said = value.get("conversation_list") if isinstance(value, dict) else None
    return isinstance(said, list) and bool(said)


def rooms(records: Iterator[Record], context: Context) -> Iterator[Draft]:
    """The file is a list of messages."""
    found = (
        _message(record.value, record.number, frozenset(), context, record.line, record.name)
        for record in records
    )
    yield _draft("", context.title, [item for item in found if item])


def rooms_of_file(records: Iterator[Record], context: Context) -> Iterator[Draft]:
    """The file says who takes part, and holds the list of messages."""
    for record in records:
        meta = record.value.get("session_meta")
        meta = meta if isinstance(meta, dict) else {}
        agents = frozenset(_agents(meta.get("user_details")))
        said = [
            found
            for number, item in enumerate(record.value["conversation_list"], start=1)
            if (found := _message(item, number, agents, context, record.line, f"message {number}"))
        ]
        yield _draft(
            "" if record.alone else str(record.number), text_of(meta.get("name")) or context.title, said
        )


def _draft(name: str, title: str, said: list[Message]) -> Draft:
    if not all(item.time for item in said):
        return Draft(name, title, (Stretch(tuple(said)),), in_file_order=True)
    said.sort(key=_said_at)
    days = groupby(said, key=lambda item: _said_at(item).date())
    return Draft(name, title, tuple(Stretch(tuple(day)) for _, day in days))


def _said_at(item: Message) -> datetime:
    assert item.time is not None  # noqa: S101 - only dated chats get here
    return item.time


def _agents(details: Any) -> Iterator[str]:
    for sender, detail in details.items() if isinstance(details, dict) else ():
        if isinstance(detail, dict) and text_of(detail.get("role")) in _AGENTS:
            yield sender


def _message(
    item: Any, number: int, agents: frozenset[str], context: Context, line: int | None, where: str
) -> Message | None:
    sender = identifier(item.get("sender")) if isinstance(item, dict) else None
    if sender is None or "content" not in item:
        context.reporter.lost("a message without sender or content", line=line, record=where)
        return None
    author = _author(sender, text_of(item.get("sender_name")) or None, agents, context)
    return message(
        message_id=identifier(first_of(item, ("message_id", "id"))) or f"message-{number}",
        role="assistant" if author.kind == "agent" else "user",
        content=item["content"],
        author=author,
        time=moment(first_of(item, _TIMES), context.reporter, line=line, record=where),
    )


def _author(sender: str, name: str | None, agents: frozenset[str], context: Context) -> Author:
    if sender in agents or sender == context.agent_id:
        return the_agent(context.agent_id, name)
    return a_person(name, sender)
