"""File names for ids: safe, and never one for two."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeaways.recall.names import file_stem
from takeaways.schemas.errors import BadInput
from takeaways.schemas.ids import digest

HOSTILE = (
    "../../etc/cron.d/x", "..", ".", "a/b", "a\\b", "/abs", "%2e%2e%2f", "con", "CON", "nul.txt",
    "agent-a/../agent-b", "\u2025/\u2025", "n" * 255, "N" * 255, "-rf", "~root", ".hidden", "a.", "a ", " a",
    "a", "A", "é", "e\u0301", "エージェント", "agent-a", "agent-b",
    "room~" + digest("a/b")[:24], "a-b~" + digest("a/b")[:24],
)  # fmt: skip


@pytest.mark.parametrize("bad", ["", "a\x00b", "agent-a\n", "n" * 300, "\ud800"])
def test_what_is_no_id_has_no_file_name(bad: str) -> None:
    """A bad id is refused, never mended into another's name (SE-05)."""
    with pytest.raises(BadInput):
        file_stem(bad)


def test_plain_ids_are_their_own_names() -> None:
    """A person finds the room by its id."""
    assert [file_stem(name) for name in ("room-1", "2026-03-01.standup", "a_b")] == [
        "room-1",
        "2026-03-01.standup",
        "a_b",
    ]
    assert file_stem("Sales/EMEA 2026").startswith("sales-emea-2026~")


def test_hostile_ids_have_safe_names_and_different_ones() -> None:
    """No id leaves the folder or takes another's file, even where case does not count (SE-05)."""
    names = [file_stem(name) for name in HOSTILE]

    assert len({name.casefold() for name in names}) == len(HOSTILE)
    for name in names:
        assert set(name) <= set(string.ascii_lowercase + string.digits + "._-~")
        assert name[0] in string.ascii_lowercase + string.digits
        assert len(name) <= 80
        assert not name.endswith(".")


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=255))
def test_a_name_is_no_other_ids_name(any_id: str) -> None:
    """The name of an id, taken as an id, has that name only if it is that id."""
    name = file_stem(any_id)

    assert (file_stem(name) == name) == (name == any_id)
