"""What is dropped when the memory takes more than its share."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from takeaways.recall.markdown import memory_md
from takeaways.schemas.memories import Lesson, Line, Memory, Section
from takeaways.workers.consolidation.fit import fit

DAY = 86_400_000
NOW = 1_000 * DAY


def count(text: str) -> int:
    return math.ceil(len(text) / 4)


def size(memory: Memory) -> int:
    return count(memory_md(memory))


def line(
    name: str,
    text: str,
    *,
    kind: Lesson = Lesson.FACT,
    day: int = 900,
    pinned: bool = False,
    candidates: tuple[str, ...] = ("c",),
) -> Line:
    return Line(id=name, kind=kind, text=text, said_at_ms=day * DAY, pinned=pinned, candidates=candidates)


def section(title: str, *lines: Line, gist: str = "") -> Section:
    return Section(id=f"s-{title}", title=title, gist=gist, lines=lines)


def kept(memory: Memory) -> list[str]:
    return [each.id for part in memory.sections for each in part.lines]


def squeezed(memory: Memory, lines: int) -> list[str]:
    """What is left at the largest budget that leaves at most `lines`."""
    low, high = 1, count(memory_md(memory))
    while low < high:
        middle = (low + high + 1) // 2
        if len(kept(fit(memory, middle, size, NOW).memory)) <= lines:
            low = middle
        else:
            high = middle - 1
    return kept(fit(memory, low, size, NOW).memory)


def test_a_memory_within_its_share_is_returned_as_it_is() -> None:
    """An untouched section stays byte for byte."""
    memory = Memory(sections=(section("Deploys", line("l1", "Staging listens on port 9443")),))

    fitted = fit(memory, 1_000, size, NOW)

    assert fitted.memory is memory
    assert fitted.dropped == ()


def test_what_says_little_goes_before_what_says_much() -> None:
    """Generic sentences cost as many tokens as telling ones."""
    memory = Memory(
        sections=(
            section(
                "Notes",
                line("vague", "It was really good to see how everything came together for everyone"),
                line("telling", "The Rotterdam warehouse ships pallets through the Moerdijk terminal"),
            ),
        )
    )

    assert squeezed(memory, 1) == ["telling"]


def test_what_was_said_long_ago_goes_before_what_was_said_lately() -> None:
    """The newest entries are the ones people miss first."""
    memory = Memory(
        sections=(
            section(
                "Log",
                *(line(f"l{n:03}", f"Entry {n:03} of moderate length", day=n) for n in range(1, 400)),
            ),
        )
    )

    left = squeezed(memory, 20)

    assert "l399" in left
    assert "l001" not in left


def test_what_rests_on_more_stays_longer() -> None:
    """What came up again and again is worth more than what came up once."""
    memory = Memory(
        sections=(
            section(
                "Notes",
                line("once", "The Tromsø printer jams on Tuesdays"),
                line("often", "The Bergen scanner jams on Thursdays", candidates=tuple("abcdefgh")),
            ),
        )
    )

    assert squeezed(memory, 1) == ["often"]


def test_what_was_recalled_more_often_stays_longer() -> None:
    """Of two lines that are worth the same, the one that conversations began with is the one to keep."""
    memory = Memory(
        sections=(
            section(
                "Notes",
                line("never", "The Tromsø printer jams on Tuesdays"),
                line("shown", "The Bergen scanner jams on Thursdays"),
            ),
        )
    )
    room = size(memory) - 1

    for shown in ("never", "shown"):
        assert kept(fit(memory, room, size, NOW, {shown: 20}).memory) == [shown]


def test_rules_and_corrections_go_after_everything_else() -> None:
    """A forgotten rule does harm; a forgotten fact is asked for again."""
    memory = Memory(
        sections=(
            section("A", line("fact", "The Rotterdam warehouse ships through the Moerdijk terminal")),
            section("B", line("rule", "Never do it", kind=Lesson.RULE, day=1)),
        )
    )

    assert squeezed(memory, 1) == ["rule"]


def test_pinned_lines_stay_whatever_the_budget() -> None:
    """What a person pinned only a person takes away."""
    memory = Memory(
        sections=(
            section("A", line("pin", "Say hello", pinned=True), line("fact", "Moerdijk ships pallets")),
        )
    )

    fitted = fit(memory, 1, size, NOW)

    assert kept(fitted.memory) == ["pin"]
    assert [dropped.line_id for dropped in fitted.dropped] == ["fact"]


def test_each_dropped_line_is_named_with_the_reason() -> None:
    """People who miss a line can find out where it went."""
    memory = Memory(sections=(section("A", *(line(f"l{n}", f"Moerdijk crane {n}") for n in range(30))),))

    fitted = fit(memory, 60, size, NOW)

    dropped = [each.line_id for each in fitted.dropped]
    dropped = [each.line_id for each in fitted.dropped]
    assert sorted(kept(fitted.memory) + dropped) == sorted(kept(memory))
    assert all("60 tokens" in reason for reason in fitted.reasons().values())
    assert set(fitted.reasons()) == {*dropped, "s-A"}


def test_a_gist_that_names_what_was_dropped_goes_with_it() -> None:
    """The index must not promise what the memory does not hold any more."""
    memory = Memory(
        sections=(
            section(
                "A",
                line("l1", "The Moerdijk terminal closes at noon on Saturdays", candidates=tuple("abcd")),
                line("l2", "Thing"),
                gist="Moerdijk, thing",
            ),
        )
    )

    fitted = fit(memory, count(memory_md(memory)) - 1, size, NOW)

    assert kept(fitted.memory) == ["l1"]
    assert fitted.memory.sections[0].gist == ""


WORDS = st.sampled_from(
    ["Moerdijk", "pallet", "crane", "good", "thing", "9443", "harbour", "winter", "never", "you", "my"]
)
LINES = st.builds(
    lambda words, kind, day, pinned: (" ".join(words), kind, day, pinned),
    st.lists(WORDS, min_size=1, max_size=12),
    st.sampled_from(Lesson),
    st.integers(0, 999),
    st.booleans(),
)


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    sections = draw(st.lists(st.lists(LINES, min_size=1, max_size=8), max_size=4))
    return Memory(
        sections=tuple(
            section(
                f"T{at}",
                *(
                    line(f"l{at}-{n}", text, kind=kind, day=day, pinned=pinned)
                    for n, (text, kind, day, pinned) in enumerate(lines)
                ),
            )
            for at, lines in enumerate(sections)
        )
    )


@settings(max_examples=60, deadline=None)
@given(memories(), st.integers(1, 400), st.integers(0, 200))
def test_a_fitted_memory_fits_stays_fitted_and_is_part_of_a_larger_one(
    memory: Memory, budget: int, more: int
) -> None:
    """Fitting twice changes nothing, and more room never costs a line."""
    fitted = fit(memory, budget, size, NOW).memory

    pinned = {each.id for part in memory.sections for each in part.lines if each.pinned}
    assert count(memory_md(fitted)) <= budget or set(kept(fitted)) == pinned
    assert pinned <= set(kept(fitted))
    assert fit(fitted, budget, size, NOW).memory == fitted
    assert set(kept(fitted)) <= set(kept(fit(memory, budget + more, size, NOW).memory))
