"""LongMemEval histories as steps: a session's messages are one room and one run, the questions are none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from takeaways.schemas.events import Message
from takeaways.workers.importing.message_list import first_of
from takeaways.workers.importing.records import Record
from takeaways.workers.importing.rooms import Draft, Stretch
from takeaways.workers.importing.shape import Context
from takeaways.workers.importing.speech import a_person, by_role, identifier, message, text_of
from takeaways.workers.importing.times import moment


def fits(value: Any) -> bool:
    steps = value.get("steps") if isinstance(value, dict) else None
    return isinstance(steps, list) and any(_adds_messages(step) for step in steps)


def rooms(records: Iterator[Record], context: Context) -> Iterator[Draft]:
    for record in records:
        sessions: dict[str, list[Message]] = {}
        for number, step in enumerate(record.value["steps"], start=1):
            if not _adds_messages(step):
                continue
            session = identifier(step.get("session_id"))
            if session is None:
                context.reporter.lost(
                    "messages without a session_id", line=record.line, record=f"step {number}"
                )
                continue
            said = sessions.setdefault(session, [])
            for place, item in enumerate(step["messages"], start=1):
                where = f"step {number}, message {place}"
                if found := _message(item, f"{number}.{place}", context, record.line, where):
                    said.append(found)
        for session, said in sessions.items():
            name = session if record.alone else f"{record.number}/{session}"
            dated = all(item.time for item in said)
            yield Draft(name, f"{context.title}, {session}", (Stretch(tuple(said)),), in_file_order=not dated)


def _adds_messages(step: Any) -> bool:
    return (
        isinstance(step, dict)
        and step.get("step_type") == "add_messages"
        and isinstance(step.get("messages"), list)
    )


def _message(item: Any, place: str, context: Context, line: int | None, where: str) -> Message | None:
    peer = text_of(item.get("peer_id")) if isinstance(item, dict) else ""
    if not peer or "content" not in item:
        context.reporter.lost("a message without peer_id or content", line=line, record=where)
        return None
    role = peer if peer in ("user", "assistant") else "user"
    return message(
        message_id=identifier(first_of(item, ("id", "message_id"))) or f"message-{place}",
        role=role,
        content=item["content"],
        author=by_role(role, context.agent_id) if role == peer else a_person(peer),
        time=moment(item.get("created_at"), context.reporter, line=line, record=where),
    )
