"""How the offline model merges candidates into the memory."""

from __future__ import annotations

import itertools

import pytest

from takeaways.schemas.memories import Lesson
from takeaways.workers.models.answers import ConsolidationAnswer, CreateSection, Fate, UpdateSection
from takeaways.workers.models.offline import OfflineModel
from takeaways.workers.models.requests import (
    ConsolidationRequest,
    OfferedCandidate,
    OfferedLine,
    OfferedSection,
)
from takeaways.workers.models.seam import Call

DAY = 86_400_000


def candidate(
    label: str, text: str, day: int, kind: Lesson = Lesson.FACT, topic: str = "Deploys and servers"
) -> OfferedCandidate:
    return OfferedCandidate(label, kind, topic, text, day * DAY)


def memory(*lines: OfferedLine, title: str = "Deploys and servers") -> tuple[OfferedSection, ...]:
    return (OfferedSection("s1", title, "", lines),)


def merge(sections: tuple[OfferedSection, ...], *candidates: OfferedCandidate) -> ConsolidationAnswer:
    return OfflineModel().consolidate(ConsolidationRequest(sections, candidates), Call()).answer


def fates(answer: ConsolidationAnswer) -> dict[str, tuple[Fate, str | None]]:
    return {account.candidate: (account.fate, account.by) for account in answer.account}


def lines(answer: ConsolidationAnswer) -> list[str]:
    found = []
    for edit in answer.edits:
        if isinstance(edit, CreateSection):
            found += [line.text for line in edit.lines]
        elif isinstance(edit, UpdateSection):
            found += [line.text for line in (*edit.add, *edit.replace)]
    return found


OLD = "The registry is reg-old.example.test"
NEW = "We moved: the registry is now reg-new.example.test"


def test_new_topics_become_sections_with_a_gist() -> None:
    """An empty memory is organised from the first lesson on."""
    answer = merge(
        (),
        candidate("c1", "Quotes over $40k need sign-off", 1, Lesson.RULE, "Quotes and prices"),
        candidate("c2", "Staging listens on port 9443", 1),
    )

    created = [edit for edit in answer.edits if isinstance(edit, CreateSection)]
    assert [section.title for section in created] == ["Quotes and prices", "Deploys and servers"]
    assert created[0].gist == "Quotes over $40k need sign-off"
    assert fates(answer) == {"c1": (Fate.MERGED, None), "c2": (Fate.MERGED, None)}


def test_a_new_lesson_goes_into_the_section_of_its_topic() -> None:
    """The same topic from another room does not make a second section."""
    held = memory(
        OfferedLine("l1", Lesson.FACT, "Backups go to bucket north-1", DAY), title="deploys and Servers"
    )

    answer = merge(held, candidate("c1", "Staging listens on port 9443", 2))

    (edit,) = answer.edits
    assert isinstance(edit, UpdateSection)
    assert edit.section == "s1"
    assert [line.text for line in edit.add] == ["Staging listens on port 9443"]
    assert not edit.replace
    assert not edit.remove


def test_a_restatement_strengthens_the_line_and_changes_nothing_else() -> None:
    """Hearing it again is a reason to trust a line, not to have two."""
    held = memory(OfferedLine("l1", Lesson.RULE, "Never deploy on a Friday", DAY))

    answer = merge(held, candidate("c1", "Please never deploy on Fridays", 2, Lesson.RULE))

    assert fates(answer) == {"c1": (Fate.DUPLICATE, "l1")}
    assert answer.edits == ()


@pytest.mark.parametrize("order", list(itertools.permutations(("c1", "c2"))))
def test_what_was_said_later_holds_whatever_is_processed_first(order: tuple[str, str]) -> None:
    """A late import of an old conversation must not bring the old registry back."""
    offered = {"c1": candidate("c1", OLD, 1), "c2": candidate("c2", NEW, 500)}

    answer = merge((), *(offered[label] for label in order))

    assert lines(answer) == [NEW]
    assert fates(answer) == {"c1": (Fate.SUPERSEDED, "c2"), "c2": (Fate.MERGED, None)}


def test_something_said_earlier_never_replaces_a_line() -> None:
    """Not even when it is processed later."""
    held = memory(OfferedLine("l1", Lesson.FACT, NEW, 500 * DAY))

    answer = merge(held, candidate("c1", OLD, 1))

    assert fates(answer) == {"c1": (Fate.SUPERSEDED, "l1")}
    assert answer.edits == ()


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (OLD, NEW, Lesson.FACT),
        ("Send release notes on Fridays", "Send release notes on Thursdays, not Fridays", Lesson.RULE),
        ("Keep retries at 5 everywhere", "Keep retries at 3 everywhere", Lesson.RULE),
        ("Always deploy on Friday", "Never deploy on Friday", Lesson.RULE),
        ("I prefer tea to coffee", "I prefer coffee to tea", Lesson.PREFERENCE),
        ("Staging uses port 8443", "Staging uses port 9443", Lesson.FACT),
    ],
)
def test_a_contradiction_replaces_the_line(old: str, new: str, kind: Lesson) -> None:
    """A memory that says both would be right at no time."""
    answer = merge(memory(OfferedLine("l1", kind, old, DAY)), candidate("c1", new, 2, kind))

    (edit,) = answer.edits
    assert isinstance(edit, UpdateSection)
    assert [(line.line, line.text, line.still_rests) for line in edit.replace] == [("l1", new, False)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("I ran 5 km on 2024-05-01", "I ran 10 km on 2024-06-01"),
        ("The report is in German", "The report is for the board"),
        ("My dog is called Rex", "My cat is called Tom"),
        ("Staging uses port 9443", "Production uses port 8443"),
    ],
)
def test_two_facts_that_can_both_be_true_are_both_kept(old: str, new: str) -> None:
    """A fact that was thrown away is lost."""
    answer = merge(memory(OfferedLine("l1", Lesson.FACT, old, DAY)), candidate("c1", new, 2))

    assert fates(answer) == {"c1": (Fate.MERGED, None)}
    assert lines(answer) == [new]


def test_what_one_person_says_does_not_contradict_another() -> None:
    """Two people may like different things."""
    answer = merge(
        (),
        candidate("c1", "I like cilantro in every soup", 1, Lesson.PREFERENCE, "Dana: food"),
        candidate("c2", "I don't like cilantro in every soup", 2, Lesson.PREFERENCE, "Lee: food"),
    )

    assert len(lines(answer)) == 2


def test_a_pinned_line_is_left_alone() -> None:
    """What a person pinned only a person takes away."""
    held = memory(OfferedLine("l1", Lesson.FACT, OLD, DAY, pinned=True))

    answer = merge(held, candidate("c1", NEW, 500))

    assert fates(answer) == {"c1": (Fate.MERGED, None)}
    assert not any(edit.replace or edit.remove for edit in answer.edits if isinstance(edit, UpdateSection))


def test_every_candidate_is_accounted_for_once() -> None:
    """A lesson that vanishes without a word could never be explained."""
    offered = [
        candidate(f"c{n}", f"Server {n % 9} runs on port {9000 + n % 5}", 1 + n % 13, topic=f"Topic {n % 4}")
        for n in range(120)
    ]

    answer = merge((), *offered)

    assert sorted(account.candidate for account in answer.account) == sorted(c.label for c in offered)
    created = [edit for edit in answer.edits if isinstance(edit, CreateSection)]
    named = [label for edit in created for line in edit.lines for label in line.candidates]
    assert sorted(named) == sorted(label for label, (fate, _) in fates(answer).items() if fate is Fate.MERGED)


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("Server A runs on 10.0.0.1.", "Server B runs on 10.0.0.2.", Lesson.FACT),
        ("Server A restarts nightly.", "Server B restarts nightly.", Lesson.FACT),
        ("Always back up db1 before upgrades.", "Always back up db2 before upgrades.", Lesson.RULE),
        ("We close ticket 41 as duplicate.", "We close ticket 42 as duplicate.", Lesson.DECISION),
        ("Refunds up to $50 need no approval.", "Refunds over $500 need two approvals.", Lesson.RULE),
        (
            "The quarterly report for the Berlin office goes to Dana before Friday noon.",
            "The quarterly report for the Munich office goes to Dana before Friday noon.",
            Lesson.FACT,
        ),
        (
            "Every deploy of the payment service needs a ticket and two approvals.",
            "Every deploy of the payment service needs a ticket and two approvals by seniors.",
            Lesson.RULE,
        ),
    ],
)
def test_what_is_said_of_another_thing_of_the_kind_takes_nothing_away(
    first: str, second: str, kind: Lesson
) -> None:
    """Sentences of one pattern are about different things, and none of them may be lost."""
    together = merge((), candidate("c1", first, 1, kind), candidate("c2", second, 2, kind))
    after = merge(memory(OfferedLine("l1", kind, first, DAY)), candidate("c1", second, 2, kind))

    assert lines(together) == [first, second]
    assert lines(after) == [second]
    (edit,) = after.edits
    assert isinstance(edit, UpdateSection)
    assert edit.replace == ()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Staging uses port 9443.", "Staging uses port 9444 now."),
        ("Quotes over $40k need sign-off.", "Quotes over $50k need sign-off."),
        ("Builds run on host1.", "Builds run on host2 now."),
        ("Use node v18 for builds.", "Use node v20 for builds."),
    ],
)
def test_a_new_value_of_the_same_thing_takes_the_place_of_the_old(first: str, second: str) -> None:
    """Values change: ports, limits, versions, and what is said to be another one now."""
    answer = merge((), candidate("c1", first, 1, Lesson.RULE), candidate("c2", second, 2, Lesson.RULE))

    assert lines(answer) == [second]
