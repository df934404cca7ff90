"""Reported faults of other memories, put to ours: each case is handed in as it was reported.

Their models rewrite Markdown or edit it by headings. Ours edits lines by label, so a case's memory becomes
sections, its edits become answers, and what the model wrote as a whole becomes the text of an answer.
"""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from takeaways.recall import memory_md, summary_md
from takeaways.recall.tokens import count
from takeaways.schemas.database import Database
from takeaways.schemas.errors import EditRefused
from takeaways.schemas.memories import Candidate, Evidence, Lesson, Line, Memory, Section
from takeaways.schemas.tables import candidates
from takeaways.workers.consolidation.edits import Applied, apply
from takeaways.workers.consolidation.offer import offer
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.models.answers import ConsolidationAnswer
from takeaways.workers.models.requests import ConsolidationRequest
from takeaways.workers.testing import ScriptedModel
from tests.cases import case
from tests.pipeline import pipeline

DAY_MS = 86_400_000
NEW = Candidate(
    id="c:new",
    room_id="room-1",
    kind=Lesson.FACT,
    topic="New",
    text="One new fact.",
    said_at_ms=10_000 * DAY_MS,
    evidence=(Evidence(message_id="m", quote="one new fact"),),
)
MERGED = {"candidate": "c1", "fate": "merged"}
LINE = {"kind": "fact", "text": "One new fact.", "candidates": ["c1"]}


def memory_of(markdown: str) -> Memory:
    """A memory that holds each line of a case's Markdown below a `## ` heading as a line of its own."""
    sections: dict[str, list[Line]] = {}
    title = fence = ""
    for number, text in enumerate(markdown.splitlines()):
        mark = text[: len(text) - len(text.lstrip("`~"))]
        if fence and mark == fence:
            fence = ""
        elif not fence and len(mark) >= 3:
            fence = mark
        if text.startswith("## ") and not fence:
            title = text[3:]
            sections[title] = []
        elif title and text.strip():
            text = text.removeprefix("- ")
            line = Line(
                id=f"l:{number}", kind=Lesson.FACT, text=text, said_at_ms=number, candidates=("c:old",)
            )
            sections[title].append(line)
    return Memory(
        sections=tuple(
            Section(id=f"s:{name}", title=name, lines=tuple(lines))
            for name, lines in sections.items()
            if lines
        )
    )


def answered(memory: Memory, *edits: dict[str, Any], account: Any = (MERGED,)) -> Applied:
    answer = ConsolidationAnswer.model_validate({"edits": list(edits), "account": list(account)})
    return apply(memory, [NEW], offer(memory, [NEW], 100_000), answer)


def headings(memory: Memory) -> list[str]:
    return [text.lstrip("# ") for text in memory_md(memory).splitlines() if text.startswith("## ")]


@pytest.mark.parametrize(
    "body",
    [
        "new intro\n\n## Stack\n- new stack\n",
        "## Stack",
        "Stack\n=====",
        "   ### Stack",
        "#\tStack",
        "```sh\n# Stack\n```",
    ],
)
def test_no_text_of_a_line_becomes_a_heading(body: str) -> None:
    """A section's new body once left old sub-sections behind, or made top-level sections of its own (CO-01)."""
    memory = memory_of(case("CO-01")["memory"])
    pipeline_section = next(one for one in memory.sections if one.title == "Pipeline")
    others = [one for one in memory.sections if one is not pipeline_section]
    label = f"s{memory.sections.index(pipeline_section) + 1}"
    lines = [f"l{number}" for number in range(1, len(pipeline_section.lines) + 1)]
    replaced = {**LINE, "text": body, "line": lines[0]}
    gone = [{"line": line, "reason": "old"} for line in lines[1:]]

    after = answered(memory, {"op": "update", "section": label, "replace": [replaced], "remove": gone}).memory

    assert headings(after) == ["Other", "Pipeline"]
    assert "old stack" not in memory_md(after)
    assert [one for one in after.sections if one.title != "Pipeline"] == others


def test_fences_and_indented_code_stay_as_they_are_beside_an_edit() -> None:
    """A `#` in a code block was taken for a heading, and the file cut there (CO-02)."""
    found = case("CO-02")
    memory = memory_of(found["memory"])
    people = next(one for one in memory.sections if one.title == "People")
    label = f"s{memory.sections.index(people) + 1}"
    line = next(
        label_ for label_, id_ in offer(memory, [NEW], 100_000).lines.items() if id_ == people.lines[-1].id
    )

    after = answered(
        memory,
        {
            "op": "update",
            "section": label,
            "gist": "",
            "replace": [{**LINE, "text": "P2 signs contracts.", "line": line}],
        },
    ).memory

    before_md, after_md = memory_md(memory).splitlines(), memory_md(after).splitlines()
    assert sum(one != other for one, other in zip(before_md, after_md, strict=True)) == 1
    assert "- P2 signs contracts." in after_md


def test_an_edit_of_a_section_that_is_not_there_is_never_half_applied() -> None:
    """A miss was reported as done while a duplicate was appended (CO-03)."""
    found = case("CO-03")
    memory = memory_of(found["memory"])
    for edit in found["model_edits"]:
        wrong = (
            {"op": "delete", "section": edit["heading"][:20], "reason": "so"}
            if edit["op"] == "delete_section"
            else {"op": "update", "section": edit["heading"][:20], "add": [LINE]}
        )
        with pytest.raises(EditRefused, match=r"was not offered|no label"):
            answered(memory, wrong)
    for twin in ("open  Items #urgent", "Open items — urgent", "OPEN ITEMS: urgent", "## Open items #urgent"):
        with pytest.raises(EditRefused, match="title is that of another section"):
            answered(memory, {"op": "create", "title": twin, "gist": "", "lines": [LINE]})


def test_deleting_a_section_takes_its_own_lines_and_no_others() -> None:
    """Notes under other kinds of headings were swallowed by the section above, and deleted with it (CO-05)."""
    text = case("CO-05")["memory"]
    memory = memory_of(
        text.replace("My own notes\n----", "## My own notes\n----").replace("Title\n=", "## Title\n=")
    )
    auto = next(one for one in memory.sections if one.title.startswith("Auto"))
    label = f"s{memory.sections.index(auto) + 1}"

    after = answered(
        memory,
        {"op": "delete", "section": label, "reason": "generated"},
        {"op": "create", "title": "New", "gist": "", "lines": [LINE]},
    ).memory

    shown = memory_md(after)
    assert "generated a" not in shown
    assert all(f"keep {word}" in shown for word in ("one", "two", "three", "four"))


ELISIONS = (
    "[... the remaining sections are unchanged ...]",
    "(rest unchanged)",
    "…",
    "<!-- same as before -->",
    "# ...existing content...",
)


@pytest.mark.parametrize("elision", ELISIONS)
def test_an_abbreviated_rewrite_costs_nothing_of_a_large_memory(elision: str) -> None:
    """ "The rest is unchanged" once replaced the rest (CO-06)."""
    memory = memory_of(case("CO-06")["memory"])
    assert len(memory.sections) == 120

    with pytest.raises(EditRefused, match="placeholder"):
        answered(
            memory,
            {"op": "create", "title": "New", "gist": "", "lines": [LINE, {**LINE, "text": elision}]},
        )
    deletions = [{"op": "delete", "section": f"s{n}", "reason": "unchanged"} for n in range(1, 120)]
    with pytest.raises(EditRefused, match="at most"):
        answered(memory, {"op": "create", "title": "New", "gist": "", "lines": [LINE]}, *deletions)


@pytest.mark.parametrize("number", range(7))
def test_no_empty_answer_wipes_a_curated_memory(
    sqlite_database: Database, redis_url: str, number: int
) -> None:
    """An empty or nearly empty answer once replaced everything (CO-07)."""
    found = case("CO-07")
    reply = found["model_replies"][number]
    memory = memory_of(found["memory"])
    try:
        given = json.loads(reply)
        edits = [
            {"op": "delete", "section": f"s{place}", "reason": "so"}
            for place, _ in enumerate(given.get("edits", ()) if isinstance(given, dict) else (), start=1)
        ]
        answer = {"edits": edits} if isinstance(given, dict) and "memory" not in given else given
        parsed = ConsolidationAnswer.model_validate(answer)
    except (ValueError, ValidationError):
        return  # no answer of our schema: the model's side says `unreadable_answer`, and nothing is applied

    with pytest.raises(EditRefused) as refused:
        apply(memory, [NEW], offer(memory, [NEW], 100_000), parsed)
    assert "the answer is empty" in str(refused.value) or "would be empty" in str(refused.value)


def test_an_id_that_was_never_offered_changes_nothing() -> None:
    """A made-up id crashed the batch, or deleted what was nearest to it (CO-08)."""
    found = case("CO-08")
    texts = found["memory_items"].values()
    memory = memory_of("## Facts\n" + "".join(f"- {text}\n" for text in texts))
    for op in json.loads(found["model_text"])["ops"]:
        label = f"l{op['id']}" if op["id"] is not None else "null"
        edit = {"op": "update", "section": "s1", "remove": [{"line": label[:20], "reason": "so"}]}
        if op["op"] == "update":
            edit = {"op": "update", "section": "s1", "replace": [{**LINE, "line": label[:20]}]}
        if label in ("l1", "l2"):
            continue
        with pytest.raises(EditRefused, match=r"was not offered|no label"):
            answered(memory, edit)


def test_the_last_said_wins_whatever_the_order_of_processing(database: Database, redis_url: str) -> None:
    """An older message that was read later overrode the newer fact (CO-10)."""
    told = case("CO-10")["order_of_processing"]
    ended = []
    for order in (told, told[::-1]):
        agent_id = f"scout-{order is told}"
        model = ScriptedModel(consolidations=[in_list_order] * 9)
        with pipeline(database, redis_url, model) as system:
            for one in order:
                at = datetime.fromisoformat(one["created_at"])
                system.producer.run_completed(
                    agent_id=agent_id,
                    room=one["room"],
                    run_id=one["room"],
                    status="succeeded",
                    started_at=at,
                    ended_at=at,
                    messages=[{"role": "user", "content": one["text"], "time": one["created_at"]}],
                )
                system.take_in()
                system.flush()
            ended.append(memory_md(system.memory(agent_id)))
            prompts = [
                said.said_at_ms for request in model.consolidation_requests for said in request.candidates
            ]
            states = {
                row["text"]: row["state"] for row in system.rows(candidates) if row["agent_id"] == agent_id
            }

        assert all(prompts)
        assert states[told[0]["text"]] == "merged"
        assert states[told[1]["text"]] == "superseded"
    assert "reg-new.example.test" in ended[0]
    assert "reg-old" not in ended[0]
    assert ended[0] == ended[1]


def test_a_clock_that_is_wrong_makes_no_fact_that_stays_for_ever(database: Database, redis_url: str) -> None:
    """What was dated into the future outlived every correction: nothing is said after it."""
    model = ScriptedModel(consolidations=[in_list_order] * 9)
    with pipeline(database, redis_url, model) as system:
        for number, (year, text) in enumerate(((2199, "The port is 9443."), (None, "The port is 9444."))):
            now = datetime.now(UTC)
            at = (now if year is None else now.replace(year=year, day=1)).isoformat()
            system.producer.run_completed(
                agent_id="scout", room="r", run_id=f"r{number}", status="succeeded", started_at=now, ended_at=now,
                messages=[{"role": "user", "content": text, "time": at}],
            )  # fmt: skip
            system.take_in()
            system.flush()
        (line,) = [line for section in system.memory("scout").sections for line in section.lines]

    assert line.text == "The port is 9444."
    assert len(model.consolidation_requests) == 2


def in_list_order(request: ConsolidationRequest) -> ConsolidationAnswer:
    """A model for whom what it reads last is right, until it is told what it may not do."""
    lines = [line for section in request.sections for line in section.lines]
    (one,) = request.candidates
    said = {"kind": one.kind, "text": one.text, "candidates": [one.label]}
    if not lines:
        edits: list[Any] = [{"op": "create", "title": "Registry", "gist": "", "lines": [said]}]
        return ConsolidationAnswer.model_validate({"edits": edits, "account": [MERGED]})
    if request.repair is not None:
        gives_way = {"candidate": "c1", "fate": "superseded", "by": lines[0].label}
        return ConsolidationAnswer.model_validate({"edits": [], "account": [gives_way]})
    replaced = {**said, "line": lines[0].label}
    edits = [{"op": "update", "section": "s1", "replace": [replaced]}]
    return ConsolidationAnswer.model_validate({"edits": edits, "account": [MERGED]})


def test_the_newest_is_shown_and_what_is_missing_is_told() -> None:
    """Over its cap, a file lost its newest entries without a word (CO-14)."""
    found = case("CO-14")
    memory = memory_of(found["memory"])

    note = summary_md(memory, budget_tokens=found["cap_chars"] // 4)

    assert len(note) <= found["cap_chars"]
    assert count(note) <= found["cap_chars"] // 4
    assert "NEWEST" in note
    assert "Left out here for want of room" in note


# -- asking once more


def test_a_bad_answer_is_asked_for_once_more_with_what_was_wrong(database: Database, redis_url: str) -> None:
    """Most mistakes are put right by telling them; the candidate is merged in the same job."""
    model = ScriptedModel(consolidations=[without_account])
    with pipeline(database, redis_url, model) as system:
        hear(system, "A fact.")
        (flushed,) = system.flush()

    first, second = model.consolidation_requests
    assert first.repair is None
    assert second.repair is not None
    assert second.repair.complaints == ("candidate c1 is not accounted for",)
    assert second.repair.answer is not None
    assert flushed.jobs[-1].outcome is Outcome.REMEMBERED
    assert flushed.jobs[-1].input_tokens > 0


def test_an_answer_that_stays_bad_makes_no_revision_and_keeps_the_candidates(
    database: Database, redis_url: str
) -> None:
    """The ending is named, nothing is half done, and the lesson is there for the next try."""
    model = ScriptedModel(consolidations=[without_account] * 2)
    with pipeline(database, redis_url, model) as system:
        hear(system, "A fact.")
        (flushed,) = system.flush()
        (row,) = system.rows(candidates)
        revision = system.agent("scout")["revision"]

    assert flushed.jobs[-1].outcome is Outcome.REFUSED_EDITS
    assert "c1 is not accounted for" in (flushed.jobs[-1].detail or "")
    assert (row["state"], revision) == ("waiting", 0)
    assert len(model.consolidation_requests) == 2


def without_account(request: ConsolidationRequest) -> ConsolidationAnswer:
    said = {"kind": "fact", "text": request.candidates[0].text, "candidates": ["c1"]}
    edit = {"op": "create", "title": "Facts", "gist": "", "lines": [said]}
    return ConsolidationAnswer.model_validate({"edits": [edit], "account": []})


def hear(system: Any, text: str, run: int = 0) -> None:
    at = datetime.fromisoformat("2026-03-02T09:00:00+00:00")
    system.producer.run_completed(
        agent_id="scout", room="room-1", run_id=f"run-{run}", status="succeeded", started_at=at, ended_at=at,
        messages=[{"role": "user", "content": text, "time": at.isoformat()}],
    )  # fmt: skip
    system.take_in()


def test_a_smaller_window_shrinks_the_memory_and_a_larger_one_harms_it_never(
    sqlite_database: Database, redis_url: str
) -> None:
    """Changing to a model with a smaller window must work at once, and back again lose nothing more."""
    dice = random.Random(1)
    large = ScriptedModel(window=100_000)
    with pipeline(sqlite_database, redis_url, large) as system:
        for run in range(60):
            hear(system, f"Fact {run}: " + " ".join(f"word{dice.randrange(10_000)}" for _ in range(25)), run)
        system.flush()
        before = system.memory("scout")
        system.services.model = ScriptedModel(window=8_000)
        hear(system, "The newest fact of all.", 61)
        system.flush()
        smaller = system.memory("scout")
        states = [row["state"] for row in system.rows(candidates)]
        system.services.model = large
        hear(system, "And another.", 62)
        system.flush()
        larger = system.memory("scout")

    lines = [
        len([line for section in one.sections for line in section.lines]) for one in (before, smaller, larger)
    ]
    assert lines[0] == 60
    assert 0 < lines[1] < 40
    assert lines[2] == lines[1] + 1
    assert count(memory_md(smaller)) <= 8_000 // 4
    assert "The newest fact of all." in memory_md(smaller)
    assert states.count("trimmed") == 61 - lines[1]
