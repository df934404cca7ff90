"""Facts that change: worded anew, denied, told in any room and taken in in any order, batch by batch.

The scripted model knows which statements are about one thing. It first answers as a careless one would, for
whom the last that it reads is right; only with the pipeline's complaints it goes by when things were said.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from benchmarks.learning import AGENT, Services
from takeaways.recall.store import load_memory
from takeaways.schemas.database import Database
from takeaways.schemas.events import Event, Message, RoomRef, RunCompleted
from takeaways.schemas.migrations import migrate
from takeaways.workers.intake.entries import Entry
from takeaways.workers.intake.transaction import take_in
from takeaways.workers.jobs.flush import flush
from takeaways.workers.models.answers import ConsolidationAnswer, ExtractionAnswer
from takeaways.workers.models.requests import ConsolidationRequest, ExtractionRequest
from takeaways.workers.models.seam import Answered, Call
from takeaways.workers.testing import ScriptedModel

FACTS: Final = 60
ROOMS: Final = 7
BATCHES: Final = 12
SEED: Final = 20_260_301
_START: Final = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
_THINGS: Final = (
    "registry",
    "staging port",
    "on-call phone",
    "release day",
    "sign-off limit",
    "backup region",
)
_SAYINGS: Final = (
    "The {thing} is {value}.",
    "We moved: for the {thing} use {value} from now on.",
    "{value} has taken over as the {thing}.",
    "Somebody changed the {thing}; it says {value} these days.",
)
_DENIALS: Final = ("The {thing} is not {value} any more.", "Nobody uses {value} as the {thing} now.")


@dataclass(frozen=True, slots=True)
class Statement:
    """`about` is what the scripted model knows it is about."""

    about: str
    text: str
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Updates:
    """How the memory ended: shares of the facts."""

    facts: int
    statements: int
    newest_present: float
    stale_gone: float
    repairs: int


def statements(dice: random.Random) -> list[Statement]:
    """Two to four statements for each fact, in the order in which they were said."""
    found: list[Statement] = []
    for number in range(FACTS):
        thing = f"{_THINGS[number % len(_THINGS)]} of team {number}"
        value = ""
        for turn in range(dice.randint(2, 4)):
            denied = turn > 0 and dice.random() < 0.3
            value = value if denied else f"v{number}-{turn}-{dice.randrange(1000)}"
            saying = dice.choice(_DENIALS if denied else _SAYINGS)
            text = saying.format(thing=thing, value=value)
            text = text[0].upper() + text[1:]
            if any(one.text == text for one in found):
                continue
            found.append(
                Statement(
                    thing, text, _START + timedelta(days=10 * turn, minutes=number + dice.randrange(99))
                )
            )
    return found


class UpdatingModel(ScriptedModel):
    """Careless at first, right when it is told what is wrong."""

    def __init__(self, known: list[Statement]) -> None:
        super().__init__()
        self._about = {one.text: one.about for one in known}
        self.repairs = 0

    def extract(self, request: ExtractionRequest, call: Call) -> Answered[ExtractionAnswer]:
        return super().extract(request, call)

    def consolidate(self, request: ConsolidationRequest, call: Call) -> Answered[ConsolidationAnswer]:
        self.repairs += request.repair is not None
        self.then_consolidate(self._careful if request.repair else self._careless)
        return super().consolidate(request, call)

    def _careless(self, request: ConsolidationRequest) -> ConsolidationAnswer:
        return self._answer(request, lambda one: 0)

    def _careful(self, request: ConsolidationRequest) -> ConsolidationAnswer:
        return self._answer(request, lambda one: one.said_at_ms)

    def _answer(self, request: ConsolidationRequest, when: Any) -> ConsolidationAnswer:
        lines = {
            self._about[line.text]: (line, section) for section in request.sections for line in section.lines
        }
        groups: dict[str, list[Any]] = {}
        for one in request.candidates:
            groups.setdefault(self._about[one.text], []).append(one)
        edits: dict[str, dict[str, Any]] = {}
        fresh: list[dict[str, Any]] = []
        account: list[dict[str, Any]] = []
        for about, group in groups.items():
            newest = max(group, key=lambda one: (when(one), group.index(one)))
            known = lines.get(about)
            keeps_line = known is not None and when(known[0]) > when(newest)
            by = known[0].label if known is not None and keeps_line else newest.label
            for one in group:
                gave_way = one is not newest or keeps_line
                account.append(
                    {"candidate": one.label, "fate": "superseded" if gave_way else "merged",
                     "by": by if gave_way else None}
                )  # fmt: skip
            said = {"kind": newest.kind, "text": newest.text, "candidates": [newest.label]}
            if known is None:
                fresh.append(said)
            elif not keeps_line:
                edit = edits.setdefault(
                    known[1].label, {"op": "update", "section": known[1].label, "gist": "", "replace": []}
                )
                edit["replace"].append({**said, "line": known[0].label})
        every = [*edits.values()]
        if fresh and request.sections:
            first = request.sections[0].label
            target = edits.setdefault(first, {"op": "update", "section": first, "gist": "", "replace": []})
            target["add"] = fresh
            every = [*edits.values()]
        elif fresh:
            every.append({"op": "create", "title": "Facts", "gist": "", "lines": fresh})
        return ConsolidationAnswer.model_validate({"edits": every, "account": account})


def updated(home: Path, *, seed: int = SEED) -> Updates:
    """Take in all statements in an order that has nothing to do with when they were said; look what is left."""
    dice = random.Random(seed)
    known = statements(dice)
    model = UpdatingModel(known)
    database = Database.open(f"sqlite:///{home / 'takeaways.db'}")
    migrate(database)
    services = Services(database=database, model=model)
    try:
        order = dice.sample(known, len(known))
        for batch in range(BATCHES):
            events = [
                _event(one, place, dice.randrange(ROOMS))
                for place, one in enumerate(order)
                if place % BATCHES == batch
            ]
            take_in(database, events, policy=services.policy)
            flush(services, [AGENT])
        with database.read() as connection:
            memory = load_memory(connection, AGENT).memory
    finally:
        services.heartbeat.stop()
        database.dispose()
    return _judged(known, {line.text for section in memory.sections for line in section.lines}, model.repairs)


def _event(one: Statement, place: int, room: int) -> Entry:
    data = RunCompleted(
        room=RoomRef(id=f"room-{room}"),
        run_id=f"run-{place}",
        status="succeeded",
        ended_at=one.said_at,
        messages=(Message(role="user", content=one.text, time=one.said_at),),
    )
    return Entry.of(Event.of(data, id=f"e-{place}", source="benchmark", agent_id=AGENT, time=one.said_at))


def _judged(known: list[Statement], kept: set[str], repairs: int) -> Updates:
    groups: dict[str, list[Statement]] = {}
    for one in known:
        groups.setdefault(one.about, []).append(one)
    newest = {about: max(group, key=lambda one: one.said_at) for about, group in groups.items()}
    present = sum(one.text in kept for one in newest.values())
    gone = sum(
        not any(one.text in kept for one in group if one is not newest[about])
        for about, group in groups.items()
    )
    return Updates(len(groups), len(known), present / len(groups), gone / len(groups), repairs)
