"""Taking in a batch of events, in one transaction that a repeat does not change.

*What*: the ids of the events (a duplicate changes nothing), then the agents' rows under lock, then messages,
counts and timers. *How it can end*: everything is committed and may be acknowledged; or agents that somebody
holds are left for later and the rest is committed; or the database has trouble, nothing is acknowledged and
the error is raised.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from takeaways.schemas.database import Database, lease_clock, now_ms
from takeaways.schemas.errors import DeadLetterReason
from takeaways.schemas.events import AgentDeleted, PersonDeleted, RoomDeleted
from takeaways.workers.erasure import forgetting
from takeaways.workers.faults import fault_point
from takeaways.workers.intake import deadletters, store
from takeaways.workers.intake.admission import is_outdated
from takeaways.workers.intake.entries import Entry
from takeaways.workers.intake.picture import AgentCopy, Picture, RoomCopy
from takeaways.workers.intake.plan import plan
from takeaways.workers.intake.refusals import Meaning, meaning_of, named
from takeaways.workers.intake.taken import Hint, Taken, TakenIn
from takeaways.workers.intake.wake import Wake, wake_after
from takeaways.workers.schedule.decide import decide
from takeaways.workers.schedule.moment import moment
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.state import AgentState, Moment

log = structlog.get_logger(__name__)

LOCK_TIMEOUT_MS: Final = 2_000
_TRIES: Final = 6
_Why = tuple[DeadLetterReason, str]
_FIRST_PAUSE_SECONDS: Final = 0.02


def take_in(
    database: Database,
    entries: Sequence[Entry],
    *,
    policy: Policy,
    lock_timeout_ms: int = LOCK_TIMEOUT_MS,
) -> TakenIn:
    """Take in entries in the order of their stream. Afterwards `done` may be acknowledged, `left` not.

    The boot that counts is the one in the database: another process may have begun it.
    Raises SQLAlchemy's error when the database has trouble; what was committed before it comes again and is
    then a duplicate.
    """
    intake = _Intake(database, policy, lock_timeout_ms)
    total = TakenIn()
    for batch in _around_deletions(entries):
        total = intake.take(batch, total)
    return total


def _around_deletions(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Cut a batch where something is to be forgotten: what came before is erased, what comes after is not."""
    batch: list[Entry] = []
    for entry in entries:
        if entry.forgets:
            if batch:
                yield batch
            yield [entry]
            batch = []
        else:
            batch.append(entry)
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class _Intake:
    database: Database
    policy: Policy
    lock_timeout_ms: int

    def take(self, batch: Sequence[Entry], so_far: TakenIn) -> TakenIn:
        """Take in a batch after others. An agent of which something was left keeps its order: all waits."""
        busy = so_far.busy_agents
        free = [entry for entry in batch if entry.agent_id is None or entry.agent_id not in busy]
        waiting = tuple(entry for entry in batch if entry.agent_id in busy) if busy else ()
        total = so_far.plus(TakenIn(left=waiting))
        if not free:
            return total
        try:
            return total.plus(self._repeating(free))
        except (DBAPIError, UnicodeError, OverflowError) as error:
            meaning = meaning_of(error)
            if meaning not in (Meaning.REFUSED, Meaning.TOO_SLOW) or (
                meaning is Meaning.TOO_SLOW and len(free) == 1
            ):
                raise
            if len(free) == 1:
                return total.plus(self._set_aside(free[0], error))
        half = len(free) // 2
        return self.take(free[half:], self.take(free[:half], total))

    def _set_aside(self, entry: Entry, error: Exception) -> TakenIn:
        log.warning("an event was refused by the database", entry=entry.entry_id, error=named(error))
        letter = entry.dead_letter(
            DeadLetterReason.REFUSED_BY_DATABASE, f"the database refused it: {named(error)}"
        )
        with self.database.write() as connection:
            deadletters.put(connection, [letter], at_ms=now_ms(connection))
        return TakenIn(done=(entry,), outcomes=Counter([Taken.DEAD_LETTER]))

    def _repeating(self, batch: Sequence[Entry]) -> TakenIn:
        left: tuple[Entry, ...] = ()
        for attempt in range(_TRIES):
            try:
                return self._once(batch).plus(TakenIn(left=left))
            except DBAPIError as error:
                match meaning_of(error):
                    case Meaning.LOST_RACE if attempt < _TRIES - 1:
                        time.sleep(_FIRST_PAUSE_SECONDS * 2**attempt * random.uniform(0.5, 1.5))  # noqa: S311
                    case Meaning.LOCKED:
                        free, locked = ([], list(batch)) if left else self._split(batch)
                        if attempt > 0 and not locked:
                            raise  # no agent is held, so it is the database that does not get on
                        left += tuple(locked)
                        batch = free
                        if not batch:
                            return TakenIn(left=left)
                    case _:
                        raise
        return TakenIn(left=left + tuple(batch))

    def _split(self, batch: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
        """The entries whose agents nobody holds, and the others."""
        agent_ids = {entry.agent_id for entry in batch if entry.agent_id is not None}
        with self.database.write(lock_timeout_ms=self.lock_timeout_ms) as connection:
            held = store.known_agents(connection, agent_ids) - store.free_agents(connection, agent_ids)
        log.info("agents are locked by another process; their events wait", agents=len(held))
        free = [entry for entry in batch if entry.agent_id is None or entry.agent_id not in held]
        return free, [entry for entry in batch if entry.agent_id in held]

    def _once(self, batch: Sequence[Entry]) -> TakenIn:
        with self.database.write(lock_timeout_ms=self.lock_timeout_ms) as connection:
            taken = self._transact(connection, batch)
            fault_point("before_commit")
            return taken

    def _transact(self, connection: Connection, batch: Sequence[Entry]) -> TakenIn:
        at = moment(connection)
        now, now_ms = _Now(connection, at), at.now_ms
        first, letters, repeats = _sorted_out(batch)
        new, hashes = store.add_event_ids(connection, first, now_ms)
        outcomes = Counter(repeats)
        fresh: list[Entry] = []
        for key, entry in first.items():
            if key in new:
                fresh.append(entry)
            elif hashes.get(key) == entry.body_hash:
                outcomes[Taken.DUPLICATE] += 1
            else:
                letters.append((entry, (DeadLetterReason.CONFLICTING_PAYLOAD, _conflict(entry))))
        agents = store.lock_agents(
            connection, {entry.agent_id for entry in fresh if entry.agent_id is not None}
        )
        if fresh and fresh[0].forgets:
            planned, stored = self._forget(now, fresh[0], agents), 0
        else:
            planned, stored = self._plan(now, fresh, agents)
        hints = self._reschedule(now, [agent for agent in agents.values() if agent.touched])
        outcomes.update(planned)
        outcomes.update([Taken.DEAD_LETTER] * len(letters))
        _note_outcomes(connection, fresh, planned)
        deadletters.put(connection, [entry.dead_letter(*why) for entry, why in letters], at_ms=now_ms)
        unknown = sum(entry.event.unknown_fields for entry in fresh if entry.event is not None)
        return TakenIn(tuple(batch), (), tuple(hints), outcomes, stored, unknown)

    def _plan(
        self, now: _Now, fresh: Sequence[Entry], agents: dict[str, AgentCopy]
    ) -> tuple[list[Taken], int]:
        made = plan(fresh, store.look(now.connection, fresh, agents, now.at_ms))
        store.write(now.connection, made)
        for agent_id, agent in sorted(agents.items()):
            for because, keys in agent.withdrawn.items():
                forgetting.withdraw(now.connection, agent_id, keys, because)
                agent.touched = True
        withdrawn = sorted(agent_id for agent_id, agent in agents.items() if agent.withdrawn)
        for agent_id, row in store.read_agents(now.connection, withdrawn).items():
            agents[agent_id].row = row
        return made.outcomes, made.stored

    def _forget(self, now: _Now, entry: Entry, agents: dict[str, AgentCopy]) -> list[Taken]:
        event = entry.event
        assert event is not None  # noqa: S101 - an entry that forgets has one
        agent_id, data = event.agent_id, event.data
        picture = store.look(now.connection, [entry], agents, now.at_ms)
        room = picture.rooms.get((agent_id, data.room.id)) if isinstance(data, RoomDeleted) else None
        if is_outdated(data, entry.at_ms, agents[agent_id], room):
            return [Taken.OUTDATED]
        # A clock that runs ahead must not keep out what is said from now on.
        at_ms = min(entry.at_ms, now.at_ms)
        match data:
            case AgentDeleted():
                forgetting.forget_agent(now.connection, agent_id, at_ms)
            case RoomDeleted():
                if room is None:
                    store.write_rooms(now.connection, [RoomCopy(agent_id, data.room.id, fresh=True)])
                forgetting.forget_room(now.connection, agent_id, data.room.id, at_ms)
            case PersonDeleted():
                if not _later(picture, agent_id, data.person_id, at_ms):
                    return [Taken.OUTDATED]
                forgetting.forget_person(now.connection, agent_id, data.person_id, at_ms)
        agents[agent_id] = AgentCopy(store.read_agents(now.connection, [agent_id])[agent_id], touched=True)
        return [Taken.FORGOTTEN]

    def _reschedule(self, now: _Now, agents: Sequence[AgentCopy]) -> list[Hint]:
        """Decide for the agents of a batch as they are now, and write their rows."""
        changes: list[tuple[AgentCopy, Wake]] = []
        for agent in agents:
            row, then = agent.row, now.row_after(agent)
            before = decide(now.state(row), self.policy, now.at_ms)
            after = decide(now.state(then), self.policy, now.at_ms)
            changes.append((agent, wake_after(row, before, after, self.policy, now.at_ms)))
        store.write_agents(now.connection, changes, now.boot_id)
        return [wake.hint for _, wake in changes if wake.hint is not None]


@dataclass(slots=True)
class _Now:
    """The transaction with its instant. The lease's clock is read anew, once, when the rows are locked."""

    connection: Connection
    at: Moment
    _locked: Moment | None = None

    @property
    def at_ms(self) -> int:
        return self.at.now_ms

    @property
    def boot_id(self) -> str:
        return self.at.boot_id

    def state(self, row: Any) -> AgentState:
        if self._locked is None:
            self._locked = replace(self.at, lease_clock=lease_clock(self.connection))
        return AgentState.of(row, self._locked)

    def row_after(self, agent: AgentCopy) -> dict[str, Any]:
        row = dict(agent.row)
        if row["boot_id"] != self.boot_id:
            row["boot_id"], row["runs_served"] = self.boot_id, row["runs_total"]
        row["messages_total"] += agent.became_unread
        row["messages_read"] += agent.left_unread
        row["runs_total"] += agent.runs
        row["compactions_total"] += agent.compactions
        row["last_success_ms"] = agent.last_success_ms
        return row


def _sorted_out(
    batch: Sequence[Entry],
) -> tuple[dict[store.EventKey, Entry], list[tuple[Entry, _Why]], list[Taken]]:
    """The first entry of each event id, the dead letters of the batch, and the duplicates within it."""
    first: dict[store.EventKey, Entry] = {}
    letters: list[tuple[Entry, _Why]] = []
    repeats: list[Taken] = []
    for entry in batch:
        if entry.event is None:
            letters.append((entry, (entry.reason or DeadLetterReason.NOT_AN_EVENT, entry.detail)))
            continue
        key = entry.event.source, entry.event.id
        twin = first.setdefault(key, entry)
        if twin is entry:
            continue
        if twin.body_hash == entry.body_hash:
            repeats.append(Taken.DUPLICATE)
        else:
            letters.append((entry, (DeadLetterReason.CONFLICTING_PAYLOAD, _conflict(entry))))
    return first, letters, repeats


def _conflict(entry: Entry) -> str:
    event_id = entry.event.id if entry.event is not None else ""
    return f"the event {event_id!r} came before with another content; a new content needs a new id"


def _note_outcomes(connection: Connection, fresh: Sequence[Entry], planned: Sequence[Taken]) -> None:
    """Ids were stored as taken in (or of no room); say so where something else became of the event."""
    expected = (Taken.TAKEN_IN, Taken.NOT_A_ROOM)
    store.set_outcomes(
        connection,
        sorted(
            ((entry.event.source, entry.event.id), outcome)
            for entry, outcome in zip(fresh, planned, strict=True)
            if entry.event is not None and outcome not in expected
        ),
    )


def _later(picture: Picture, agent_id: str, person_id: str, at_ms: int) -> bool:
    known_ms = picture.erased_persons.get(agent_id, {}).get(person_id)
    return known_ms is None or at_ms > known_ms
