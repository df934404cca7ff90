"""What was believed when, why it changed, and undoing it: by revisions, accounts and a person's edits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import null, select, update

from takeaways.recall import Recall
from takeaways.recall.store import load_memory
from takeaways.schemas.database import Database
from takeaways.schemas.errors import BadInput
from takeaways.schemas.memories import Lesson, Line
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import candidates, revisions
from takeaways.workers.consolidation import store
from takeaways.workers.consolidation.account import Account, How
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.run import run_job
from takeaways.workers.memories import curating, history
from takeaways.workers.memories.curating import By
from takeaways.workers.models.answers import ConsolidationAnswer
from takeaways.workers.models.requests import ConsolidationRequest
from takeaways.workers.testing import ScriptedModel
from tests.pipeline import Pipeline, pipeline

START = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
ME = By("me", "because")


class Life:
    """An agent that is told something, sentence by sentence, each merged before the next is said."""

    def __init__(self, system: Pipeline, model: ScriptedModel) -> None:
        self.system = system
        self.model = model
        self.database = system.database
        self._runs = 0

    def hears(
        self, *texts: str, room: str = "room-1", minutes: int | None = None, merge: bool = True
    ) -> None:
        self._runs += 1
        at = START + timedelta(minutes=self._runs if minutes is None else minutes)
        self.system.producer.run_completed(
            agent_id="scout",
            room=room,
            run_id=f"run-{self._runs}",
            status="succeeded",
            started_at=at,
            ended_at=at,
            messages=[{"role": "user", "content": text, "time": at.isoformat()} for text in texts],
        )
        self.system.take_in()
        if merge:
            self.system.flush()

    def lines(self, revision: int | None = None) -> list[Line]:
        with self.database.read() as connection:
            memory = history.load_revision(connection, "scout", revision).memory
        return [line for section in memory.sections for line in section.lines]

    def texts(self, revision: int | None = None) -> list[str]:
        return [line.text for line in self.lines(revision)]

    def line(self, text: str) -> Line:
        return next(line for line in self.lines() if line.text == text)

    def states(self) -> dict[str, str]:
        return {row["text"]: row["state"] for row in self.system.rows(candidates)}


@pytest.fixture
def life(database: Database, redis_url: str) -> Iterator[Life]:
    model = ScriptedModel()
    with pipeline(database, redis_url, model) as system:
        yield Life(system, model)


def replacing(request: ConsolidationRequest) -> ConsolidationAnswer:
    """The last candidate takes the place of the first line, as a model would have it that found a contradiction."""
    one = request.candidates[-1]
    changed = {"kind": "fact", "text": one.text, "candidates": [one.label], "line": "l1"}
    account = [
        {"candidate": other.label, "fate": "superseded", "by": one.label, "reason": "said later"}
        for other in request.candidates[:-1]
    ]
    return ConsolidationAnswer.model_validate(
        {
            "edits": [{"op": "update", "section": "s1", "replace": [changed]}],
            "account": [*account, {"candidate": one.label, "fate": "merged"}],
        }
    )


def test_what_was_believed_then_and_why_it_changed_has_an_answer(life: Life) -> None:
    """Somebody who acted on the old fact in March wants to know that it was believed, and what replaced it."""
    life.hears("The registry is reg-old.")
    then = life.lines()[0]
    life.model.then_consolidate(replacing)
    life.hears("We moved: the registry is reg-new.", room="room-2")

    with life.database.read() as connection:
        made = history.made(connection, "scout", limit=9)
        number = history.revision_at(connection, "scout", made[-1].made_at_ms)
        (change,) = history.changes_of(connection, "scout", then.id)

    assert life.texts(number) == ["The registry is reg-old."]
    assert life.texts() == ["We moved: the registry is reg-new."]
    assert change.retired.line.text == "The registry is reg-old."
    assert change.retired.how is How.REPLACED
    assert change.now == "We moved: the registry is reg-new."
    assert (change.number, change.retired.by) == (2, then.id)
    assert life.states()["The registry is reg-old."] == "superseded"


def test_every_line_names_the_messages_times_and_words_it_rests_on(life: Life) -> None:
    """A memory that cannot say who said so cannot be trusted, or corrected."""
    life.hears("Quotes over $40k need sign-off.", "Short answers, please.")

    with life.database.read() as connection:
        blamed = history.blame(connection, "scout")

    assert [one.line.text for one in blamed] == ["Quotes over $40k need sign-off.", "Short answers, please."]
    (witness,) = blamed[0].witnesses
    assert (witness.room_id, witness.message_id, witness.quote) == (
        "room-1",
        "run-1#0",
        "Quotes over $40k need sign-off.",
    )
    assert witness.said_at_ms == round((START + timedelta(minutes=1)).timestamp() * 1000)
    assert witness.text_is_kept
    assert [one.since_revision for one in blamed] == [1, 1]


def test_the_history_names_job_model_and_prompt(life: Life) -> None:
    """When a model's new version starts to forget, the revisions it made have to be found."""
    life.hears("Something.")

    with life.database.read() as connection:
        (made,) = history.made(connection, "scout", limit=9)

    assert (made.made_by, made.model, made.prompt_version) == ("consolidation", "scripted", "scripted-1")
    assert made.job_id
    assert Account.from_json(dict(made.account)).settled


def test_a_revision_that_was_thinned_out_is_made_again_from_the_accounts(life: Life) -> None:
    """Thinning saves room and costs no history."""
    for number in range(4):
        life.hears(f"Fact {number}.")
    whole = [life.texts(number) for number in (1, 2, 3, 4)]
    with life.database.write() as connection:
        connection.execute(update(revisions).where(revisions.c.revision.in_((1, 3))).values(sections=null()))

    again = [life.texts(number) for number in (1, 2, 3, 4)]

    assert again == whole
    with life.database.read() as connection, pytest.raises(BadInput, match="thinned out"):
        load_memory(connection, "scout", 3)


def test_a_rollback_is_a_revision_like_any_other(life: Life) -> None:
    """Undoing must be possible to undo."""
    life.hears("Right.")
    life.hears("Wrong.")

    number = curating.roll_back(life.database, "scout", 1, ME)
    undone = life.texts()
    curating.roll_back(life.database, "scout", 2, ME)

    assert number == 3
    assert undone == ["Right."]
    assert life.texts() == ["Right.", "Wrong."]
    assert life.states() == {"Right.": "merged", "Wrong.": "merged"}
    with life.database.read() as connection:
        made = history.made(connection, "scout", limit=1)[0]
    assert (made.made_by, made.author, made.why) == ("rollback", "me", "because")


def test_after_a_rollback_what_was_learned_since_stays_out_or_is_learned_anew(life: Life) -> None:
    """A bad consolidation is undone together with what it merged, unless somebody wants it merged again."""
    life.hears("Right.")
    life.hears("Wrong.")

    curating.roll_back(life.database, "scout", 1, ME)
    life.system.flush()
    stays_out, state = life.texts(), life.states()["Wrong."]
    curating.roll_back(life.database, "scout", 1, ME, relearn=True)
    life.system.flush()

    assert (stays_out, state) == (["Right."], "by_hand")
    assert life.texts() == ["Right.", "Wrong."]


def test_a_rollback_brings_back_nothing_that_was_withdrawn(life: Life) -> None:
    """A message that its author deleted stays without effect, whatever revision somebody goes back to."""
    life.hears("Said by mistake.", "Said and meant.")
    life.system.producer.message_deleted(agent_id="scout", room="room-1", message_id="run-1#0", revision=1)
    life.system.take_in()

    with pytest.raises(BadInput, match="says already"):
        curating.roll_back(life.database, "scout", 1, ME)

    assert life.texts() == ["Said and meant."]


def test_a_pinned_line_outlives_a_model_that_wants_to_change_it(life: Life) -> None:
    """What a person protects, only a person changes."""
    life.hears("Never deploy on Fridays.")
    curating.pin(life.database, "scout", [life.lines()[0].id[:6]], ME)
    life.model.then_consolidate(replacing, replacing)

    life.hears("Deploy whenever you like.", room="room-2", merge=False)
    run_job(Kind.EXTRACTION, "scout", life.system.services)
    flushed = life.system.flush()

    assert flushed[0].jobs[-1].outcome is Outcome.REFUSED_EDITS
    assert life.texts() == ["Never deploy on Fridays."]
    assert life.lines()[0].pinned


def test_a_persons_edit_is_respected_and_traced(life: Life) -> None:
    """Correcting the memory by hand lasts, and one sees that it was by hand."""
    life.hears("Staging uses port 9443.")
    curating.rewrite(life.database, "scout", life.lines()[0].id, "Staging uses port 9444.", ME)
    life.model.then_consolidate(replacing, replacing)

    life.hears("Staging uses port 9443 again.", room="room-2")

    assert life.texts() == ["Staging uses port 9444."]
    with life.database.read() as connection:
        (change,) = history.changes_of(connection, "scout")
    assert (change.retired.how, change.retired.line.text) == (How.BY_HAND, "Staging uses port 9443.")


def test_a_line_written_by_hand_rests_on_nobody_and_joins_its_section(life: Life) -> None:
    """A person may know what was never said in a room."""
    life.hears("One.")

    curating.add(life.database, "scout", "room ROOM-1", "Never say two.", ME, kind=Lesson.RULE)
    curating.add(life.database, "scout", "Quotes", "Sign-off above $40k.", ME)

    with life.database.read() as connection:
        blamed = history.blame(connection, "scout")
    assert [(one.section, one.line.text, one.witnesses == ()) for one in blamed] == [
        ("Quotes", "Sign-off above $40k.", True),
        ("Room room-1", "One.", False),
        ("Room room-1", "Never say two.", True),
    ]
    assert life.line("Never say two.").pinned


def test_a_line_that_a_person_took_out_does_not_come_back(life: Life) -> None:
    """The candidate is settled: the next consolidation is not offered it again."""
    life.hears("Private.", "Useful.")

    curating.remove(life.database, "scout", [life.line("Private.").id], ME)
    life.hears("More.")

    assert life.texts() == ["Useful.", "More."]
    assert life.states()["Private."] == "by_hand"
    assert "Private" not in str([section.gist for section in life.system.memory("scout").sections])


def test_an_edit_by_hand_during_a_consolidation_is_not_overwritten(life: Life) -> None:
    """A job that planned on the old revision plans again."""
    life.hears("One.")
    line = life.lines()[0].id

    def meanwhile(request: ConsolidationRequest) -> ConsolidationAnswer:
        curating.rewrite(life.database, "scout", line, "One, by hand.", ME)
        return ConsolidationAnswer.model_validate(
            {"edits": [], "account": [{"candidate": "c1", "fate": "dropped", "reason": "planned on the old"}]}
        )

    life.model.then_consolidate(meanwhile)
    life.hears("Two.")

    assert life.texts() == ["One, by hand.", "Two."]


@pytest.mark.parametrize("text", ["", "...", "(rest unchanged)", "password: hunter2hunter2"])
def test_a_person_cannot_write_what_says_nothing_or_is_a_secret(life: Life, text: str) -> None:
    """The same rules hold for hands as for models."""
    life.hears("One.")

    with pytest.raises(BadInput):
        curating.add(life.database, "scout", "Notes", text, ME)


def test_the_memory_is_the_replay_of_all_its_accounts(life: Life) -> None:
    """Every way in which a memory changes leaves an account from which it can be made again."""
    life.hears("One.", "Two.")
    curating.pin(life.database, "scout", [life.line("One.").id], ME)
    life.model.then_consolidate(replacing)
    curating.pin(life.database, "scout", [life.line("One.").id], ME, pinned=False)
    life.hears("Three.", room="room-2")
    curating.add(life.database, "scout", "Notes", "Four.", ME)
    curating.roll_back(life.database, "scout", 2, ME)
    life.system.producer.message_deleted(agent_id="scout", room="room-1", message_id="run-1#0", revision=1)
    life.system.take_in()
    current = life.system.memory("scout")

    with life.database.write() as connection:
        newest = select(revisions.c.revision).order_by(revisions.c.revision.desc()).limit(1)
        number = connection.execute(newest).scalar_one()
        connection.execute(update(revisions).values(sections=null()))
    with life.database.read() as connection:
        again = history.load_revision(connection, "scout", number).memory

    assert number == 7
    assert again.model_dump_json() == current.model_dump_json()


def test_notes_that_showed_a_line_are_counted(life: Life) -> None:
    """How often something was recalled decides what goes when room is scarce."""
    life.hears("Shown in both.")
    with Recall(life.database) as recall:
        recall.note("scout", "room-8", "c-1")
    life.hears("Shown in one.")
    with Recall(life.database) as recall:
        recall.note("scout", "room-9", "c-1")
    life.hears("Never shown.")

    with life.database.read() as connection:
        counts = store.recalled(connection, "scout", life.system.memory("scout"))

    assert [
        counts.get(life.line(text).id, 0) for text in ("Shown in both.", "Shown in one.", "Never shown.")
    ] == [
        2,
        1,
        0,
    ]
