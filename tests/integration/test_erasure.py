"""What must be forgotten is gone: from every table, stream, folder and log, for an agent, a room and a person."""

from __future__ import annotations

import socket
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import insert, select, update

from takeaways.recall import Recall, write_folder
from takeaways.schemas.database import Database
from takeaways.schemas.events import AgentDeleted, PersonDeleted, RoomDeleted, RoomRef
from takeaways.schemas.memories import Lesson
from takeaways.schemas.queues import RUNS_STREAM, Kind
from takeaways.schemas.tables import (
    candidates,
    dead_letters,
    erasures,
    inbox,
    kept_answers,
    messages,
    metadata,
    persons,
    quarantines,
    revisions,
    workspaces,
)
from takeaways.workers.erasure import erasing
from takeaways.workers.intake.erase import erase
from takeaways.workers.intake.process import IntakeOptions, IntakeProcess
from takeaways.workers.intake.streaming import StreamOptions
from takeaways.workers.intake.taken import Taken
from takeaways.workers.memories import curating
from takeaways.workers.models.answers import (
    Accounted,
    ConsolidationAnswer,
    CreateSection,
    ExtractionAnswer,
    Fate,
    Learned,
    NewLine,
    Quote,
    RoomLearned,
    UpdateSection,
)
from takeaways.workers.models.requests import ConsolidationRequest, ExtractionRequest
from takeaways.workers.pools.hints import Hints
from takeaways.workers.testing import ScriptedModel
from tests.canary import found_in
from tests.pipeline import Pipeline, pipeline
from tests.waiting import wait_until

CANARY = "Xylophonist"
START = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
Scope = AgentDeleted | RoomDeleted | PersonDeleted
SCOPES: list[Scope] = [
    AgentDeleted(),
    RoomDeleted(room=RoomRef(id="secret-room")),
    PersonDeleted(person_id="u-secret"),
]


def say(
    system: Pipeline, run: int, room: str, person: str, text: str, *, title: str = "", minutes: int = 0
) -> None:
    at = START + timedelta(minutes=minutes or run)
    system.producer.run_completed(
        agent_id="scout",
        room=RoomRef(id=room, title=title or None),
        run_id=f"run-{run}",
        status="succeeded",
        started_at=at,
        ended_at=at,
        messages=[
            {
                "role": "user",
                "content": text,
                "author": {"id": person, "name": f"Name of {person}", "kind": "person"},
                "time": at.isoformat(),
            }
        ],
    )


def learn(request: ExtractionRequest) -> ExtractionAnswer:
    """Each message is a lesson; its topic and the room's summary repeat what was said."""
    rooms = []
    for room in request.rooms:
        learned = tuple(
            Learned(
                kind=Lesson.FACT,
                topic=one.text()[:60],
                text=one.text(),
                evidence=(Quote(message=one.label, quote=one.text()),),
            )
            for one in room.excerpts
        )
        rooms.append(
            RoomLearned(room=room.label, summary=" ".join(x.text for x in learned), candidates=learned)
        )
    return ExtractionAnswer(rooms=tuple(rooms))


def mix(request: ConsolidationRequest) -> ConsolidationAnswer:
    """One section for all, whose title and gist take a word of each; reasons repeat what was said too."""
    everything = " ".join(one.text for one in request.candidates)
    lines = tuple(
        NewLine(kind=one.kind, text=one.text, candidates=(one.label,)) for one in request.candidates
    )
    edit: Any = (
        UpdateSection(section=request.sections[0].label, add=lines)
        if request.sections
        else CreateSection(title=everything[:100], gist=everything[:250], lines=lines)
    )
    account = tuple(
        Accounted(candidate=one.label, fate=Fate.MERGED, reason=everything[:200])
        for one in request.candidates
    )
    return ConsolidationAnswer(edits=(edit,), account=account)


def fill(system: Pipeline, workspace: Path) -> None:
    """A life in which the secret got everywhere it can get."""
    say(system, 1, "secret-room", "u-secret", f"Ann is a {CANARY}.", title=f"{CANARY} talk")
    say(system, 2, "open-room", "u-open", "Staging uses port 9443.")
    system.take_in()
    system.flush()
    with Recall(system.database) as recall:
        assert CANARY in str(recall.note("scout", "open-room", "c-1").text)
    write_folder(system.database, "scout", workspace)
    line = next(
        line for section in system.memory("scout").sections for line in section.lines if CANARY in line.text
    )
    curating.rewrite(
        system.database, "scout", line.id, f"Ann is the {CANARY}.", curating.By("me", f"{CANARY}, really")
    )
    with system.database.write() as connection:
        connection.execute(
            insert(workspaces).values(
                workspace_id="w",
                machine=socket.gethostname(),
                agent_id="scout",
                path=str(workspace),
                registered_ms=0,
            )
        )
        connection.execute(
            insert(kept_answers).values(
                agent_id="scout", kind="extraction", generation=1, prompt_hash="h", job_id="j",
                model="m", answer=f"{{{CANARY}}}", kept_at_ms=0,
            )
        )  # fmt: skip
    with Redis.from_url(system.redis_url) as client:
        broken = f'{{"subject": "scout", "room": "secret-room", "by": "u-secret", "text": "{CANARY}"'
        client.xadd(RUNS_STREAM, {"event": broken})
    system.take_in()
    say(system, 3, "secret-room", "u-secret", f"The {CANARY} again, not taken in yet.")


@pytest.mark.parametrize("scope", SCOPES, ids=["agent", "room", "person"])
def test_nothing_is_left_of_what_was_erased(
    database: Database, redis_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], scope: Scope
) -> None:
    """Somebody who asks to be forgotten must not turn up in a title, a dead letter, a log or a queue."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    model = ScriptedModel(extractions=[learn] * 9, consolidations=[mix] * 9)
    with pipeline(database, redis_url, model) as system, Redis.from_url(redis_url) as client:
        fill(system, workspace)
        places = found_in(database, redis_url, workspace, word=CANARY)

        erase(database, "scout", scope, policy=system.policy)
        unfinished = erasing.go_on(database, client)
        late = system.take_in()
        finished = erasing.go_on(database, client)
        left = found_in(database, redis_url, workspace, word=CANARY)
        system.flush()
        after = system.memory("scout").model_dump_json()

    assert {"messages.parts", "candidates.text", "section_texts.content", "dead_letters.raw"} <= set(places)
    assert unfinished == 0, "an event waits in the stream"
    assert finished == 1
    assert left == []
    assert CANARY not in str(capfd.readouterr())
    assert ("Staging uses port 9443." in after) == (not isinstance(scope, AgentDeleted))
    if not isinstance(scope, PersonDeleted):  # there only the person's messages are left out
        assert late.outcomes[Taken.OUTDATED] == 1


def test_an_erased_agent_has_rows_nowhere_but_its_tombstone(
    database: Database, redis_url: str, tmp_path: Path
) -> None:
    """How often somebody talked, and when, is theirs as well as what they said."""
    stays = {"agents", "erasures", "inbox", "workspaces"}

    def rows_of(agent_id: str) -> set[str]:
        tables = [table for table in metadata.sorted_tables if "agent_id" in table.c]
        return {
            table.name
            for table in tables
            if any(row["agent_id"] == agent_id for row in system.rows(table)) and table.name not in stays
        }

    with pipeline(database, redis_url, ScriptedModel(extractions=[learn] * 9)) as system:
        fill(system, tmp_path)
        with database.write() as connection:
            connection.execute(
                insert(quarantines).values(
                    quarantine_id="q", agent_id="scout", kind="extraction", reason="", items=1, attempts=1,
                    made_at_ms=0, retry_at_ms=0,
                )
            )  # fmt: skip
            connection.execute(insert(persons).values(agent_id="scout", person_id="u-9", deleted_at_ms=0))
            connection.execute(
                insert(dead_letters).values(
                    dead_letter_id="d", stream="s", entry_id="1-0", reason="", detail="", raw=b"", at_ms=0,
                    agent_id="scout",
                )
            )  # fmt: skip
        before = rows_of("scout")

        erase(database, "scout", AgentDeleted(), policy=system.policy)

        assert before >= {
            *(
                "rooms",
                "runs",
                "messages",
                "candidates",
                "section_texts",
                "revisions",
                "jobs",
                "kept_answers",
            ),
            *("notes", "note_texts", "persons", "quarantines", "dead_letters"),
        }
        assert rows_of("scout") == set()


def test_an_agent_made_again_under_the_same_id_starts_empty(database: Database, redis_url: str) -> None:
    """The next life of an id knows nothing of the one before, and learns like any other."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        say(system, 1, "room-1", "u-1", "Old life.")
        system.take_in()
        system.flush()
        erase(database, "scout", AgentDeleted(), policy=system.policy)
        empty = system.memory("scout").sections
        system.advance(hours=2)
        say(system, 2, "room-1", "u-1", "New life.", minutes=120)
        system.take_in()
        system.flush()
        memory = system.memory("scout")

    assert empty == ()
    assert [line.text for section in memory.sections for line in section.lines] == ["New life."]


def test_what_had_given_way_to_something_erased_is_believed_again(database: Database, redis_url: str) -> None:
    """Without the correction nobody knows better, so what was corrected stands as if that never was said."""

    def replace(request: ConsolidationRequest) -> ConsolidationAnswer:
        ((line,),) = (section.lines for section in request.sections)
        (one,) = request.candidates
        changed = {"kind": "fact", "text": one.text, "candidates": [one.label], "line": line.label}
        return ConsolidationAnswer.model_validate(
            {
                "edits": [{"op": "update", "section": "s1", "replace": [changed]}],
                "account": [{"candidate": one.label, "fate": "merged"}],
            }
        )

    model = ScriptedModel()
    with pipeline(database, redis_url, model) as system:
        say(system, 1, "room-1", "u-1", "The port is 9443.")
        system.take_in()
        system.flush()
        model.then_consolidate(replace)
        say(system, 2, "room-2", "u-2", "The port is 9444.")
        system.take_in()
        system.flush()
        before = texts(system)
        states = {row["text"]: row["state"] for row in system.rows(candidates)}
        erase(database, "scout", RoomDeleted(room=RoomRef(id="room-2")), policy=system.policy)
        system.flush()
        after = texts(system)

    assert before == ["The port is 9444."]
    assert states["The port is 9443."] == "superseded"
    assert after == ["The port is 9443."]


def texts(system: Pipeline) -> list[str]:
    return [line.text for section in system.memory("scout").sections for line in section.lines]


def test_erasing_a_room_keeps_the_history_of_no_revision_that_showed_it(
    database: Database, redis_url: str
) -> None:
    """An old revision, or its account, would tell what the newest one does not."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        for run in range(3):
            say(system, run, f"room-{run % 2}", "u-1", f"Fact {run}.")
            system.take_in()
            system.flush()
        erase(database, "scout", RoomDeleted(room=RoomRef(id="room-1")), policy=system.policy)
        kept = system.rows(revisions)

    assert len(kept) == 1
    assert kept[0]["account"] == {"erased": True}


def test_an_erasure_without_redis_stays_open_and_is_finished_later(
    sqlite_database: Database, redis_url: str
) -> None:
    """A server that is away must not make anybody believe that everything is gone."""
    with pipeline(sqlite_database, redis_url, ScriptedModel()) as system:
        say(system, 1, "room-1", "u-1", "Something.")
        system.take_in()
        erase(sqlite_database, "scout", AgentDeleted(), policy=system.policy)
        with Redis(port=1) as nobody:
            without = [erasing.go_on(sqlite_database, one) for one in (None, nobody)]
        is_open = [row["done_ms"] for row in system.rows(erasures)]
        with Redis.from_url(redis_url) as client:
            with_redis = erasing.go_on(sqlite_database, client)
        (done,) = system.rows(erasures)

    assert (without, is_open, with_redis) == ([0, 0], [None], 1)
    assert done["account"]["stream_entries"] == 1


def test_a_running_server_goes_on_with_an_erasure_until_it_is_done(
    sqlite_database: Database, redis_url: str
) -> None:
    """Nobody has to remember what was still open when Redis was away or a process died."""
    with pipeline(sqlite_database, redis_url, ScriptedModel()) as system:
        say(system, 1, "room-1", "u-1", "Something.")
        system.take_in()
        erase(sqlite_database, "scout", AgentDeleted(), policy=system.policy)
        hints = Hints(lambda kind, agent_id, reason: None)
        running = IntakeProcess(
            database=sqlite_database,
            redis_url=redis_url,
            hints=hints,
            policy=system.policy,
            kinds=[Kind.EXTRACTION],
            options=IntakeOptions(stream=StreamOptions(block_seconds=0.05)),
        )
        thread = threading.Thread(target=running.run)
        thread.start()
        try:
            wait_until(lambda: all(row["done_ms"] for row in system.rows(erasures)))
        finally:
            running.stop()
            thread.join()

        assert len(system.rows(erasures)) == 1


def test_what_others_need_stays_in_the_stream(database: Database, redis_url: str) -> None:
    """An erasure deletes acknowledged entries only: nobody else's event is lost with it."""
    with pipeline(database, redis_url, ScriptedModel()) as system, Redis.from_url(redis_url) as client:
        say(system, 1, "room-1", "u-1", "Taken in.")
        system.take_in()
        say(system, 2, "room-1", "u-1", "Waits.")
        erase(database, "scout", PersonDeleted(person_id="u-9"), policy=system.policy)
        erasing.go_on(database, client)
        left = client.xlen(RUNS_STREAM)
        system.take_in()
        said = {row["message_id"] for row in system.rows(messages)}

    assert left == 1
    assert said == {"run-1#0", "run-2#0"}


def test_the_words_of_a_retired_line_go_with_an_erasure_that_finds_no_line(
    database: Database, redis_url: str
) -> None:
    """What was merged, then superseded, then erased, still stood in accounts of the past."""

    def replace(request: ConsolidationRequest) -> ConsolidationAnswer:
        (one,) = request.candidates
        changed = {"kind": "fact", "text": one.text, "candidates": [one.label], "line": "l1"}
        return ConsolidationAnswer.model_validate(
            {
                "edits": [{"op": "update", "section": "s1", "gist": "ports", "replace": [changed]}],
                "account": [{"candidate": one.label, "fate": "merged"}],
            }
        )

    model = ScriptedModel()
    with pipeline(database, redis_url, model) as system, Redis.from_url(redis_url) as client:
        say(system, 1, "room-1", "u-1", f"The port is {CANARY}.")
        system.take_in()
        system.flush()
        model.then_consolidate(replace)
        say(system, 2, "room-2", "u-2", "The port is 9444.")
        system.take_in()
        system.flush()
        accounts = str([row["account"] for row in system.rows(revisions)])
        erase(database, "scout", PersonDeleted(person_id="u-1"), policy=system.policy)
        erasing.go_on(database, client)
        left = found_in(database, redis_url, word=CANARY)

    assert CANARY in accounts
    assert left == []


def test_the_ids_of_events_outlive_an_erasure(database: Database, redis_url: str) -> None:
    """A late repeat of an old event is known, acknowledged and dropped."""
    with pipeline(database, redis_url, ScriptedModel()) as system:
        say(system, 1, "room-1", "u-1", "Once.")
        system.take_in()
        erase(database, "scout", AgentDeleted(), policy=system.policy)
        with database.write() as connection:  # as after 90 days
            connection.execute(update(inbox).values(event_id=inbox.c.event_id + "-x"))
        say(system, 1, "room-1", "u-1", "Once.")
        taken = system.take_in()
        with database.read() as connection:
            rows = connection.execute(select(messages)).all()

    assert taken.outcomes[Taken.OUTDATED] == 1
    assert rows == []
