"""The memory as Markdown: complete in MEMORY.md, bounded in the summary."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from takeaways.recall.markdown import memory_md, session_summary_md, summary_md
from takeaways.recall.tokens import count
from takeaways.schemas.memories import EMPTY, Lesson, Line, Memory, SessionSummary
from tests.memories import NOON_MS, line, memory, section

DAY_MS = 86_400_000

SMALL = memory(
    section(
        "Quotes",
        line("Quotes over $40k need sign-off.", Lesson.RULE),
        line("Quotes go out as PDF.", Lesson.PROCEDURE),
        gist="How quotes are made.",
    ),
    section("Staging", "Staging uses port 9443."),
)

_texts = st.text(min_size=1, max_size=40).filter(lambda text: bool(text.strip()))
_lines = st.builds(
    lambda text, kind, at, pinned: line(text, kind, said_at_ms=at, pinned=pinned),
    _texts,
    st.sampled_from(Lesson),
    st.integers(0, 10**12),
    st.booleans(),
)
memories = st.lists(
    st.builds(
        lambda title, gist, lines: section(title, *lines, gist=gist),
        _texts,
        st.text(max_size=30),
        st.lists(_lines, min_size=1, max_size=6),
    ),
    max_size=6,
).map(lambda sections: Memory(sections=tuple(sections)))


def test_memory_md_is_topics_with_a_gist_and_items() -> None:
    """MEMORY.md can be read by a person and searched by a model."""
    assert memory_md(SMALL) == (
        "# Memory\n\n"
        "## Quotes\n\nHow quotes are made.\n\n- Quotes over $40k need sign-off.\n- Quotes go out as PDF.\n\n"
        "## Staging\n\n- Staging uses port 9443.\n"
    )
    assert memory_md(EMPTY) == "# Memory\n"


def test_the_summary_has_rules_first_and_all_there_is_when_it_fits() -> None:
    """A small memory is recalled whole."""
    assert summary_md(SMALL) == (
        "# Summary\n\n"
        "## Rules and corrections, to be followed\n- Quotes over $40k need sign-off.\n\n"
        "## Quotes\nHow quotes are made.\n- Quotes go out as PDF.\n\n"
        "## Staging\n- Staging uses port 9443.\n"
    )


def test_a_summary_over_its_cap_keeps_the_newest_and_says_what_is_missing() -> None:
    """What was learned last is not what is cut, and never without a word (CO-14)."""
    old = [line(f"old entry {number} of moderate length", said_at_ms=NOON_MS) for number in range(400)]
    newest = line("NEWEST: after a compaction re-read plan.md first.", said_at_ms=NOON_MS)
    log = memory(section("Log", *old, newest))

    text = summary_md(log, budget_tokens=6_000, count=len)

    assert len(text) <= 6_000
    assert "NEWEST" in text
    shown = text.count("old entry")
    assert 100 < shown < 400
    assert f"Left out here for want of room: {400 - shown} lines. Your whole memory has them." in text


def test_rules_and_pins_come_before_everything_that_is_newer() -> None:
    """An old sign-off rule outlives a thousand newer facts."""
    facts = [line(f"fact number {number:04}", said_at_ms=NOON_MS + number * DAY_MS) for number in range(1000)]
    rule = line("Never deploy on Fridays.", Lesson.RULE, said_at_ms=1)
    pin = line("The owner is in Lisbon.", said_at_ms=2, pinned=True)
    busy = memory(section("Facts", *facts), section("Deploys", rule), section("People", pin))

    text = summary_md(busy, budget_tokens=300)

    assert text.index("Never deploy on Fridays.") < text.index("## Facts")
    assert "The owner is in Lisbon." in text
    assert "- fact number 0999\n" in text
    assert "- fact number 0000\n" not in text


def test_what_says_more_stands_in_the_note_before_what_was_said_a_little_later() -> None:
    """An agent is told its thousandth small talk only after what it can use."""
    verbs = ("talk", "come", "look", "start", "work", "think", "help", "feel", "try", "make")
    talk = [
        line(f"It was good to {one} and to {other} again.", said_at_ms=NOON_MS)
        for one in verbs
        for other in verbs
    ]
    useful = line(
        "Invoices over 40,000 dollars need a sign-off by Dana Whitfield.", said_at_ms=NOON_MS - DAY_MS
    )
    busy = memory(section("Talk", *talk[:50], useful, *talk[50:]))

    assert "Dana Whitfield" in summary_md(busy, budget_tokens=160)


def test_one_more_lesson_is_a_small_difference() -> None:
    """The summary keeps its order, so that a person can see what changed."""
    more = Memory(
        sections=(*SMALL.sections[:1], section("Staging", "Staging uses port 9443.", "It restarts at 3."))
    )

    before, after = summary_md(SMALL).splitlines(), summary_md(more).splitlines()

    assert [text for text in after if text not in before] == ["- It restarts at 3."]
    assert [text for text in before if text not in after] == []


def test_what_a_gist_or_rule_says_is_not_said_again() -> None:
    """No token of the note is spent twice on the same words."""
    twice = memory(
        section("One", line("Answer in French.", Lesson.CORRECTION), "Port 9443.", gist="Port 9443."),
        section("Two", line("Answer in French.", Lesson.CORRECTION), "Port 9443."),
    )

    text = summary_md(twice)

    assert text.count("Answer in French.") == 1
    assert text.count("Port 9443.") == 1


@settings(deadline=None)
@given(memories, st.integers(60, 400))
def test_the_summary_is_bounded_and_the_same_each_time(content: Memory, budget: int) -> None:
    """A note never costs more than its budget, and equal memories give equal bytes."""
    text = summary_md(content, budget_tokens=budget)

    assert count(text) <= budget
    assert text == summary_md(Memory.model_validate_json(content.model_dump_json()), budget_tokens=budget)


@settings(deadline=None)
@given(memories)
def test_every_line_of_a_memory_is_one_item_of_its_topic(content: Memory) -> None:
    """Whatever the texts hold, MEMORY.md has exactly the headings and items of the memory."""
    tokens = MarkdownIt("commonmark").parse(memory_md(content))

    assert sum(token.type == "heading_open" for token in tokens) == 1 + len(content.sections)
    assert sum(token.type == "list_item_open" for token in tokens) == sum(
        len(one.lines) for one in content.sections
    )
    assert {token.type for token in tokens} <= {
        f"{block}_{end}"
        for block in ("heading", "paragraph", "bullet_list", "list_item")
        for end in ("open", "close")
    } | {"inline"}


def test_a_session_summary_names_its_room_and_when_it_was_active() -> None:
    """An agent can tell which room it is reading about, and whether it is stale."""
    summary = SessionSummary(
        room_id="r#1", title="Quote # 7", text="We agreed.\n# Not a title", last_activity_ms=NOON_MS
    )

    assert session_summary_md(summary) == (
        "# Quote # 7\n\nRoom r#1, last active 2026-03-01 12:00 UTC.\n\nWe agreed.\n\n\\# Not a title\n"
    )


def test_a_room_without_a_title_is_called_by_its_id() -> None:
    """Titles are for display and may be missing."""
    assert session_summary_md(SessionSummary(room_id="r1", text="x", last_activity_ms=0)).startswith(
        "# Room r1\n"
    )


def test_a_line_longer_than_the_budget_does_not_hide_the_shorter_ones() -> None:
    """One long lesson cannot push out everything else."""
    long = Line(id="long", kind=Lesson.RULE, text="word " * 390, said_at_ms=NOON_MS + 1)
    text = summary_md(memory(section("T", long, line("Short rule.", Lesson.RULE))), budget_tokens=120)

    assert "Short rule." in text
    assert "1 rule." in text


def test_a_gist_that_only_repeats_lines_is_not_shown_beside_them() -> None:
    """Every sentence that stands there twice costs the reader, and a budget, twice."""
    long = "The contact import failed because a batch may hold at most 500 rows, so it runs in batches"
    one = section("Import", long, gist=f"{long[:60]}…")
    two = section(
        "Quotes",
        line("Quotes go out as PDF", Lesson.RULE),
        line("Prices are per seat", Lesson.RULE),
        gist="Quotes go out as PDF; Prices are per seat",
    )
    three = section("Staging", "Staging is at 9443", gist="ports and hosts")
    made = memory(one, two, three)

    for shown in (memory_md(made), summary_md(made)):
        for text in (
            long[:60],
            "Quotes go out as PDF",
            "Prices are per seat",
            "Staging is at 9443",
            "ports and hosts",
        ):
            assert shown.count(text) == 1, (text, shown)


def test_a_line_that_stands_for_its_gist_is_shown_where_the_gist_would_be() -> None:
    """In a memory too large for the note a topic of one line says that line, not only its title."""
    only = section("Import", "A batch may hold at most 500 rows", gist="A batch may hold at most 500 rows")
    others = [
        section(f"Topic {n}", *(f"Line {n} {m} of words and words" for m in range(20))) for n in range(9)
    ]

    shown = summary_md(memory(only, *others), budget_tokens=260)

    assert "- A batch may hold at most 500 rows\n" in shown
