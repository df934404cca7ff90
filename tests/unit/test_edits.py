"""A model's edits are applied whole or not at all, and nothing gets lost without a name and a reason."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeaways.schemas.errors import EditRefused
from takeaways.schemas.memories import EMPTY, Candidate, Evidence, Lesson, Line, Memory, Section
from takeaways.workers.consolidation.account import Account, How, gist_of, replay
from takeaways.workers.consolidation.became import Became, became
from takeaways.workers.consolidation.edits import Applied, Guards, apply, withdraw_lines
from takeaways.workers.consolidation.offer import Offer, offer
from takeaways.workers.models.answers import ConsolidationAnswer
from takeaways.workers.testing.scripted import merged

DAY = 86_400_000


def line(
    number: int, text: str = "", *, day: int | None = None, pinned: bool = False, kind: str = "fact"
) -> Line:
    return Line(
        id=f"l:{number}",
        kind=Lesson(kind),
        text=text or f"Line number {number}.",
        said_at_ms=(number if day is None else day) * DAY,
        pinned=pinned,
        candidates=(f"old-{number}",),
    )


def section(title: str, *lines: Line, gist: str = "What it is about.") -> Section:
    return Section(id=f"s:{title}", title=title, gist=gist, lines=lines)


def candidate(
    number: int, text: str = "", *, day: int = 100, kind: str = "fact", topic: str = "Deploy"
) -> Candidate:
    return Candidate(
        id=f"new-{number}",
        room_id="room-1",
        kind=Lesson(kind),
        topic=topic,
        text=text or f"Candidate number {number}.",
        said_at_ms=day * DAY + number,
        evidence=(Evidence(message_id=f"m-{number}", quote="said so"),),
    )


# s1 Deploy: l1, l2, l3 · s2 People: l4 · s3 Style: l5
MEMORY = Memory(
    sections=(
        section("Deploy", line(1, "Staging uses port 9443."), line(2), line(3, pinned=True)),
        section("People", line(4, "P1 signs contracts.")),
        section("Style", line(5, "Short answers.", kind="preference")),
    )
)
PENDING = (candidate(1), candidate(2))
MERGED = {"candidate": "c1", "fate": "merged"}
DROPPED = {"candidate": "c2", "fate": "dropped", "reason": "said in passing"}


def applied(
    *edits: dict[str, Any],
    account: Iterable[dict[str, Any]] = (),
    memory: Memory = MEMORY,
    pending: tuple[Candidate, ...] = PENDING,
    guards: Guards | None = None,
) -> Applied:
    answer = ConsolidationAnswer.model_validate({"edits": list(edits), "account": list(account)})
    return apply(memory, pending, offer(memory, pending, 10_000), answer, guards)


def complaints(*edits: dict[str, Any], account: Iterable[dict[str, Any]] = (), **more: Any) -> str:
    with pytest.raises(EditRefused) as refused:
        applied(*edits, account=account, **more)
    return "\n".join(refused.value.complaints)


def new(text: str = "Something new.", *candidates: str, kind: str = "fact") -> dict[str, Any]:
    return {"kind": kind, "text": text, "candidates": list(candidates or ("c1",))}


def update(label: str, **more: Any) -> dict[str, Any]:
    return {"op": "update", "section": label, **more}


def texts(memory: Memory) -> dict[str, list[str]]:
    return {one.title: [each.text for each in one.lines] for one in memory.sections}


# -- what edits do


def test_only_the_edited_section_changes() -> None:
    """Every other section stays byte for byte, so that nothing decays by being copied (CO-01, CO-02)."""
    after = applied(update("s1", add=[new()]), account=[MERGED, DROPPED]).memory

    assert texts(after)["Deploy"][-1] == "Something new."
    assert after.sections[1] is MEMORY.sections[1]
    assert after.sections[2] is MEMORY.sections[2]
    assert after.sections[0].lines[:3] == MEMORY.sections[0].lines


def test_a_new_topic_becomes_a_section() -> None:
    """Its line rests on the candidate, and both can be found again from it."""
    create = {
        "op": "create",
        "title": "Quotes",
        "gist": "Sign-off.",
        "lines": [new("Ask first.", "c1", "c2")],
    }

    after = applied(create, account=[MERGED, MERGED | {"candidate": "c2"}]).memory

    made = next(one for one in after.sections if one.title == "Quotes")
    assert made.gist == "Sign-off."
    assert made.lines[0].candidates == ("new-1", "new-2")
    assert made.lines[0].said_at_ms == PENDING[1].said_at_ms


def test_a_replaced_line_keeps_its_id_and_rests_on_the_new_word() -> None:
    """History can follow the line, and erasing the old message does not take the new fact away."""
    changed = new("Staging uses port 9444.") | {"line": "l1"}

    after = applied(update("s1", replace=[changed]), account=[MERGED, DROPPED]).memory

    found = next(one for one in after.sections[0].lines if one.id == "l:1")
    assert (found.text, found.candidates) == ("Staging uses port 9444.", ("new-1",))
    assert "9443" not in after.sections[0].gist


def test_a_line_reworded_for_more_evidence_keeps_what_it_rested_on() -> None:
    """`still_rests` says that the old word is still part of it."""
    changed = new("Staging uses port 9443, and TLS.") | {"line": "l1", "still_rests": True}

    after = applied(update("s1", replace=[changed]), account=[MERGED, DROPPED]).memory

    assert next(one for one in after.sections[0].lines if one.id == "l:1").candidates == ("new-1", "old-1")


def test_a_duplicate_strengthens_the_line_it_repeats() -> None:
    """What is said again is worth more, and was last said when it was said again."""
    account = [{"candidate": "c1", "fate": "duplicate", "by": "l4"}, DROPPED]

    after = applied(account=account).memory

    (people,) = after.sections[1].lines
    assert (people.text, people.candidates) == ("P1 signs contracts.", ("new-1", "old-4"))
    assert people.said_at_ms == PENDING[0].said_at_ms
    assert after.sections[1].gist == MEMORY.sections[1].gist


def test_a_duplicate_of_a_candidate_strengthens_the_line_made_from_it() -> None:
    """Two rooms that teach the same give one line that rests on both."""
    pending = (candidate(1), candidate(2), candidate(3))
    account = [
        MERGED,
        {"candidate": "c2", "fate": "duplicate", "by": "c1"},
        {"candidate": "c3", "fate": "duplicate", "by": "c2"},
    ]

    after = applied(update("s2", add=[new()]), account=account, pending=pending).memory

    assert after.sections[1].lines[-1].candidates == ("new-1", "new-2", "new-3")


def test_a_duplicate_of_a_line_that_is_replaced_gives_way_with_it() -> None:
    """It said what the line said before; keeping it as evidence for the new word would be a lie."""
    changed = new("Staging uses port 9444.", "c2") | {"line": "l1"}
    account = [{"candidate": "c1", "fate": "duplicate", "by": "l1"}, MERGED | {"candidate": "c2"}]

    result = applied(update("s1", replace=[changed]), account=account)

    assert result.account.fates()["new-1"][0] == "superseded"
    assert next(one for one in result.memory.sections[0].lines if one.id == "l:1").candidates == ("new-2",)


def test_a_candidate_may_be_split_into_several_lines() -> None:
    """A compound lesson belongs to two topics; each line has an id of its own."""
    edits = [update("s1", add=[new("One."), new("Two.")]), update("s2", add=[new("Three.")])]

    after = applied(*edits, account=[MERGED, DROPPED]).memory

    ids = [each.id for one in after.sections for each in one.lines]
    assert len(ids) == len(set(ids)) == 8


def test_lines_stand_in_the_order_in_which_they_were_said_and_sections_by_title() -> None:
    """The same lessons make the same memory, in whatever batches they were merged."""
    pending = tuple(candidate(n, day=200 - n, topic=f"Topic {n % 3}") for n in range(9))
    at_once, one_by_one = EMPTY, EMPTY
    at_once = _merge_all(at_once, pending)
    for one in random.Random(1).sample(pending, len(pending)):
        one_by_one = _merge_all(one_by_one, (one,))

    assert texts(at_once) == texts(one_by_one)
    assert [one.gist for one in at_once.sections] == [one.gist for one in one_by_one.sections]
    assert list(texts(at_once)) == ["Topic 0", "Topic 1", "Topic 2"]


def _merge_all(memory: Memory, pending: tuple[Candidate, ...]) -> Memory:
    offered = offer(memory, pending, 100_000)
    return apply(memory, pending, offered, merged(offered.request)).memory


def test_a_section_whose_last_line_goes_goes_too() -> None:
    """A heading without a line says nothing."""
    edit = update("s2", remove=[{"line": "l4", "reason": "P1 left"}])

    after = applied(edit, account=[DROPPED | {"candidate": "c1"}, DROPPED])

    assert list(texts(after.memory)) == ["Deploy", "Style"]


def test_text_is_brought_into_one_line_without_marks() -> None:
    """No text of a line may open a heading, a fence or a list of its own (CO-01)."""
    ugly = "## Stack\n\n```sh\n- old\u2028stack"

    after = applied(
        update("s2", title="# People ##", gist="- who\nsigns", add=[new(ugly)]), account=[MERGED, DROPPED]
    )

    found = after.memory.sections[1]
    assert (found.title, found.gist) == ("People", "who signs")
    assert found.lines[-1].text == "Stack ```sh - old stack"


# -- what is refused


def test_every_complaint_is_told_at_once_and_nothing_is_applied() -> None:
    """A model that is asked again should not have to find its mistakes one by one (CO-08)."""
    found = complaints(
        update("s9"),
        update("s1", replace=[new() | {"line": "l12"}], remove=[{"line": "l4", "reason": "x"}]),
        {"op": "delete", "section": "s1", "reason": "x"},
        account=[MERGED, MERGED | {"candidate": "c7"}],
    )

    assert found.splitlines() == [
        "section 's9' was not offered",
        "line 'l12' was not offered",
        "line l4 stands in another section",
        "section s1 is edited twice",
        "candidate 'c7' was not offered",
        "candidate c2 is not accounted for",
    ]


@pytest.mark.parametrize(
    "text", ["[...]", "…", "(rest unchanged)", "<!-- same as before -->", "# ...existing content..."]
)
@pytest.mark.parametrize("where", ["line", "title", "gist"])
def test_a_placeholder_is_refused_wherever_it_stands(text: str, where: str) -> None:
    """An abbreviated rewrite loses what it abbreviates (CO-06)."""
    edit = update("s2", add=[new(text if where == "line" else "Fine.")])
    if where != "line":
        edit[where] = text

    assert complaints(edit, account=[MERGED, DROPPED])


@pytest.mark.parametrize("account", [(), (MERGED,)])
def test_an_answer_that_says_nothing_is_refused_while_candidates_wait(
    account: tuple[dict[str, Any], ...],
) -> None:
    """No lesson worth keeping and an answer that could not be read must never look alike (CO-07)."""
    assert complaints(account=account)


def test_the_memory_is_never_emptied() -> None:
    """Three deletions once wiped a curated memory (CO-07)."""
    memory = Memory(sections=(section("Deploy", line(1)), section("People", line(2))))
    gone = [{"op": "delete", "section": label, "reason": "tidy"} for label in ("s1", "s2")]
    dropped = [DROPPED | {"candidate": "c1"}, DROPPED]

    assert "the memory would be empty" in complaints(*gone, account=dropped, memory=memory)


def test_no_more_than_a_share_of_the_lines_goes_at_once() -> None:
    """A model that misunderstands must not be able to forget most of what is known in one step (CO-06)."""
    memory = Memory(sections=tuple(section(f"Topic {n:03}", line(2 * n), line(2 * n + 1)) for n in range(20)))
    dropped = [DROPPED | {"candidate": "c1"}, DROPPED]

    def gone(sections: int) -> list[dict[str, Any]]:
        return [{"op": "delete", "section": f"s{n + 1}", "reason": "old"} for n in range(sections)]

    assert "14 of 40 lines would be removed at once, at most 12 may be" in complaints(
        *gone(7), account=dropped, memory=memory
    )
    assert len(applied(*gone(6), account=dropped, memory=memory).memory.sections) == 14
    assert complaints(*gone(2), account=dropped, memory=memory, guards=Guards(removals=1, removal_share=0.05))


def test_a_pinned_line_is_neither_replaced_nor_removed() -> None:
    """A pin is a person's decision; only an erasure outranks it."""
    account = [MERGED, DROPPED]

    assert "line l3 is pinned" in complaints(update("s1", replace=[new() | {"line": "l3"}]), account=account)
    assert "line l3 is pinned" in complaints(
        update("s1", add=[new()], remove=[{"line": "l3", "reason": "x"}]), account=account
    )
    assert "line l3 is pinned" in complaints(
        update("s2", add=[new()]), {"op": "delete", "section": "s1", "reason": "x"}, account=account
    )


def test_a_line_is_not_replaced_by_something_said_before_it() -> None:
    """Later means said later, not processed later: an old message that arrives late changes nothing
    (CO-10).
    """
    memory = Memory(sections=(section("Registry", line(1, "The registry is reg-new.", day=200)),))
    pending = (candidate(1, "The registry is reg-old.", day=10),)
    replaced = update("s1", replace=[new("The registry is reg-old.") | {"line": "l1"}])

    assert "line l1 would be replaced by something that was said before it" in complaints(
        replaced, account=[MERGED], memory=memory, pending=pending
    )
    gives_way = [{"candidate": "c1", "fate": "superseded", "by": "l1"}]
    assert applied(account=gives_way, memory=memory, pending=pending).memory.sections[0] is memory.sections[0]


def test_of_two_candidates_the_one_said_earlier_gives_way() -> None:
    """Whichever was processed first."""
    early, late = candidate(1, day=10), candidate(2, day=20)

    def result(kept: str, gone: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        account = [MERGED | {"candidate": kept}, {"candidate": gone, "fate": "superseded", "by": kept}]
        return [update("s2", add=[new("New.", kept)])], account

    edits, account = result("c2", "c1")
    assert applied(*edits, account=account, pending=(late, early)).memory
    edits, account = result("c1", "c2")
    assert "candidate c2 was said after c1" in complaints(*edits, account=account, pending=(late, early))


def test_a_candidate_said_after_a_line_cannot_give_way_to_it() -> None:
    """Otherwise a stale line would defend itself against the correction."""
    account = [{"candidate": "c1", "fate": "superseded", "by": "l4"}, DROPPED]

    assert "candidate c1 was said after l4" in complaints(account=account)


@pytest.mark.parametrize(
    ("account", "complaint"),
    [
        ([MERGED, MERGED, DROPPED], "c1 is accounted for twice"),
        ([MERGED | {"fate": "dropped", "reason": "x"}, DROPPED], "c1 is called dropped, but a line names it"),
        ([MERGED, MERGED | {"candidate": "c2"}], "c2 is called merged, but no line names it"),
        ([MERGED, DROPPED | {"reason": " "}], "c2 is dropped without a reason"),
        ([MERGED, {"candidate": "c2", "fate": "duplicate"}], "c2 is duplicate by None"),
        ([MERGED, {"candidate": "c2", "fate": "duplicate", "by": "l99"}], "c2 is duplicate by 'l99'"),
        ([MERGED, {"candidate": "c2", "fate": "superseded", "by": "c2"}], "c2 is superseded by itself"),
        (
            [MERGED, {"candidate": "c2", "fate": "duplicate", "by": "l2"}],
            "c2 is duplicate by l2, which is removed",
        ),
    ],
)
def test_each_candidate_has_one_fate_that_agrees_with_the_edits(
    account: list[dict[str, Any]], complaint: str
) -> None:
    """A lesson that is in no account is lost, and one in two accounts is anybody's guess."""
    edit = update("s1", add=[new()], remove=[{"line": "l2", "reason": "outdated"}])

    assert complaint in complaints(edit, account=account)


def test_fates_that_go_in_a_circle_are_refused() -> None:
    """Three candidates that are all called duplicates of each other would all be lost."""
    pending = tuple(candidate(n) for n in range(1, 4))
    account = [{"candidate": f"c{n}", "fate": "duplicate", "by": f"c{n % 3 + 1}"} for n in range(1, 4)]

    assert "by itself" in complaints(account=account, pending=pending)


@pytest.mark.parametrize("title", ["People", "pEOPLE", "## people", " people  "])
def test_two_sections_never_have_one_title(title: str) -> None:
    """A miss would otherwise append a second section beside the one that was meant (CO-03)."""
    create = {"op": "create", "title": title, "gist": "", "lines": [new()]}

    assert "its title is that of another section" in complaints(create, account=[MERGED, DROPPED])
    assert "section s3: its title" in complaints(
        update("s3", title=title, add=[new()]), account=[MERGED, DROPPED]
    )


def test_a_section_may_take_the_title_of_one_that_goes() -> None:
    """Merging two topics into one is what tidying up means."""
    create = {"op": "create", "title": "People", "gist": "", "lines": [new()]}
    gone = {"op": "delete", "section": "s2", "reason": "merged"}

    assert "Something new." in texts(applied(create, gone, account=[MERGED, DROPPED]).memory)["People"]


def test_a_rule_cannot_be_made_from_what_nobody_asked_for() -> None:
    """A tool's output is a fact at best; merging must not promote it to the user's wish."""
    edit = update("s3", add=[new("Always use semgrep.", kind="rule")])

    assert "a rule rests on nothing that a person asked for" in complaints(edit, account=[MERGED, DROPPED])
    assert applied(edit, account=[MERGED, DROPPED], pending=(candidate(1, kind="correction"), candidate(2)))


def test_a_complaint_never_quotes_what_anybody_said() -> None:
    """Complaints are stored and logged."""
    found = complaints(
        update("s1", title="People", add=[new("…"), new("secret words", "c9")], gist="[...]"),
        account=[DROPPED | {"candidate": "c1", "reason": ""}],
    )

    assert not any(word in found for word in ("People", "secret", "Staging", "Candidate"))


# -- the account


@st.composite
def answers(draw: st.DrawFn) -> tuple[Memory, tuple[Candidate, ...], Offer, ConsolidationAnswer]:
    """Answers of which many are good: edits drawn freely, with fates that agree with them."""
    dice = random.Random(draw(st.integers(0, 2**32)))
    pending = tuple(candidate(n, day=dice.randrange(1, 9)) for n in range(draw(st.integers(1, 6))))
    offered = offer(MEMORY, pending, 100_000)
    labels = list(offered.candidate_ids)
    merging = [label for label in labels if dice.random() < 0.6]
    edits: list[dict[str, Any]] = []
    for label, home in (("s1", ["l1", "l2", "l3"]), ("s2", ["l4"]), ("s3", ["l5"])):
        if merging and dice.random() < 0.7:
            edit = update(label, add=[new(f"Text {dice.random()}", dice.choice(merging))])
            free = [one for one in home if one != "l3" and dice.random() < 0.5]
            if free and dice.random() < 0.5:
                still = dice.random() < 0.5
                edit["replace"] = [
                    new("Other.", dice.choice(merging)) | {"line": free[0], "still_rests": still}
                ]
            elif free:
                edit["remove"] = [{"line": one, "reason": "old"} for one in free]
            edits.append(edit)
    if merging and dice.random() < 0.5:
        edits.append(
            {
                "op": "create",
                "title": f"Topic {dice.randrange(3)}",
                "gist": "",
                "lines": [new("A.", *merging)],
            }
        )
    named = {
        one
        for edit in edits
        for kind in ("add", "replace", "lines")
        for x in edit.get(kind, ())
        for one in x["candidates"]
    }
    account = []
    for label in labels:
        fate = {"candidate": label, "fate": "merged"}
        if label not in named:
            fate |= {"fate": dice.choice(["dropped", "duplicate", "superseded"]), "reason": "so"}
            fate["by"] = dice.choice([*offered.lines, *labels])
        account.append(fate)
    return MEMORY, pending, offered, ConsolidationAnswer.model_validate({"edits": edits, "account": account})


@settings(max_examples=300, deadline=None)
@given(answers())
def test_the_account_makes_the_same_memory_again(
    case: tuple[Memory, tuple[Candidate, ...], Offer, ConsolidationAnswer],
) -> None:
    """The log of jobs alone can rebuild the memory, byte for byte, and every candidate is in it."""
    memory, pending, offered, answer = case
    try:
        result = apply(memory, pending, offered, answer)
    except EditRefused:
        return

    stored = json.loads(json.dumps(result.account.to_json()))
    again = replay(memory, Account.from_json(stored))

    assert again.model_dump_json() == result.memory.model_dump_json()
    assert list(result.account.fates()) == [one.id for one in offered.candidates]
    lines = [each for one in result.memory.sections for each in one.lines]
    assert len({each.id for each in lines}) == len(lines)
    known = {one.id for one in pending} | {
        id_ for one in memory.sections for each in one.lines for id_ in each.candidates
    }
    assert all(set(each.candidates) <= known and each.candidates for each in lines)


# -- withdrawing


def test_a_line_goes_with_any_candidate_it_rests_on_pinned_or_not() -> None:
    """Erasure outranks a pin, and what else the line rested on is merged again without the erased part."""
    mixed = line(6, "Ann and Bob agreed.").model_copy(update={"candidates": ("ann", "bob")})
    memory = Memory(
        sections=(
            section("Deploy", line(1, "Kept."), mixed, gist="Ann and Bob"),
            section("Pins", line(7, pinned=True)),
        )
    )

    after, freed = withdraw_lines(memory, ["ann", "old-7"])

    assert texts(after) == {"Deploy": ["Kept."]}
    assert freed == {"bob"}
    assert after.sections[0].gist == "Kept."


def test_withdrawing_what_nothing_rests_on_changes_nothing() -> None:
    """A late event for something that was never merged costs no revision."""
    after, freed = withdraw_lines(MEMORY, ["nobody"])

    assert after == MEMORY
    assert freed == frozenset()


def test_a_gist_says_nothing_but_what_the_lines_say() -> None:
    """It is made from the lines that are left: what must be obeyed, then the newest."""
    lines = [line(1, "Old."), line(2, "New."), line(0, "Obey.", kind="rule"), line(3, "x" * 400)]

    assert gist_of(lines[:3]) == "Obey.; New.; Old."
    assert gist_of(lines[:3][::-1]) == gist_of(lines[:3])
    assert len(gist_of(lines[3:])) == 300
    assert gist_of([]) == ""


# -- guards of what is known


def removing(line: str, by: str | None = None) -> dict[str, Any]:
    return {"line": line, "reason": "so", **({"by": by} if by else {})}


def test_a_removed_line_names_what_took_its_place() -> None:
    """Somebody who asks why the memory changed gets an answer, also across sections."""
    pending = (candidate(1, "P2 signs contracts.", topic="People"),)

    result = applied(
        update("s1", add=[new("P2 signs contracts.")]),
        update("s2", add=[new("Ann is the lawyer.")], remove=[removing("l4", "c1")]),
        account=[MERGED],
        pending=pending,
    )

    (retired,) = result.account.retired
    assert (retired.line.text, retired.section, retired.how) == ("P1 signs contracts.", "People", How.REMOVED)
    assert retired.candidates == ("new-1",)
    assert retired.by in {each.id for one in result.memory.sections for each in one.lines}


@pytest.mark.parametrize(
    ("by", "day", "complaint"),
    [
        ("c9", 100, "was not offered"),
        ("l4", 100, "for itself"),
        ("c1", 2, "which was said before it"),
        (None, 2, "say in `by` what"),
    ],
)
def test_a_line_is_not_removed_for_what_was_said_before_it(by: str | None, day: int, complaint: str) -> None:
    """Removing the newer fact and adding the older one would undo a correction by another way."""
    pending = (candidate(1, "P0 signs contracts.", day=day),)

    found = complaints(
        update("s2", add=[new("P0 signs contracts.")], remove=[removing("l4", by)]),
        account=[MERGED],
        pending=pending,
    )

    assert complaint in found


def test_hearing_a_fact_again_never_removes_it() -> None:
    """What is said twice is surer, not superfluous."""
    pending = (candidate(1, "P1 signs contracts."),)

    found = complaints(
        update("s2", remove=[removing("l4")]),
        account=[{"candidate": "c1", "fate": "dropped", "reason": "known"}],
        pending=pending,
    )

    assert "says the same again" in found


def test_one_candidate_does_not_take_the_place_of_many_lines() -> None:
    """Replacing everything by one sentence is deleting everything."""
    memory = Memory(sections=(section("Log", *(line(n, f"Fact {n}.") for n in range(1, 21))),))
    swallowed = [new("All of it.") | {"line": f"l{n}"} for n in range(1, 20)]

    found = complaints(update("s1", replace=swallowed), account=[MERGED], memory=memory, pending=PENDING[:1])

    assert "18 of 20 lines would be removed at once" in found


def test_a_young_memory_is_not_swept_away_for_one_new_line() -> None:
    """Five lines may go at once, and of five lines that is everything."""
    memory = Memory(sections=(section("Deploy", *(line(n) for n in range(1, 5))),))
    create = {"op": "create", "title": "New", "gist": "", "lines": [new()]}
    more: dict[str, Any] = {"account": [MERGED], "memory": memory, "pending": PENDING[:1]}

    found = complaints(create, {"op": "delete", "section": "s1", "reason": "outdated"}, **more)
    by = [removing(f"l{n}", "c1") for n in range(1, 5)]
    merged_into_one = applied(create, update("s1", remove=by), **more)
    most = applied(create, update("s1", remove=[removing(f"l{n}") for n in range(1, 4)]), **more)

    assert "all 4 lines would go, and 4 with nothing in their place" in found
    assert texts(merged_into_one.memory) == {"New": ["Something new."]}
    assert texts(most.memory)["Deploy"] == ["Line number 4."]


def test_rewording_keeps_most_of_what_a_line_says() -> None:
    """A line that still rests on what it said must go on saying it."""
    memory = Memory(
        sections=(section("Deploy", line(1, "Deploys to production need two approvals and a ticket.")),)
    )

    found = complaints(
        update("s1", replace=[new("Deploys.") | {"line": "l1", "still_rests": True}]),
        account=[MERGED],
        memory=memory,
        pending=PENDING[:1],
    )

    assert "most of that would be lost" in found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "Staging uses port 9443 on host alpha.",
            "Staging uses a port of its own on host alpha, behind a VPN.",
        ),
        ("Since 2026-03-01 quotes go to Ann.", "For some time now quotes have gone to Ann, by mail."),
        ("Builds run ~/bin/make.sh on alpha.", "Builds run a script in a folder on alpha, by hand."),
        (
            "The retry is set by MAX_TRIES in the code.",
            "The retry is set by a constant in the code, with care.",
        ),
    ],
)
def test_rewording_wears_no_number_and_no_name_away(before: str, after: str) -> None:
    """Each rewording is a little vaguer than the last, and what made the line worth keeping is gone."""
    memory = Memory(sections=(section("Deploy", line(1, before)),))
    exact = after + before
    more: dict[str, Any] = {
        "account": [MERGED],
        "memory": memory,
        "pending": (candidate(1, "It is so, by the way."),),
    }

    found = complaints(update("s1", replace=[new(after) | {"line": "l1", "still_rests": True}]), **more)
    kept = applied(update("s1", replace=[new(exact) | {"line": "l1", "still_rests": True}]), **more)

    assert "a number or a name of it is lost" in found
    assert texts(kept.memory) == {"Deploy": [exact]}


def test_a_number_may_be_written_otherwise_or_give_way_to_a_new_one() -> None:
    """Part of a line can be outdated while the rest stands."""
    memory = Memory(sections=(section("Deploy", line(1, "3 workers serve 12,000 rooms.")),))
    changed = new("5 workers serve 12000 rooms.") | {"line": "l1", "still_rests": True}

    after = applied(
        update("s1", replace=[changed]),
        account=[MERGED],
        memory=memory,
        pending=(candidate(1, "Now it is 5."),),
    ).memory

    assert after.sections[0].lines[0].candidates == ("new-1", "old-1")


def test_a_gist_gives_no_number_that_its_lines_do_not_give() -> None:
    """A conversation begins with the gist: there the old port would outlive its correction."""
    changed = [new("Staging uses port 9500.") | {"line": "l1"}]
    more: dict[str, Any] = {"account": [MERGED], "pending": (candidate(1, "Staging uses port 9500."),)}

    stale = applied(update("s1", gist="Staging: port 9443.", replace=changed), **more).memory
    true = applied(update("s1", gist="Staging: port 9500.", replace=changed), **more).memory
    made = {"op": "create", "title": "New", "gist": "Since 2019.", "lines": [new("Staging uses port 9500.")]}

    assert stale.sections[0].gist.startswith("Staging uses port 9500.")
    assert true.sections[0].gist == "Staging: port 9500."
    assert applied(made, **more).memory.sections[1].gist == "Staging uses port 9500."


def test_a_section_says_nothing_twice() -> None:
    """A new line that repeats one makes that one surer; elsewhere the words may be about something else."""
    pending = tuple(candidate(n) for n in range(1, 6))
    changed = new("Production has two pods.", "c2") | {"line": "l2"}
    edit = update(
        "s1",
        add=[
            new("staging uses port 9443", "c1"),
            new("Production has two pods", "c3"),
            new("Fresh.", "c4"),
            new("Fresh", "c5"),
        ],
        replace=[changed],
    )
    twin = {"op": "create", "title": "Other", "gist": "", "lines": [new("Staging uses port 9443.")]}
    account = [MERGED | {"candidate": f"c{n}"} for n in range(1, 6)]

    result = applied(edit, twin, account=account, pending=pending)

    resting = {each.text: each.candidates for each in result.memory.sections[0].lines}
    assert resting == {
        "Line number 3.": ("old-3",),
        "Staging uses port 9443.": ("new-1", "old-1"),
        "Production has two pods.": ("new-2", "new-3"),
        "Fresh.": ("new-4", "new-5"),
    }
    assert texts(result.memory)["Other"] == ["Staging uses port 9443."]
    assert replay(MEMORY, result.account) == result.memory
    assert {
        one.state for id_, one in became(MEMORY, result.memory, result.account).items() if "new" in id_
    } == {"merged"}


def test_a_line_does_not_become_what_another_says() -> None:
    """The fact would stand there twice from then on."""
    edit = update("s1", replace=[new("Staging uses port 9443") | {"line": "l2"}])

    assert "line l2 would say what another line" in complaints(edit, account=[MERGED, DROPPED])


@pytest.mark.parametrize(
    ("edit", "account", "complaint"),
    [
        (update("s2", remove=[removing("l4", "c2")]), [DROPPED], "l4 is removed for c2, which is dropped"),
        (
            update("s1", remove=[removing("l1", "l2"), removing("l2")]),
            [DROPPED],
            "l1 is removed for l2, which is removed too",
        ),
        (
            None,
            [DROPPED, {"candidate": "c1", "fate": "duplicate", "by": "c2"}],
            "c1 is duplicate by c2, which is",
        ),
    ],
)
def test_what_takes_the_place_of_something_is_there_afterwards(
    edit: dict[str, Any] | None, account: list[dict[str, Any]], complaint: str
) -> None:
    """The old fact was removed as contradicted, the new one dropped as negative, and nothing was known any more."""
    named = {one["candidate"] for one in account}
    rest = [{"candidate": one, "fate": "dropped", "reason": "so"} for one in ("c1", "c2") if one not in named]

    assert complaint in complaints(*([edit] if edit else []), account=[*account, *rest])


def test_lines_do_not_take_the_place_of_each_other() -> None:
    """Two lines that say the same: one stays."""
    memory = Memory(sections=(section("Deploy", line(1, day=1), line(2, day=1), line(3)),))
    edit = update("s1", remove=[removing("l1", "l2"), removing("l2", "l1")])
    account = [DROPPED, DROPPED | {"candidate": "c1"}]

    assert "l1 is removed for l2, which is removed too" in complaints(edit, account=account, memory=memory)
    chain = update("s1", remove=[removing("l1", "l2"), removing("l2", "l3")])
    assert texts(applied(chain, account=account, memory=memory).memory) == {"Deploy": ["Line number 3."]}


@pytest.mark.parametrize("where", ["text", "title", "gist"])
def test_no_secret_gets_into_the_memory(where: str) -> None:
    """A memory is shown to models and people for years."""
    secret = "AKIA" + "IOSFODNN7EXAMPL2"
    words = {"text": "New fact.", "title": "New", "gist": "About it"} | {where: f"The key is {secret}"}
    edit = {"op": "create", "title": words["title"], "gist": words["gist"], "lines": [new(words["text"])]}

    found = complaints(edit, account=[MERGED], pending=PENDING[:1])

    assert "holds a secret" in found
    assert secret not in found


def test_what_a_model_puts_where_a_label_belongs_is_not_quoted() -> None:
    """Complaints are stored and logged, and a label is whatever the model wrote."""
    found = complaints(update("s1", add=[new("Fine.", "Ann is pregnant")]), account=[DROPPED, MERGED])

    assert "something that is no label" in found
    assert "Ann" not in found


def test_a_line_that_says_something_else_is_retired_with_the_candidates_that_say_so() -> None:
    """Line and section stay, and the old words are kept with the link."""
    result = applied(
        update("s1", replace=[new("Staging uses port 9444.") | {"line": "l1"}]), account=[MERGED, DROPPED]
    )

    (retired,) = result.account.retired
    assert retired.line == MEMORY.sections[0].lines[0]
    assert (retired.how, retired.by, retired.candidates) == (How.REPLACED, "l:1", ("new-1",))


def test_candidates_know_what_became_of_them() -> None:
    """One that gave way says to whom, so that it can come back when that is erased."""
    result = applied(
        update(
            "s1",
            replace=[new("Staging uses port 9444.") | {"line": "l1"}],
            remove=[removing("l2")],
        ),
        account=[MERGED, DROPPED],
    )

    found = became(MEMORY, result.memory, result.account)

    assert found["old-1"] == Became("superseded", "", ("new-1",))
    assert found["old-2"] == Became("dropped", "so")
    assert found["new-1"].state == "merged"
    assert found["new-2"].state == "dropped"
    assert "old-4" not in found
