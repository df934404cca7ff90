"""An imported room as the events that a service would have published while it happened."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from takeaways.producers import Composer
from takeaways.schemas.events import Conversation, Event, RoomRef
from takeaways.workers.importing.rooms import ImportedCompaction, ImportedRoom, ImportedRun

SOURCE: Final = "import"


def events_of(room: ImportedRoom, agent_id: str, *, published_at: datetime) -> Iterator[Event]:
    """Yield the room's runs and compactions in their order. Ids come from what happened, so twice is once.

    `published_at` is when the events are sent, not when the runs were: an erased agent may be imported anew.
    """
    waiting = list(room.compactions)
    for run in room.runs:
        while waiting and waiting[0].compaction <= run.compaction:
            yield _compacted(room, waiting.pop(0), agent_id, published_at)
        yield run_event(room, run, agent_id, published_at=published_at)
    for compaction in waiting:
        yield _compacted(room, compaction, agent_id, published_at)


def run_event(
    room: ImportedRoom, run: ImportedRun, agent_id: str, *, published_at: datetime, source: str = SOURCE
) -> Event:
    """One run of the room."""
    return Composer(source=source).run_completed(
        agent_id=agent_id,
        room=_room(room),
        run_id=run.run_id,
        status=run.status,
        messages=run.messages,
        conversation=_conversation(room, run.compaction) if room.conversation_id else None,
        started_at=run.started_at,
        ended_at=run.ended_at,
        time=published_at,
    )


def _compacted(
    room: ImportedRoom, compaction: ImportedCompaction, agent_id: str, published_at: datetime
) -> Event:
    return Composer(source=SOURCE).room_compacted(
        agent_id=agent_id,
        room=_room(room),
        conversation=_conversation(room, compaction.compaction),
        trigger=compaction.trigger,
        tokens_before=compaction.tokens_before,
        last_message_id=compaction.last_message_id,
        time=published_at,
    )


def _room(room: ImportedRoom) -> RoomRef:
    return RoomRef(id=room.room_id, title=room.title or None)


def _conversation(room: ImportedRoom, compaction: int) -> Conversation:
    return Conversation(id=room.conversation_id or room.room_id, compaction=compaction)
