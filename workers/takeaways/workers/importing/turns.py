"""Where one run of the agent ends and the next one starts, in files that do not say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from takeaways.schemas.events import Message
from takeaways.workers.importing.rooms import Stretch


def by_user_turn(messages: Iterable[Message], compaction: int = 0) -> Iterator[Stretch]:
    """One run for each time that people spoke and the agent answered.

    What people said at the end, to which no answer came, is a run that failed: not counted, but read.
    """
    current: list[Message] = []
    answered = False
    for message in messages:
        kind = message.author.kind if message.author else None
        if kind == "person" and answered:
            yield Stretch(tuple(current), "succeeded", compaction)
            current, answered = [], False
        current.append(message)
        answered = answered or kind == "agent"
    if current:
        yield Stretch(tuple(current), "succeeded" if answered else "failed", compaction)
