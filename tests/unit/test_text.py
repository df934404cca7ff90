"""Text is stored whole wherever it can be, and cut where nobody sees the seam."""

from __future__ import annotations

import json

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from takeaways.schemas.text import head, mend, mend_json, one_line, seam
from tests import cases

ANY_TEXT = st.text(st.characters(codec=None))  # halves of surrogate pairs included
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
FLAGS = "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7"
CLUSTERS = st.lists(
    st.sampled_from(
        [
            "a",
            "e\u0301",
            FAMILY,
            FLAGS,
            "\U0001f44d\U0001f3fd",
            "न\u093f",
            "क\u094dष",
            "กำ",
            "한",
            "\u2764\ufe0f",
            "\n",
        ]
    )
)


def storable(text: str) -> bool:
    text.encode("utf-8")
    return "\x00" not in text and "\r" not in text


@given(ANY_TEXT)
@example("cut here \ud83d")
@example("\ude00 reversed \ude00\ud83d")
def test_every_text_can_be_stored_and_mending_it_again_changes_nothing(text: str) -> None:
    """No message is lost because one character of it cannot be stored."""
    mended = mend(text)

    assert storable(mended)
    assert mend(mended) == mended


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("plain\tand\nsimple", "plain\tand\nsimple"),
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("NUL \x00, escape \x1b, C1 \x9b", "NUL \ufffd, escape \ufffd, C1 \ufffd"),
        ("\x1b[1;31mERROR\x1b[0m \x1b(Bport\x1b[2K 9443", "ERROR port 9443"),
        ("\x1b]8;;https://x.test\x1b\\link\x1b]8;;\x07 \x1b]0;title\x07end", "link end"),
        ("\x1b[3\x1b[31m1m \x1b]never ends", "\ufffd[31m \ufffd]never ends"),
        ("literal \\u0000 stays", "literal \\u0000 stays"),
        ("good pair \ud83d\ude00 stays", "good pair \U0001f600 stays"),
        ("half \ud83d", "half \ufffd"),
        ("e\u0301", "é"),
    ],
)
def test_only_what_cannot_be_stored_is_replaced(text: str, mended: str) -> None:
    """A NUL or half an emoji becomes a mark; everything around it stays as it was said."""
    assert mend(text) == mended


def test_text_that_is_good_already_is_not_copied() -> None:
    """Intake mends every message it takes in; almost all of them need nothing."""
    for text in ("plain ASCII\nin lines", "schön, 日本語, \U0001f600"):
        assert mend(text) is text


def test_the_halves_of_surrogate_pairs_in_the_case_are_mended() -> None:
    """A message that was cut in the middle of an emoji once made whole requests invalid (EX-10)."""
    contents = [json.loads(line)["content"] for line in cases.case("EX-10")["room_wire"]]

    mended = [mend(content) for content in contents]

    assert all(map(storable, mended))
    assert "\U0001f600 stays" in mended[2]


def test_keys_and_values_are_mended_at_every_depth() -> None:
    """A NUL in the name of an argument spoils a row as much as one in its value."""
    assert mend_json({"a\x00": ["b\x00", {"c": "\ud83d"}], "n": 1}) == {
        "a\ufffd": ["b\ufffd", {"c": "\ufffd"}],
        "n": 1,
    }


def test_one_line_has_no_breaks_and_no_loose_spaces() -> None:
    """Titles and names stand in lists and logs, where a line break would forge another entry."""
    assert one_line("  two\r\n lines\u2029and\tmore ") == "two lines and more"


@given(CLUSTERS.map("".join).map(mend), st.integers(0, 200))
def test_a_cut_never_splits_a_character_as_people_see_it(text: str, max_bytes: int) -> None:
    """Half a flag or an accent without its letter reads as damage, and once was (EX-11)."""
    kept = head(text, max_bytes)

    assert len(kept.encode()) <= max_bytes
    assert text.startswith(kept)
    boundaries = {0, *(match.end() for match in regex.finditer(r"\X", text))}
    assert len(kept) in boundaries


def test_every_cut_of_the_case_is_whole() -> None:
    """All lengths from 1 to 200 bytes of the text that broke other pipelines (EX-11)."""
    text = mend(cases.case("EX-11")["room"][0]["content"])
    boundaries = {0, *(match.end() for match in regex.finditer(r"\X", text))}

    for max_bytes in range(201):
        kept = head(text, max_bytes)
        assert len(kept) in boundaries
        assert json.loads(json.dumps(kept)) == kept


def test_a_cut_keeps_as_much_as_it_can() -> None:
    """Plain text loses nothing to caution, and whole emoji that fit are kept."""
    assert head("abcdef", 4) == "abcd"
    assert head("日本語", 7) == "日本"
    assert head(FAMILY + FAMILY, len(FAMILY.encode()) + 3) == FAMILY
    assert head(FLAGS, 8) == FLAGS[:2]
    assert seam("abc", 2) == 2
