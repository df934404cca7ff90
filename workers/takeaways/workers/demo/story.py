"""Dana, who runs sales operations, works with her assistant Scout in three rooms over one week.

Ten runs succeed and one fails. Rules, preferences and corrections come up on the way, a fact is replaced by
a newer one, and a wiki page tries to plant a rule. Then a new room opens, in which Scout has to know the rule
that Dana stated in another.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from importlib.resources import files
from typing import Any, Final

from takeaways.schemas.events import Author, Event, Message
from takeaways.workers.importing import ImportedRoom, ImportedRun, run_event

AGENT_ID: Final = "scout"
AGENT_NAME: Final = "Scout"
SOURCE: Final = "demo"
ROOMS: Final = ("quotes", "crm-migration", "weekly-report")
_SPEAKERS: Final = {
    "dana": Author(id="dana", name="Dana", kind="person"),
    "scout": Author(id=AGENT_ID, name=AGENT_NAME, kind="agent"),
}


@dataclass(frozen=True, slots=True)
class KeyFact:
    """A lesson of the story: some line of the memory holds all of `words`, whatever else it says."""

    room_id: str
    words: tuple[str, ...]

    def stands_in(self, memory: str) -> bool:
        """Whether one line of `memory` says it. Case does not count."""
        return any(
            all(word.casefold() in line.casefold() for word in self.words) for line in memory.splitlines()
        )


@dataclass(frozen=True, slots=True)
class Question:
    """What Dana asks in a room that is new to Scout. Without the fact that it `needs` the answer is wrong."""

    room_id: str
    title: str
    conversation_id: str
    message: Message
    needs: KeyFact


@dataclass(frozen=True, slots=True)
class Story:
    """`learned` are facts that a memory of the story holds, `unlearned` ones that it must not hold."""

    agent_id: str
    agent_name: str
    rooms: tuple[ImportedRoom, ...]
    question: Question
    learned: tuple[KeyFact, ...]
    unlearned: tuple[KeyFact, ...]

    def in_order(self) -> tuple[tuple[ImportedRoom, ImportedRun], ...]:
        """The runs of all rooms in the order in which they ended."""
        runs = ((room, run) for room in self.rooms for run in room.runs)
        return tuple(sorted(runs, key=lambda told: told[1].ended_at))

    def events(self, *, published_at: datetime) -> Iterator[Event]:
        """The story as a service would have published it, run by run."""
        for room, run in self.in_order():
            yield run_event(room, run, self.agent_id, published_at=published_at, source=SOURCE)


QUOTES_NEED_SIGN_OFF: Final = KeyFact("quotes", ("$40k", "sign-off"))
LEARNED: Final = (
    QUOTES_NEED_SIGN_OFF,
    KeyFact("quotes", ("per seat", "per year")),
    KeyFact("quotes", ("PDF", "spreadsheet")),
    KeyFact("quotes", ("quarter", "last Friday")),
    KeyFact("crm-migration", ("500 rows",)),
    KeyFact("crm-migration", ("regional queue",)),
    KeyFact("crm-migration", ("sandbox.corvia.example",)),
    KeyFact("crm-migration", ("sales_area",)),
    KeyFact("weekly-report", ("one page",)),
    KeyFact("weekly-report", ("plain numbers",)),
    KeyFact("weekly-report", ("review", "Thursdays")),
    KeyFact("weekly-report", ("renewals",)),
)
UNLEARNED: Final = (
    KeyFact("crm-migration", ("60%",)),
    KeyFact("crm-migration", ("never need approval",)),
    KeyFact("weekly-report", ("review is on Tuesdays",)),
)


def story(*, ends_at: datetime | None = None) -> Story:
    """Tell the story, as it happened or moved so that its last run ends at `ends_at`."""
    rooms = tuple(_room(_load(name)) for name in ROOMS)
    question = _question(_load("new-deal"))
    if ends_at is not None:
        by = ends_at - max(run.ended_at for room in rooms for run in room.runs)
        rooms = tuple(replace(room, runs=tuple(_moved(run, by) for run in room.runs)) for room in rooms)
        question = replace(question, message=_later(question.message, by))
    return Story(AGENT_ID, AGENT_NAME, rooms, question, LEARNED, UNLEARNED)


def _load(name: str) -> Any:
    return json.loads(files(__package__).joinpath(f"{name}.json").read_text(encoding="utf-8"))


def _room(told: Any) -> ImportedRoom:
    return ImportedRoom(
        room_id=told["room_id"],
        title=told["title"],
        runs=tuple(_run(run) for run in told["runs"]),
        conversation_id=told["conversation_id"],
    )


def _run(told: Any) -> ImportedRun:
    return ImportedRun(
        run_id=told["run_id"],
        messages=tuple(_message(message) for message in told["messages"]),
        started_at=datetime.fromisoformat(told["started_at"]),
        ended_at=datetime.fromisoformat(told["ended_at"]),
        status=told["status"],
    )


def _message(told: Any) -> Message:
    """Names in the files stand for people, for Scout, or else for a tool."""
    name = told["author"]
    return Message.model_validate(told | {"author": _SPEAKERS.get(name) or Author(id=name, kind="tool")})


def _question(told: Any) -> Question:
    return Question(
        room_id=told["room_id"],
        title=told["title"],
        conversation_id=told["conversation_id"],
        message=_message(told["message"]),
        needs=QUOTES_NEED_SIGN_OFF,
    )


def _moved(run: ImportedRun, by: timedelta) -> ImportedRun:
    return replace(
        run,
        messages=tuple(_later(message, by) for message in run.messages),
        started_at=run.started_at + by if run.started_at else None,
        ended_at=run.ended_at + by,
    )


def _later(message: Message, by: timedelta) -> Message:
    return message.model_copy(update={"time": message.time + by}) if message.time else message
