"""Text that stands for other text must not be stored in its place."""

from __future__ import annotations

import pytest

from takeaways.workers.text.placeholders import is_placeholder


@pytest.mark.parametrize(
    "text",
    [
        "",
        "---",
        "…",
        "...",
        "[...]",
        "[… ]",
        "[... the remaining sections are unchanged ...]",
        "(rest unchanged)",
        "<!-- same as before -->",
        "# ...existing content...",
        "The rest of the memory remains unchanged.",
        "Other sections omitted",
        "Everything else stays the same",
        "Unchanged.",
        "Staging uses port 9443, and so on (...)",
    ],
)
def test_what_stands_for_something_else_is_recognised(text: str) -> None:
    """A rewrite that abbreviates the untouched part once cost most of a memory (CO-06)."""
    assert is_placeholder(text)


@pytest.mark.parametrize(
    "text",
    [
        "Leave the rest of the configuration unchanged when you edit one key.",
        "Staging is unchanged since May.",
        "Ann likes answers the same as before the move: short.",
        "Hm... take the second one...",
        "Do not touch existing content of the catalogue.",
        "締め日は毎月二十日です。",
        "42",
        "The env is the same on both hosts",
    ],
)
def test_a_sentence_about_such_things_is_a_sentence(text: str) -> None:
    """People do say "leave the rest unchanged", and mean it."""
    assert not is_placeholder(text)
