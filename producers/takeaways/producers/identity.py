"""What makes an event the same event: ids that are derived, so that a publish repeated after a crash is one.

| event | made of |
| --- | --- |
| `run.completed` | agent, run |
| `messages.recorded` | agent, what it says |
| `room.compacted` | agent, room, conversation, compaction |
| `message.edited`, `message.deleted` | agent, room, message, revision |
| `room.deleted`, `agent.deleted`, `person.deleted` | agent, room or person, and the generation |

Generations of agent and room count where they are given.
"""

from __future__ import annotations

from typing import Any

from takeaways.schemas.events import (
    AgentDeleted,
    Event,
    MessageDeleted,
    MessageEdited,
    MessagesRecorded,
    PersonDeleted,
    RoomCompacted,
    RoomDeleted,
    RunCompleted,
)
from takeaways.schemas.ids import derived


def event_id(event: Event) -> str | None:
    """The derived id of an event, or None for a deletion that names no generation.

    The same room may be deleted, filled again and deleted again: without a generation nothing tells the
    second deletion from a repeat of the first.
    """
    agent, data = (event.agent_id, event.data.agent.generation), event.data
    parts: tuple[Any, ...]
    match data:
        case RunCompleted():
            parts = ("run", data.run_id)
        case MessagesRecorded():
            parts = ("messages", event.body)
        case RoomCompacted():
            conversation = data.conversation
            parts = (
                "compaction",
                data.room.id,
                data.room.generation,
                conversation.id,
                conversation.compaction,
            )
        case MessageEdited():
            parts = ("edit", data.room.id, data.room.generation, data.message_id, data.revision)
        case MessageDeleted():
            parts = ("deletion", data.room.id, data.room.generation, data.message_id, data.revision)
        case RoomDeleted():
            if data.room.generation is None:
                return None
            parts = ("room-deleted", data.room.id, data.room.generation)
        case AgentDeleted() | PersonDeleted():
            if data.agent.generation is None:
                return None
            whom = data.person_id if isinstance(data, PersonDeleted) else None
            parts = ("agent-deleted",) if whom is None else ("person-deleted", whom)
    return derived(parts[0], *agent, *parts[1:])
