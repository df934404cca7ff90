"""What is published in a storm: events with known ids, when, and how often. Pure: a seed gives the same story.

Agents work in several rooms; runs succeed and fail, long ones send parts ahead, tasks run beside them,
conversations are compacted. Some events are sent twice, some out of order, some long after they happened.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from takeaways.schemas.events import (
    AnyData,
    Conversation,
    Event,
    Message,
    MessagesRecorded,
    RoomCompacted,
    RoomRef,
    RunCompleted,
)

SOURCE = "storm"
ROOMS = 4
SHUFFLED_SECONDS = 1.5
LATE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Planned:
    """One event, and the seconds after the start at which it is published; `copies` of it arrive."""

    at_seconds: float
    event: Event
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Story:
    """The events in the order in which they are published."""

    seed: int
    planned: tuple[Planned, ...]

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(one.event for one in self.planned)


def story(seed: int, *, agents: int, events: int, seconds: float, start: datetime) -> Story:
    """About `events` events of `agents` agents, spread over `seconds`."""
    rng = random.Random(seed)
    each = -(-events // agents)
    planned: list[Planned] = []
    for number in range(agents):
        agent = f"agent-{seed}-{number}"
        moments = sorted(rng.uniform(0, seconds) for _ in range(each))
        happened = _life(rng, agent, [start + timedelta(seconds=moment) for moment in moments])
        planned += [
            _sent(rng, moment, event, seconds) for moment, event in zip(moments, happened, strict=True)
        ]
    planned.sort(key=lambda one: (one.at_seconds, one.event.id))
    return Story(seed, tuple(planned))


def probe(name: str, at: datetime, *, runs: int) -> list[Event]:
    """What makes both pools work once for an agent of its own: due runs, and a compaction."""
    room = RoomRef(id="probe")
    compaction = RoomCompacted(room=room, conversation=Conversation(id="c", compaction=1))
    return [
        *(_run(name, at, room, f"r{number}", [_said(f"{name} says {number}.")]) for number in range(runs)),
        _event(name, "compaction", at, compaction),
    ]


def _life(rng: random.Random, agent: str, moments: Sequence[datetime]) -> Iterator[Event]:
    """One agent's events, one for each moment."""
    rest = iter(moments)
    compactions = [0] * ROOMS
    for number, at in enumerate(rest):
        place, run_id, what = rng.randrange(ROOMS), f"run-{number}", rng.random()
        room = RoomRef(id=f"room-{place}")
        if what < 0.03:
            compactions[place] += 1
            conversation = Conversation(id=f"c{place}", compaction=compactions[place])
            yield _event(
                agent,
                f"compaction:{place}:{conversation.compaction}",
                at,
                RoomCompacted(room=room, conversation=conversation),
            )
            continue
        if what < 0.08:
            task = RoomRef(id="nightly", kind="task")
            yield _run(agent, at, task, run_id, [_said("A step of a task.")])
            continue
        said = [
            _said(f"Fact {number}.{part} of {room.id}: {rng.getrandbits(40):x}.")
            for part in range(rng.choice((1, 1, 2, 3)))
        ]
        messages = [said[0], Message(role="assistant", content="Noted."), *said[1:]]
        ended_at = next(rest, None) if what < 0.14 else None
        if ended_at is None:
            yield _run(agent, at, room, run_id, messages, failed=rng.random() < 0.1)
            continue
        # A long run: its beginning is sent ahead.
        # With times of their own: without one, a message read before its run ends is dated by its event.
        head = tuple(one.model_copy(update={"time": at}) for one in _numbered(messages[:2], run_id, 0))
        recorded = MessagesRecorded(room=room, run_id=run_id, started_at=at, messages=head)
        yield _event(agent, f"part:{run_id}", at, recorded)
        yield _run(agent, ended_at, room, run_id, messages[2:], first=2)


def _run(
    agent: str,
    at: datetime,
    room: RoomRef,
    run_id: str,
    messages: list[Message],
    *,
    failed: bool = False,
    first: int = 0,
) -> Event:
    data = RunCompleted(
        room=room,
        run_id=run_id,
        status="failed" if failed else "succeeded",
        ended_at=at,
        messages=tuple(_numbered(messages, run_id, first)),
    )
    return _event(agent, f"run:{run_id}", at, data)


def _numbered(messages: Sequence[Message], run_id: str, first: int) -> Iterator[Message]:
    for ordinal, message in enumerate(messages, start=first):
        yield message.model_copy(update={"id": f"{run_id}#{ordinal}", "ordinal": ordinal})


def _said(text: str) -> Message:
    return Message(role="user", content=text)


def _event(agent: str, name: str, at: datetime, data: AnyData) -> Event:
    return Event.of(data, id=f"{agent}/{name}", source=SOURCE, agent_id=agent, time=at)


def _sent(rng: random.Random, at_seconds: float, event: Event, seconds: float) -> Planned:
    """When it really arrives, and how often."""
    chance = rng.random()
    late_seconds = LATE_SECONDS if chance < 0.02 else SHUFFLED_SECONDS if chance < 0.2 else 0.0
    arrives_seconds = min(at_seconds + rng.random() * late_seconds, seconds)
    return Planned(arrives_seconds, event, copies=2 if rng.random() < 0.08 else 1)
