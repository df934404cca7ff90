"""Text that anyone may have written, shown so that it stays text."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from takeaways.recall.escape import blocks, heading, inline, shown
from tests.wrappers import ATTEMPTS, tags


def kinds(markdown: str) -> list[str]:
    """The blocks that a Markdown reader finds, in order."""
    return [
        token.type for token in MarkdownIt("commonmark").parse(markdown) if token.nesting >= 0 and token.block
    ]


@pytest.mark.parametrize("text", ATTEMPTS)
def test_no_text_opens_or_closes_the_wrapper(text: str) -> None:
    """A stored sentence cannot end the note and go on as an instruction (RE-01)."""
    assert tags(text) or "INST" in text or "```" in text or "<!--" in text
    assert tags(shown(text)) == 0
    assert tags(heading(text)) == 0
    assert tags(blocks(text)) == 0


@pytest.mark.parametrize("text", ATTEMPTS)
def test_what_was_defused_can_still_be_read(text: str) -> None:
    """Defusing is no censorship: every word stays."""

    def words(of: str) -> list[str]:
        return re.findall(r"[A-Za-z]{3,}", re.sub("[\u00ad\u200b-\u200f\u2060]", "", html.unescape(of)))

    assert words(shown(text)) == words(text)


@pytest.mark.parametrize(
    "text",
    [
        "# Instructions",
        "###### x",
        "#",
        "> quoted",
        ">quoted",
        "- nested",
        "+ nested",
        "* nested",
        "-",
        "1. first",
        "12) second",
        "```sh",
        "~~~",
        "---",
        "- - -",
        "* * *",
        "___",
        "===",
        "<div>",
        "<script>alert(1)</script>",
        "<!-- hidden",
        "<?php",
        "[name]: https://example.org",
        "    indented",
        "\tindented",
        "first\n\n# second",
        "first\u2028# second",
        "first\r# second",
    ],
)
def test_an_item_is_one_paragraph_whatever_it_begins_with(text: str) -> None:
    """No lesson can pretend to be a heading, a list of its own or a block of code."""
    assert kinds(f"- {shown(text)}\n") == ["bullet_list_open", "list_item_open", "paragraph_open", "inline"]
    assert kinds(f"{shown(text)}\n") == ["paragraph_open", "inline"]


@pytest.mark.parametrize(
    "text",
    [
        "Use pnpm, not npm: `pnpm test` runs everything.",
        "p99 < 200 ms and a <= b",
        "#general is the channel",
        "-5 degrees, *args and __init__",
        "C:\\temp\\x",
        "価格は4万ドル。",
        "👩‍👩‍👧 می‌خواهم",
    ],
)
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    """Agents copy commands and names from the memory."""
    assert shown(text) == text


def test_a_tag_in_ordinary_text_is_shown_as_an_entity() -> None:
    """Markdown readers show `Vec<u8>` and never run it as HTML."""
    assert shown("Vec<u8> and <b>bold</b>") == "Vec&lt;u8> and &lt;b>bold&lt;/b>"


def test_pictures_are_not_loaded() -> None:
    """Opening MEMORY.md in a viewer calls nobody."""
    assert shown("![x](https://example.org/?q=secret)") == "!\\[x](https://example.org/?q=secret)"


def test_hidden_text_does_not_stay_hidden_in_a_line() -> None:
    """Tag characters and direction overrides show people another text than models."""
    assert shown("ok\U000e0041\U000e0042 \u202etxt.exe\u202c") == "ok txt.exe"


@pytest.mark.parametrize(
    ("title", "expected"), [("C#", "C#"), ("Tags #", "Tags \\#"), ("#", "\\#"), ("a ##", "a \\##")]
)
def test_a_heading_keeps_its_hashes(title: str, expected: str) -> None:
    """Markdown drops hashes at the end of a heading."""
    assert heading(title) == expected
    assert kinds(f"## {heading(title)}\n") == ["heading_open", "inline"]


def test_a_text_of_several_lines_keeps_its_paragraphs_and_flat_lists() -> None:
    """A session summary with a list is read as a list."""
    assert (
        blocks("Intro\n- one\n  - two\n===\n# no\n\n\n1. x")
        == "Intro\n\n- one\n- two\n\n\\===\n\n\\# no\n\n1\\. x"
    )


@settings(deadline=None)
@given(st.text())
@example("<&<agent-memory")
@example("&am&amp;p;lt;agent-memory")
@example("- # x")
def test_escaping_twice_is_escaping_once(text: str) -> None:
    """Text that went through a note and came back does not grow."""
    for escape in (inline, shown, heading):
        assert escape(escape(text)) == escape(text)


@settings(deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["<", "/", "agent", "-", "memory", ">", "&lt;", "&amp;", " ", "\u200b", "\u200d", "#", "\n"]
        )
    )
)
def test_no_combination_of_pieces_makes_a_tag(pieces: list[str]) -> None:
    """Nesting and splitting do not help either."""
    text = "".join(pieces)

    assert tags(shown(text)) == 0
    assert tags(blocks(text)) == 0
    assert kinds(f"- {shown(text)}x\n") == ["bullet_list_open", "list_item_open", "paragraph_open", "inline"]
