"""From a draft to a room: unique message ids, stable run ids, an end for every run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from takeaways.schemas.events import MAX_MESSAGES, Message
from takeaways.schemas.ids import MAX_ID_LENGTH, derived, digest
from takeaways.schemas.text import one_line
from takeaways.workers.importing.problems import Reporter
from takeaways.workers.importing.rooms import Draft, ImportedRoom, ImportedRun, Stretch

MAX_TITLE = 200


def finished(draft: Draft, *, room_id: str, undated: datetime, reporter: Reporter) -> ImportedRoom:
    """Return the room that `draft` describes; `undated` is the end of a run whose messages have no times."""
    names = _Names(reporter, room_id)
    position = 0
    runs: list[ImportedRun] = []
    for stretch in draft.stretches:
        messages: list[Message] = []
        for message in names.unique(stretch.messages):
            place = {"ordinal": len(messages)} | ({"position": position} if draft.in_file_order else {})
            messages.append(message.model_copy(update=place))
            position += 1
        # An event takes so many messages; a longer run is several.
        for start in range(0, len(messages), MAX_MESSAGES):
            runs.append(_run(room_id, stretch, tuple(messages[start : start + MAX_MESSAGES]), undated))
    title = one_line(draft.title)[:MAX_TITLE]
    return ImportedRoom(room_id, title, tuple(runs), draft.compactions, draft.conversation_id)


def _run(room_id: str, stretch: Stretch, messages: tuple[Message, ...], undated: datetime) -> ImportedRun:
    times = [message.time for message in messages if message.time is not None]
    ended_at = max(times) if times else undated
    # A conversation that went on since it was last imported ends in another message, or has more of them.
    # Its last run is then another one, with messages that are known and some that are new: nothing conflicts.
    says = (room_id, messages[0].id, messages[-1].id, len(messages), None if times else ended_at.isoformat())
    return ImportedRun(
        run_id=derived("run", *says),
        messages=messages,
        started_at=min(times) if times else None,
        ended_at=ended_at,
        status=stretch.status,
        compaction=stretch.compaction,
    )


class _Names:
    """Gives each message of a room an id of its own; one that stands there twice is taken once."""

    def __init__(self, reporter: Reporter, room_id: str) -> None:
        self._reporter = reporter
        self._room_id = room_id
        self._first: dict[str, Message] = {}
        self._copies: dict[str, int] = {}
        self._said: set[str] = set()

    def unique(self, messages: tuple[Message, ...]) -> Iterator[Message]:
        for message in messages:
            wanted = message.id or "message"
            first = self._first.setdefault(wanted, message)
            if first is message:
                yield message
            elif self._is_new(first, message):
                self._reporter.assumed(
                    "messages that share an id were told apart by '~2'", record=self._room_id
                )
                yield message.model_copy(update={"id": self._another(wanted, message)})
            else:
                self._reporter.assumed(
                    "a message that stands here twice was taken once", record=self._room_id
                )

    def _is_new(self, first: Message, message: Message) -> bool:
        self._said.add(digest(first.model_dump(mode="json")))
        said = digest(message.model_dump(mode="json"))
        if said in self._said:
            return False
        self._said.add(said)
        return True

    def _another(self, wanted: str, message: Message) -> str:
        while True:
            self._copies[wanted] = self._copies.get(wanted, 1) + 1
            name = f"{wanted[: MAX_ID_LENGTH - 12]}~{self._copies[wanted]}"
            if self._first.setdefault(name, message) is message:
                return name
