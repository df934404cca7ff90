"""Erasing on request, by the way that events go: an event that nobody published, taken in here and now."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.errors import BadInput, StoreUnavailable
from takeaways.schemas.events import AgentDeleted, Event, PersonDeleted, RoomDeleted
from takeaways.workers.intake.entries import Entry
from takeaways.workers.intake.transaction import take_in
from takeaways.workers.schedule.policy import Policy

SOURCE = "takeaways erase"


def erase(
    database: Database, agent_id: str, data: AgentDeleted | RoomDeleted | PersonDeleted, *, policy: Policy
) -> None:
    """Forget an agent, a room or a person, as of now. `erasing.go_on` does what is left of it.

    Raises `BadInput` for an id that no rule admits, and `StoreUnavailable` while somebody holds the agent.
    """
    with database.read() as connection:
        time = datetime.fromtimestamp(now_ms(connection) / 1000, UTC)
    try:
        event = Event.of(data, id=uuid.uuid4().hex, source=SOURCE, agent_id=agent_id, time=time)
    except ValueError as error:
        raise BadInput(str(error)) from error
    taken = take_in(database, [Entry.of(event)], policy=policy)
    if taken.left:
        raise StoreUnavailable(f"agent {agent_id!r} is held by another process; try again")
