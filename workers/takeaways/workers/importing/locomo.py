"""LoCoMo: two people who talk over months. A session is one room and one run, and has one time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from takeaways.schemas.events import Message
from takeaways.workers.importing.records import Record
from takeaways.workers.importing.rooms import Draft, Stretch
from takeaways.workers.importing.shape import Context
from takeaways.workers.importing.speech import a_person, a_picture, identifier, message, text_of
from takeaways.workers.importing.times import moment

_SESSION = re.compile(r"session_(\d{1,9})")


def fits(value: Any) -> bool:
    conversation = value.get("conversation") if isinstance(value, dict) else None
    return isinstance(conversation, dict) and any(_SESSION.fullmatch(key) for key in conversation)


def rooms(records: Iterator[Record], context: Context) -> Iterator[Draft]:
    for record in records:
        conversation = record.value["conversation"]
        sample = (
            "" if record.alone else (identifier(record.value.get("sample_id")) or str(record.number)) + "/"
        )
        speakers = " and ".join(
            filter(None, (text_of(conversation.get(f"speaker_{which}")) for which in "ab"))
        )
        numbers = sorted(int(found[1]) for key in conversation if (found := _SESSION.fullmatch(key)))
        for number in numbers:
            session = f"session_{number}"
            turns = conversation[session]
            if not isinstance(turns, list):
                context.reporter.lost("no list of turns", line=record.line, record=session)
                continue
            time = moment(
                conversation.get(f"{session}_date_time"), context.reporter, line=record.line, record=session
            )
            messages = tuple(_messages(turns, session, time, record, context))
            title = f"{speakers or context.title}, session {number}"
            yield Draft(sample + session, title, (Stretch(messages),), in_file_order=time is None)


def _messages(
    turns: list[Any], session: str, time: datetime | None, record: Record, context: Context
) -> Iterator[Message]:
    for number, turn in enumerate(turns, start=1):
        where = f"{session}, turn {number}"
        if not isinstance(turn, dict) or not (speaker := text_of(turn.get("speaker"))):
            context.reporter.lost("a turn without a speaker", line=record.line, record=where)
            continue
        caption = text_of(turn.get("blip_caption"))
        if not isinstance(turn.get("text"), str) and not caption:
            context.reporter.lost("a turn without text", line=record.line, record=where)
            continue
        text = text_of(turn.get("text"))
        yield message(
            message_id=identifier(turn.get("dia_id")) or f"turn-{number}",
            role="user",
            content=[{"type": "text", "text": text}, a_picture(caption)] if caption else text,
            author=a_person(speaker),
            time=time,
        )
