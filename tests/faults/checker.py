"""The promises, checked over a history. Pure: each check says what is broken, or nothing.

1. `everything_once`: each acknowledged event is in the inbox once.
2. `read_once`: each message that was read belongs to one committed extraction; later ones are stored, counted
   and unread.
3. `one_at_a_time`: what jobs of one agent committed never interleaves by epoch.
4. `five_runs`: extractions began only when five new runs were in; none is due at the end.
5. `same_memory`, `replayed`: the memory equals that of the run without faults, and the replay of its accounts.
6. `nothing_left_over`: no lease, pending entry or hint.
7. `timers`: what became due by the clock was begun within its bound.
8. recovery of each fault within its bound: `recovered`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from takeaways.schemas.events import MessagesRecorded, RunCompleted
from takeaways.schemas.memories import EMPTY, Memory
from takeaways.schemas.queues import Kind
from takeaways.workers.consolidation.account import Account, replay
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.schedule.decide import Reason
from takeaways.workers.schedule.policy import Policy
from tests.faults.history import History, Known, Row

IN_TIME: Final = "8 recovery within its bound"


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that was broken, and where to look."""

    promise: str
    where: str


def everything_once(history: History, known: Known) -> Iterator[Broken]:
    """1. Nothing acknowledged is lost; nothing is in twice; what cannot be taken in is kept."""
    name = "1 every acknowledged event is in the inbox once"
    stored = Counter((row["source"], row["event_id"]) for row in history.rows["inbox"])
    for event in known.events.values():
        if (times := stored[event.source, event.id]) != 1:
            yield Broken(name, f"event {event.id} is there {times} times")
    if (letters := len(history.rows["dead_letters"])) != known.poison:
        yield Broken(name, f"{letters} dead letters of {known.poison} entries that are no events")


def read_once(history: History, known: Known) -> Iterator[Broken]:
    """2. Messages, the counts of them, and the jobs that read them tell the same story."""
    name = "2 every message belongs to one extraction, or is unread and counted"
    stored = {(row["agent_id"], row["room_id"], row["message_id"]): row for row in history.rows["messages"]}
    sent = _messages_of(known)
    for key in sorted(sent - stored.keys()):
        yield Broken(name, f"message {key} was never stored")
    for key in sorted(stored.keys() - sent):
        yield Broken(name, f"message {key} was never sent")
    jobs = {row["job_id"]: row for row in history.rows["jobs"]}
    read = Counter(row["read_by"] for row in stored.values() if row["read_by"])
    for job_id, count in sorted(read.items()):
        job = jobs.get(job_id)
        if job is None or job["kind"] != Kind.EXTRACTION:
            yield Broken(name, f"{count} messages were read by {job_id}, which is no extraction")
    for job in jobs.values():
        if job["kind"] == Kind.EXTRACTION and job["messages_read"] != read[job["job_id"]]:
            yield Broken(
                name,
                f"job {job['job_id']} ({job['outcome']}) says it read {job['messages_read']} messages, "
                f"and {read[job['job_id']]} say so",
            )
    for agent in history.rows["agents"]:
        yield from _counts(name, agent, history.of("messages", agent["agent_id"]))


def _counts(name: str, agent: Row, messages: Sequence[Row]) -> Iterator[Broken]:
    mine = [row for row in messages if row["state"] == "stored"]
    unread = [row["arrival"] for row in mine if not row["read_by"] and not row["quarantine_id"]]
    read = [row["arrival"] for row in mine if row["read_by"]]
    if agent["messages_total"] != len(mine):
        yield Broken(
            name, f"{agent['agent_id']} counts {agent['messages_total']} messages and has {len(mine)}"
        )
    if agent["messages_total"] - agent["messages_read"] != len(unread):
        yield Broken(name, f"{agent['agent_id']} counts its unread messages wrong")
    if unread and read and max(read) > min(unread):
        yield Broken(name, f"{agent['agent_id']} has an unread message between those that were read")


def _messages_of(known: Known) -> set[tuple[str, str, str]]:
    sent = set()
    for event in known.events.values():
        data = event.data
        if isinstance(data, RunCompleted | MessagesRecorded) and data.room.kind == "room":
            for place, message in enumerate(data.messages):
                sent.add((event.agent_id, data.room.id, message.id or f"{data.run_id}#{place}"))
    return sent


def one_at_a_time(history: History) -> Iterator[Broken]:
    """3. By epoch: candidates, revisions and endings of one job all lie between those of its neighbours."""
    name = "3 claims of one agent never overlap"
    jobs: dict[str, list[Row]] = defaultdict(list)
    for row in history.rows["jobs"]:
        jobs[row["agent_id"]].append(row)
    places: dict[str, list[int]] = defaultdict(list)
    for row in history.rows["candidates"]:
        places[row["job_id"]].append(row["place"])
    revisions: dict[str, list[int]] = defaultdict(list)
    for row in history.rows["revisions"]:
        revisions[row["job_id"]].append(row["revision"])
    for agent_id, mine in jobs.items():
        mine.sort(key=lambda row: row["epoch"])
        epochs = [row["epoch"] for row in mine]
        if len(set(epochs)) != len(epochs):
            yield Broken(name, f"{agent_id} has two claims of one epoch")
        for what, effects in (("candidates", places), ("revisions", revisions)):
            spans = [(min(own), max(own)) for row in mine if (own := effects.get(row["job_id"]))]
            if any(after[0] <= before[1] for before, after in pairwise(spans)):
                yield Broken(name, f"{agent_id}: the {what} of two claims are mixed")
        for row, after in pairwise(mine):
            if row["outcome"] != Outcome.FENCED_OFF and (row["ended_ms"] or 0) > after["started_ms"]:
                yield Broken(name, f"{agent_id}: epoch {row['epoch']} ended after {after['epoch']} began")


def five_runs(history: History, policy: Policy) -> Iterator[Broken]:
    """4. The n-th extraction that runs made due began when 5n of them were in, and no earlier."""
    name = "4 extractions happen exactly when the five-run rule allows"
    for agent in history.rows["agents"]:
        agent_id = agent["agent_id"]
        counted = {row["run_id"] for row in history.of("runs", agent_id) if row["counted"]}
        if agent["runs_total"] != len(counted):
            yield Broken(name, f"{agent_id} counts {agent['runs_total']} runs and had {len(counted)}")
        if agent["runs_total"] - agent["runs_served"] >= policy.runs_per_extraction:
            yield Broken(name, f"{agent_id} has an extraction due that nobody began")
        taken_in = sorted(
            row["taken_in_ms"]
            for row in history.of("inbox", agent_id)
            if row["event_id"].rpartition("/run:")[2] in counted
        )
        begun = sorted(
            row["started_ms"]
            for row in history.of("jobs", agent_id)
            if row["kind"] == Kind.EXTRACTION and row["reason"] == Reason.RUNS
        )
        for number, started_ms in enumerate(begun, start=1):
            if bisect_right(taken_in, started_ms) < number * policy.runs_per_extraction:
                yield Broken(name, f"{agent_id}: extraction {number} began too early")


def all_read(history: History) -> Iterator[Broken]:
    """4. After a flush nothing is unread, and no candidate waits."""
    for agent in history.rows["agents"]:
        unread = agent["messages_total"] - agent["messages_read"]
        waiting = agent["candidates_total"] - agent["candidates_settled"]
        if unread or waiting:
            where = f"{agent['agent_id']}: {unread} messages unread, {waiting} candidates waiting"
            yield Broken("4 a flush leaves nothing unread", where)


def same_memory(history: History, undisturbed: History) -> Iterator[Broken]:
    """5. (i) Without ids, times of the work and revision numbers, memory and summaries are the same."""
    name = "5 the memory equals that of the run without faults"
    for agent_id in sorted({*history.agent_ids, *undisturbed.agent_ids}):
        if _shown(history, agent_id) != _shown(undisturbed, agent_id):
            yield Broken(name, f"{agent_id}: {_first_difference(history, undisturbed, agent_id)}")


def _shown(history: History, agent_id: str) -> list[tuple[Any, ...]]:
    """Sections, lines and session summaries in their order, without what the work itself adds."""
    shown: list[tuple[Any, ...]] = []
    for section in history.memories.get(agent_id, EMPTY).sections:
        shown.append(("section", section.title, section.gist))
        for line in section.lines:
            shown.append(("line", section.title, line.kind.value, line.text, line.said_at_ms, line.pinned))
    rooms = sorted(history.of("rooms", agent_id), key=lambda row: str(row["room_id"]))
    return shown + [("summary", row["room_id"], row["summary"]) for row in rooms if row["summary"]]


def _first_difference(history: History, undisturbed: History, agent_id: str) -> str:
    ours, theirs = _shown(history, agent_id), _shown(undisturbed, agent_id)
    extra = [one for one in ours if one not in theirs]
    missing = [one for one in theirs if one not in ours]
    return f"{str(extra[:2] or 'another order')[:300]} instead of {str(missing[:2])[:300]}"


def replayed(history: History) -> Iterator[Broken]:
    """5. (ii) The memory is what the accounts of its revisions make of an empty one, byte for byte."""
    accounts: dict[str, list[Row]] = defaultdict(list)
    for row in history.rows["revisions"]:
        accounts[row["agent_id"]].append(row)
    for agent in history.rows["agents"]:
        mine = sorted(accounts[agent["agent_id"]], key=lambda row: row["revision"])
        memory: Memory = EMPTY
        for row in mine:
            memory = replay(memory, Account.from_json(row["account"]))
        numbers = [row["revision"] for row in mine]
        if numbers != list(range(1, agent["revision"] + 1)):
            yield Broken(
                "5 the memory is the replay of its accounts", f"{agent['agent_id']} has revisions {numbers}"
            )
        elif memory.model_dump_json() != history.memories[agent["agent_id"]].model_dump_json():
            yield Broken("5 the memory is the replay of its accounts", agent["agent_id"])


def nothing_left_over(history: History) -> Iterator[Broken]:
    """6. No lease, pass, pending entry, queued hint, or kept attempt."""
    name = "6 no lease, pending entry or hint is left over"
    for agent in history.rows["agents"]:
        for column in (
            "owner",
            "lease_until_ms",
            "extraction_pass",
            "consolidation_pass",
            "attempts",
            "hints",
        ):
            if agent[column]:
                yield Broken(name, f"{agent['agent_id']}: {column} is {agent[column]!r}")
    for stream, count in history.pending.items():
        if count:
            yield Broken(name, f"{count} entries of {stream} are pending or unread")
    for queue, count in history.queued.items():
        if count:
            yield Broken(name, f"{count} hints wait in {queue}")


def timers(history: History, policy: Policy, *, quiet_ms: int, bound_seconds: float) -> Iterator[Broken]:
    """7. Every idle agent was consolidated in time after the last disturbance."""
    for agent in history.rows["agents"]:
        last_ms = agent["last_success_ms"]
        if last_ms is None:
            continue
        name = "7 timers fire within their bound"
        if (agent["idle_served_ms"] or 0) < last_ms:
            yield Broken(name, f"{agent['agent_id']} was idle and nobody consolidated it")
            continue
        due_ms = max(last_ms + policy.idle_ms, quiet_ms)
        late = [
            row["started_ms"] - due_ms
            for row in history.of("jobs", agent["agent_id"])
            if row["kind"] == Kind.CONSOLIDATION and row["reason"] == Reason.IDLE
        ]
        if late and max(late) > bound_seconds * 1000:
            yield Broken(name, f"{agent['agent_id']} waited {max(late) / 1000:.1f} s too long")


@dataclass(frozen=True, slots=True)
class Recovery:
    """How long after a fault was over an event published then was taken in and worked on.

    `reached` are the seconds after which it had come how far, `busy` the share of the cores that was taken meanwhile.
    """

    fault: str
    seconds: float | None
    bound_seconds: float
    reached: Mapping[str, float] = field(default_factory=dict)
    busy: float = 0.0

    def __str__(self) -> str:
        if self.seconds is None:
            return f"{self.fault}: not recovered{self.where}"
        return f"{self.fault}: {self.seconds:.1f} s{self.where if self.seconds > self.bound_seconds else ''}"

    @property
    def where(self) -> str:
        """Where the time went, for somebody who wonders."""
        steps = ", ".join(f"{what} after {seconds:.1f} s" for what, seconds in self.reached.items())
        return f" ({steps or 'nothing taken in'}; cores {self.busy:.0%} busy)"


def recovered(recoveries: Iterable[Recovery]) -> Iterator[Broken]:
    """8. Each fault was recovered from within its bound."""
    for one in recoveries:
        if one.seconds is None or one.seconds > one.bound_seconds:
            yield Broken(IN_TIME, f"{one}, and {one.bound_seconds:.1f} s were promised")


def reaction_seconds(history: History, policy: Policy) -> list[float]:
    """For every extraction that runs made due: from the run that did to the claim.

    Those across which the clock was made to jump, by hours, say nothing and are left out.
    """
    found = []
    for agent_id in history.agent_ids:
        counted = {row["run_id"] for row in history.of("runs", agent_id) if row["counted"]}
        taken_in = sorted(
            row["taken_in_ms"]
            for row in history.of("inbox", agent_id)
            if row["event_id"].rpartition("/run:")[2] in counted
        )
        begun = sorted(
            (row["started_ms"], row["job_id"])
            for row in history.of("jobs", agent_id)
            if row["kind"] == Kind.EXTRACTION and row["reason"] == Reason.RUNS
        )
        served = 0
        for started_ms, _ in begun:
            due = served + policy.runs_per_extraction - 1
            if due < len(taken_in):
                found.append(max(started_ms - taken_in[due], 0) / 1000)
            served = bisect_right(taken_in, started_ms)
    return [seconds for seconds in found if seconds < 3_600]
