"""Cases of queues and locks from public bug reports: what went wrong there must end well here."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import select, update

from takeaways.recall import FolderOutcome, NoteStatus, Recall, write_folder
from takeaways.schemas.database import Database
from takeaways.schemas.errors import ModelUnavailable
from takeaways.schemas.queues import FIELD, GROUP, RUNS_STREAM, Kind
from takeaways.schemas.tables import agents, candidates, dead_letters, inbox, jobs, messages, rooms, runs
from takeaways.workers.intake.taken import Taken
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.run import run_job
from takeaways.workers.leases import claim
from takeaways.workers.models.offline import OfflineModel
from takeaways.workers.pools.broker import visibility_seconds
from takeaways.workers.schedule.asked import ask
from takeaways.workers.schedule.policy import Policy
from takeaways.workers.schedule.sweep import sweep_once
from takeaways.workers.settings import Settings
from takeaways.workers.testing import ScriptedModel
from tests import cases
from tests.pipeline import Pipeline, pipeline
from tests.victims import victim
from tests.waiting import wait_until

AGENT = "agent-a"


def publish(system: Pipeline, found: dict[str, Any], *said: str) -> None:
    """Put an event of a case on the stream, with messages of a person where the case leaves them to us."""
    event = cases.event(found)
    if said:
        event["data"]["messages"] = [{"role": "user", "content": text} for text in said]
    put(system, RUNS_STREAM, json.dumps(event).encode())


def put(system: Pipeline, stream: str, raw: bytes) -> None:
    with Redis.from_url(system.redis_url) as redis:
        redis.xadd(stream, {FIELD: raw})


def pending(system: Pipeline) -> int:
    with Redis.from_url(system.redis_url) as redis:
        summary: Any = redis.xpending(RUNS_STREAM, GROUP)
        return int(summary["pending"])


def lessons(system: Pipeline, agent_id: str = AGENT) -> set[str]:
    return {text for text, _, _ in system.lessons(agent_id)}


def expire_lease(system: Pipeline) -> None:
    with system.database.write() as connection:
        connection.execute(update(agents).values(lease_until_ms=0))


def in_background(kind: Kind, system: Pipeline) -> threading.Thread:
    """A job that has claimed the agent and waits for its model."""
    job = threading.Thread(target=run_job, args=(kind, AGENT, system.services))
    job.start()
    wait_until(lambda: system.agent(AGENT)["owner"] is not None)
    return job


# QL-01


def test_a_hint_that_comes_again_while_its_job_runs_has_no_effect(database: Database, redis_url: str) -> None:
    """A broker delivers a task again when it takes longer than the broker waits (QL-01)."""
    case = cases.case("QL-01")
    model = ScriptedModel(delay_seconds=0.6)
    with pipeline(database, redis_url, model) as system:
        publish(system, case["events"][0], "Quotes over $40k need sign-off.")
        system.take_in()
        ask(database, [AGENT], [Kind.EXTRACTION])

        first = in_background(Kind.EXTRACTION, system)
        during = [run_job(Kind.EXTRACTION, AGENT, system.another_worker(f"w{n}")).outcome for n in range(5)]
        first.join()
        after = [run_job(Kind.EXTRACTION, AGENT, system.another_worker(f"w{n}")).outcome for n in range(5)]

        assert during == [Outcome.BUSY] * 5
        assert after == [Outcome.NOTHING_DUE] * 5
        assert len(model.extraction_requests) == 1
        assert lessons(system) == {"Quotes over $40k need sign-off."}
        assert [row["outcome"] for row in system.rows(jobs)] == ["remembered"]


@pytest.mark.parametrize("slice_seconds", [1.0, 60.0, 7200.0])
@pytest.mark.parametrize("call_seconds", [1.0, 300.0, 7200.0])
def test_a_hint_stays_hidden_for_longer_than_any_job_may_take(
    slice_seconds: float, call_seconds: float
) -> None:
    """Whatever is set: no job that keeps its time is started a second time by the broker (QL-01)."""
    settings = Settings(slice_seconds=slice_seconds, call_seconds=call_seconds)

    assert visibility_seconds(settings) > slice_seconds + 2 * call_seconds


# QL-02


def test_a_run_counts_once_under_however_many_event_ids(database: Database, redis_url: str) -> None:
    """The same event twice, the same run under other ids, and a run whose id differs in case only (QL-02)."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        for found in cases.case("QL-02")["events"]:
            publish(system, found, f"Said in {found['run_id']}.")
        taken = system.take_in()
        system.flush()

        assert sorted(row["run_id"] for row in system.rows(runs)) == ["RUN-1", "run-1"]
        assert system.agent(AGENT)["runs_total"] == 2
        assert lessons(system) == {"Said in run-1.", "Said in RUN-1."}
        assert taken.outcomes == {Taken.TAKEN_IN: 2, Taken.DUPLICATE: 1, Taken.REPEATED: 2}
        assert (pending(system), system.rows(dead_letters)) == (0, [])


# QL-03


def test_a_killed_worker_blocks_its_agent_for_one_lease_and_no_other_agent_at_all(
    database: Database, redis_url: str
) -> None:
    """kill -9 in the middle of the model's call; the lease has an end at all times (QL-03)."""
    policy = Policy(lease_seconds=1.5, runs_per_extraction=1)
    event = {"v": 1, "type": "run.completed", "room_id": "room-1", "occurred_at": "2026-03-02T09:01:00Z"}

    def run(agent_id: str, number: int) -> dict[str, Any]:
        return {**event, "event_id": f"{agent_id}-{number}", "agent_id": agent_id, "run_id": f"run-{number}"}

    cases.case("QL-03")
    with pipeline(database, redis_url, ScriptedModel(), policy) as system:
        publish(system, run(AGENT, 1), "Before the kill.")
        system.take_in()
        with victim(database, AGENT, delay_seconds=60, policy=policy):
            held = system.agent(AGENT)
        publish(system, run(AGENT, 2), "After the kill.")
        publish(system, run("agent-b", 1), "Undisturbed.")
        system.take_in()

        other = run_job(Kind.EXTRACTION, "agent-b", system.services)
        wait_until(lambda: system.decision(AGENT).next is Kind.EXTRACTION)
        system.work()

        assert held["owner"] is not None
        assert held["lease_until_ms"] is not None
        assert held["wake_at_ms"] is not None, "the sweep would not look again"
        assert other.outcome is Outcome.REMEMBERED
        assert lessons(system) == {"Before the kill.", "After the kill."}


# QL-04


@pytest.mark.parametrize("kind", list(Kind))
def test_a_stalled_worker_writes_nothing_and_frees_nobody_elses_lease(
    database: Database, redis_url: str, kind: Kind
) -> None:
    """Its lease ran out while it stalled: the newer result and the newer lease stand (QL-04)."""
    cases.case("QL-04")
    policy = Policy(runs_per_extraction=1, candidates_per_consolidation=1)

    class Stalling(ScriptedModel):
        def extract(self, request: Any, call: Any) -> Any:
            return self._outlived(super().extract(request, call))

        def consolidate(self, request: Any, call: Any) -> Any:
            return self._outlived(super().consolidate(request, call))

        def _outlived(self, answered: Any) -> Any:
            expire_lease(system)
            run_job(kind, AGENT, system.another_worker("second"))
            ask(database, [AGENT], [kind])
            due = system.decision(AGENT).next or kind
            claim(database, AGENT, due, owner="third", job_id="third", policy=policy)
            return answered

    with pipeline(database, redis_url, ScriptedModel(), policy) as system:
        for number in range(2):
            publish(system, {**_RUN, "event_id": f"e{number}", "run_id": f"r{number}"}, f"Fact {number}.")
        system.take_in()
        if kind is Kind.CONSOLIDATION:
            run_job(Kind.EXTRACTION, AGENT, system.services)
        stalled = system.another_worker("stalled", model=Stalling())

        result = run_job(kind, AGENT, stalled)
        holder = system.agent(AGENT)["owner"]
        expire_lease(system)
        system.flush()

        assert result.outcome is Outcome.FENCED_OFF
        assert holder == "third"
        assert lessons(system) == {"Fact 0.", "Fact 1."}
        said = [line.text for section in system.memory(AGENT).sections for line in section.lines]
        assert sorted(said) == ["Fact 0.", "Fact 1."]
        by = {row["owner"]: row["outcome"] for row in system.rows(jobs) if row["kind"] == kind}
        assert by["stalled"] == "fenced_off"
        assert by["second"] == "remembered"


_RUN: dict[str, Any] = {
    "v": 1,
    "type": "run.completed",
    "agent_id": AGENT,
    "room_id": "room-1",
    "occurred_at": "2026-03-02T09:01:00Z",
}


# QL-05


def test_what_comes_while_the_agent_is_locked_is_read_by_the_next_pass(
    database: Database, redis_url: str
) -> None:
    """ "Already queued" is no reason to drop an event (QL-05)."""
    first, *later = cases.case("QL-05")["events"]
    model = ScriptedModel(delay_seconds=0.5)
    with pipeline(database, redis_url, model, Policy(runs_per_extraction=1)) as system:
        publish(system, first, "Said in run-1.")
        received = system.take_in()

        job = in_background(Kind.EXTRACTION, system)
        for found in later:
            publish(system, found, f"Said in {found['run_id']}.")
            received = received.plus(system.take_in())
            assert run_job(Kind.EXTRACTION, AGENT, system.another_worker("other")).outcome is Outcome.BUSY
        job.join()
        further = system.work()

        assert len(further) <= 2
        assert lessons(system) == {f"Said in run-{number}." for number in range(1, 5)}
        assert not system.unread(AGENT)
        assert received.outcomes == {Taken.TAKEN_IN: 4}
        assert len(system.rows(inbox)) == 4


# QL-07, QL-08, QL-09


def _poison(case_id: str) -> list[bytes]:
    case = cases.case(case_id)
    texts = [*case.get("wire", ()), *case.get("wire_templates", ())]
    return [
        *(text.encode() for text in texts),
        *(bytes.fromhex(text) for text in case.get("wire_hex", ())),
    ]


@pytest.mark.parametrize("case_id", ["QL-07", "QL-09"])
def test_every_poisonous_entry_is_set_aside_once_and_the_next_event_is_taken_in(
    database: Database, redis_url: str, case_id: str
) -> None:
    """One malformed item once stopped a consumer, and being redelivered stopped it again (QL-07, QL-09)."""
    bad = _poison(case_id)
    with pipeline(database, redis_url, ScriptedModel()) as system:
        for raw in bad:
            put(system, RUNS_STREAM, raw)
        publish(system, {**_RUN, "event_id": "ev-9", "run_id": "run-9"}, "Still here.")

        began = time.process_time()
        taken = system.take_in()

        assert time.process_time() - began < 5
        assert taken.outcomes == {Taken.DEAD_LETTER: len(bad), Taken.TAKEN_IN: 1}
        letters = system.rows(dead_letters)
        assert sorted(bytes(letter["raw"]) for letter in letters) == sorted(bad)
        assert all(letter["reason"] and letter["detail"] for letter in letters)
        assert pending(system) == 0
        assert system.agent(AGENT)["runs_total"] == 1


def test_events_of_unknown_versions_wait_whole_and_the_known_ones_are_taken_in(
    database: Database, redis_url: str
) -> None:
    """An event of a newer version must neither stop the others nor be lost (QL-08)."""
    events = cases.case("QL-08")["events"]
    with pipeline(database, redis_url, ScriptedModel()) as system:
        for found in events:
            publish(system, found)
        system.take_in()

        letters = system.rows(dead_letters)
        parked = {letter["event_id"]: letter["reason"] for letter in letters}
        assert {row["run_id"] for row in system.rows(runs)} == {"run-2", "run-7"}
        assert set(parked) == {"ev-1", "ev-3", "ev-4", "ev-5", "ev-6"}
        assert set(parked.values()) == {"unknown_version", "unknown_type"}
        assert {json.loads(letter["raw"])["id"] for letter in letters} == set(parked)
        assert pending(system) == 0


# QL-12


def test_an_agent_deleted_during_an_extraction_stays_gone_in_every_place(
    database: Database, redis_url: str, tmp_path: Path
) -> None:
    """The late write of a running job once brought an erased memory back to life (QL-12)."""
    cases.case("QL-12")
    at = datetime.now(UTC) - timedelta(hours=1)

    def run(number: int, text: str) -> None:
        system.producer.run_completed(
            agent_id=AGENT,
            room="room-1",
            run_id=f"run-{number}",
            ended_at=at + timedelta(minutes=number),
            messages=[{"role": "user", "content": text}],
        )

    with pipeline(database, redis_url, ScriptedModel(), Policy(runs_per_extraction=1)) as system:
        run(1, "The old agent's first fact.")
        system.take_in()
        system.flush()
        before = write_folder(database, AGENT, tmp_path)
        run(2, "The old agent's second fact.")
        system.take_in()
        system.services.model.delay_seconds = 0.6  # type: ignore[attr-defined]
        job = in_background(Kind.EXTRACTION, system)
        system.producer.agent_deleted(agent_id=AGENT)
        system.take_in()
        job.join()

        after = write_folder(database, AGENT, tmp_path)
        run(3, "The old agent's third fact.")
        late = system.take_in()
        system.flush()

        assert before.outcome is FolderOutcome.WRITTEN
        assert after.outcome is FolderOutcome.REMOVED
        assert not (tmp_path / "agent-memory").exists()
        assert late.outcomes == {Taken.OUTDATED: 1}
        assert system.rows(messages) == []
        assert system.memory(AGENT).sections == ()
        assert system.agent(AGENT)["generation"] == 2
        assert Recall(database).note(AGENT, "room-1", "c1").text is None


# QL-14


def _room_of_fifty(system: Pipeline) -> None:
    system.producer.messages_recorded(
        agent_id=AGENT,
        room="room-1",
        run_id="run-1",
        messages=[
            {"id": f"m{number}", "role": "user", "content": f"Fact {number}.", "position": number}
            for number in range(1, 51)
        ],
    )


def _compaction(system: Pipeline) -> None:
    system.producer.room_compacted(
        agent_id=AGENT, room="room-1", conversation="c1", compaction=1, last_message_id="m40"
    )


def _run_ends(system: Pipeline) -> None:
    system.producer.run_completed(agent_id=AGENT, room="room-1", run_id="run-1", conversation="c1")


@pytest.mark.parametrize("order", ["compaction first", "run first", "both at once"])
def test_messages_that_a_compaction_removed_are_read_once_all_the_same(
    database: Database, redis_url: str, order: str
) -> None:
    """The platform forgets what it compacted; whoever had not read it yet lost it (QL-14)."""
    cases.case("QL-14")
    model = ScriptedModel(delay_seconds=0.1)
    with pipeline(database, redis_url, model, Policy(runs_per_extraction=1)) as system:
        _room_of_fifty(system)
        system.take_in()
        steps = [_compaction, _run_ends] if order == "compaction first" else [_run_ends, _compaction]
        for step in steps:
            step(system)
            if order != "both at once":
                system.take_in()
                system.work()
        system.take_in()
        workers = [
            threading.Thread(target=run_job, args=(kind, AGENT, system.another_worker(kind))) for kind in Kind
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        system.work()
        system.flush()

        shown = [
            excerpt.message_id
            for request in model.extraction_requests
            for room in request.rooms
            for excerpt in room.excerpts
        ]
        assert sorted(shown) == sorted(f"m{number}" for number in range(1, 51))
        assert lessons(system) == {f"Fact {number}." for number in range(1, 51)}


# QL-16


def test_a_renamed_agent_has_one_memory(database: Database, redis_url: str, tmp_path: Path) -> None:
    """A name is for display; the memory belongs to the id (QL-16)."""
    cases.case("QL-16")
    with pipeline(database, redis_url, ScriptedModel()) as system:
        for number, name in enumerate(["scout", "Scout 2", "scout", "SCOUT:2"]):
            system.producer.run_completed(
                agent_id="A1",
                agent_name=name,
                room="room-1",
                run_id=f"run-{number}",
                messages=[{"role": "user", "content": f"Fact {number}."}],
            )
            system.take_in()
            system.flush()
        workspace = tmp_path / "workspace"
        workspace.mkdir()
        write_folder(database, "A1", workspace)
        note = Recall(database).note("A1", "room-1", "c1")

        assert [row["agent_id"] for row in system.rows(agents)] == ["A1"]
        assert [path.name for path in workspace.iterdir() if path.name[0] != "."] == ["agent-memory"]
        assert note.status is NoteStatus.GIVEN
        assert lessons(system, "A1") == {f"Fact {number}." for number in range(4)}


# QL-18


def test_a_rate_limit_gives_the_agent_back_and_keeps_nobody_waiting(
    database: Database, redis_url: str
) -> None:
    """A worker once slept for an hour inside its task, with the slot and the lock (QL-18)."""
    one, two = cases.case("QL-18")["events"]
    policy = Policy(runs_per_extraction=1)
    limited = ScriptedModel(extractions=[ModelUnavailable("slow down", 3600)])
    with pipeline(database, redis_url, limited, policy) as system:
        publish(system, one, "Later.")
        publish(system, two, "At once.")
        system.take_in()

        began = time.monotonic()
        first = run_job(Kind.EXTRACTION, one["agent_id"], system.services)
        other = system.another_worker("other", model=ScriptedModel())
        second = run_job(Kind.EXTRACTION, two["agent_id"], other)
        took = time.monotonic() - began
        row = system.agent(one["agent_id"])

        assert first.outcome is Outcome.OVERLOADED
        assert second.outcome is Outcome.REMEMBERED
        assert took < 60, "of the hour that the provider asked for"
        assert (row["owner"], row["attempts"]) == (None, 0)
        assert row["wake_at_ms"] is not None


# QL-19


class Recorder:
    def __init__(self) -> None:
        self.got: list[tuple[Kind, str]] = []

    def hint(self, kind: Kind, agent_id: str, reason: str) -> None:
        self.got.append((kind, agent_id))


@pytest.mark.parametrize("fault", ["the hint was lost", "its owner died"])
def test_a_consolidation_that_was_never_started_is_found_by_the_sweep(
    database: Database, redis_url: str, fault: str
) -> None:
    """Lessons were stored and nothing ever merged them, for nobody looked again (QL-19)."""
    found = cases.case("QL-19")["events"][0]
    with pipeline(database, redis_url, ScriptedModel(), Policy(runs_per_extraction=1)) as system:
        publish(system, found, "Quotes over $40k need sign-off.")
        system.take_in()
        run_job(Kind.EXTRACTION, AGENT, system.services)  # its hints go nowhere
        if fault == "its owner died":
            ask(database, [AGENT], [Kind.CONSOLIDATION])
            with victim(database, AGENT, delay_seconds=60, kind=Kind.CONSOLIDATION):
                pass
            expire_lease(system)
        hints = Recorder()

        system.advance(hours=24)
        sweep_once(database, hints, policy=system.policy, kinds=list(Kind))
        done = [run_job(kind, agent_id, system.services).outcome for kind, agent_id in hints.got]
        again = sweep_once(database, hints, policy=system.policy, kinds=list(Kind))

        assert hints.got == [(Kind.CONSOLIDATION, AGENT)]
        assert done == [Outcome.REMEMBERED]
        assert again.hinted == 0
        [section] = system.memory(AGENT).sections
        assert [line.text for line in section.lines] == ["Quotes over $40k need sign-off."]
        merged = select(jobs.c.outcome).where(jobs.c.kind == "consolidation", jobs.c.outcome.is_not(None))
        with database.read() as connection:
            assert connection.execute(merged).scalars().all() == ["remembered"]


# Clocks


def test_a_clock_of_the_database_that_ran_ahead_holds_no_agent_up_for_long(
    database: Database, redis_url: str
) -> None:
    """Set right again, what was put off for an hour by the wrong clock would have waited for a month."""
    limited = ScriptedModel(extractions=[ModelUnavailable("slow down", 3600)])
    with pipeline(database, redis_url, limited, Policy(runs_per_extraction=1)) as system:
        publish(system, {**_RUN, "event_id": "e1", "run_id": "r1"}, "Said on the wrong day.")
        system.advance(hours=30 * 24)
        system.take_in()
        held = run_job(Kind.EXTRACTION, AGENT, system.services).outcome

        system.advance(hours=-30 * 24)
        publish(system, {**_RUN, "event_id": "e2", "run_id": "r2"}, "Said on the right one.")
        [hint] = system.take_in().hints
        system.work()

        assert held is Outcome.OVERLOADED
        assert (hint.kind, hint.agent_id) == (Kind.EXTRACTION, AGENT)
        assert lessons(system) == {"Said on the wrong day.", "Said on the right one."}


@pytest.mark.parametrize(
    "at", ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
)
def test_a_time_at_the_end_of_the_calendar_holds_nothing_up(
    database: Database, redis_url: str, tmp_path: Path, at: str
) -> None:
    """Some programs write the year 1 for "no time" and 9999 for "never", where no calendar goes on."""
    with pipeline(database, redis_url, OfflineModel(), Policy(runs_per_extraction=1)) as system:
        event = cases.event({**_RUN, "event_id": "e1", "run_id": "r1", "occurred_at": at})
        said = "Always use port 9443 for staging since yesterday; until tomorrow we use 9444."
        event["data"]["messages"] = [{"role": "user", "content": said, "time": at}]
        put(system, RUNS_STREAM, json.dumps(event).encode())
        taken = system.take_in()
        system.flush()

        assert taken.outcomes == {Taken.TAKEN_IN: 1}
        assert {row["outcome"] for row in system.rows(jobs)} == {Outcome.REMEMBERED}
        assert Recall(database).note(AGENT, "room-1", "c1").status is NoteStatus.GIVEN
        assert write_folder(database, AGENT, tmp_path).outcome is FolderOutcome.WRITTEN


# ST-01


def test_a_model_that_writes_nul_fails_no_job(database: Database, redis_url: str) -> None:
    """It may stand in any string of an answer, and the same answer would be refused by PostgreSQL again (ST-01)."""

    class Binary(ScriptedModel):
        def extract(self, request: Any, call: Any) -> Any:
            return self._spoilt(super().extract(request, call))

        def consolidate(self, request: Any, call: Any) -> Any:
            return self._spoilt(super().consolidate(request, call))

        def _spoilt(self, answered: Any) -> Any:
            def spoil(value: Any, name: str = "") -> Any:
                if isinstance(value, dict):
                    return {key: spoil(item, key) for key, item in value.items()}
                if isinstance(value, list):
                    return [spoil(item, name) for item in value]
                told = isinstance(value, str) and name in (
                    "text",
                    "topic",
                    "title",
                    "gist",
                    "reason",
                    "summary",
                )
                return f"{value}\x00\u2028" if told else value

            spoilt = spoil(answered.answer.model_dump(mode="json"))
            return replace(answered, answer=type(answered.answer).model_validate(spoilt))

    with pipeline(database, redis_url, Binary(), Policy(runs_per_extraction=1)) as system:
        publish(system, {**_RUN, "event_id": "e1", "run_id": "r1"}, "Quotes over $40k need sign-off.")
        system.take_in()
        system.flush()

        assert {row["outcome"] for row in system.rows(jobs)} == {Outcome.REMEMBERED}
        [section] = system.memory(AGENT).sections
        assert section.lines[0].text.startswith("Quotes over $40k need sign-off.")
        assert "\x00" not in repr([dict(row) for row in [*system.rows(candidates), *system.rows(rooms)]])


def test_nul_enters_no_table_and_a_text_that_speaks_of_it_stays(database: Database, redis_url: str) -> None:
    """PostgreSQL refuses NUL, and an event that holds one was once retried for ever (ST-01)."""
    room = [json.loads(line) for line in cases.case("ST-01")["room_wire"]]
    with pipeline(database, redis_url, ScriptedModel()) as system:
        system.producer.run_completed(
            agent_id=AGENT,
            room="room-1",
            run_id="run-1",
            messages=[cases.message(found) for found in room],
        )
        taken = system.take_in()
        system.flush()

        stored = system.rows(messages)
        assert taken.outcomes == {Taken.TAKEN_IN: 1}
        assert len(stored) == 2
        shown = json.dumps([{**row} for row in stored], ensure_ascii=False, default=str)
        assert "\x00" not in shown
        assert "\\u0000 literal" in json.loads(json.dumps(_texts(stored)))
        assert all("\x00" not in text for text in lessons(system))
        assert "Name is A" in "".join(lessons(system))


def _texts(rows: list[Any]) -> str:
    return "\n".join(
        str(value)
        for row in rows
        for part in row["parts"]
        for value in part.values()
        if isinstance(value, str)
    )
