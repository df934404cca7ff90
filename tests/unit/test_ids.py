"""Ids are opaque, compared exactly, refused when bad, and derived so that repeats are recognised."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from takeaways.schemas.ids import MAX_ID_LENGTH, Id, derived, digest, message_id, why_bad

ID = TypeAdapter(Id)


@pytest.mark.parametrize(
    "value", ["a", "acme/agent-7", "x" * 255, "日本" * 100, "RUN-1", " spaced ", "e\u0301", "\U0001f600"]
)
def test_an_id_is_kept_exactly_as_it_is(value: str) -> None:
    """Platforms choose their ids; changing one could make two equal."""
    assert why_bad(value) is None
    assert ID.validate_python(value) == value


@pytest.mark.parametrize(
    "value", ["", "x" * 256, "a\x00b", "a\nb", "a\x7f", "\x85", "\ud83d", 5, None, True, ["a"], {"a": 1}, 1.5]
)
def test_a_bad_id_is_refused_whatever_it_is(value: object) -> None:
    """A bad id is never mended; the refusal says what is wrong and does not repeat it."""
    reason = why_bad(value)

    assert reason is not None
    with pytest.raises(ValidationError) as refused:
        ID.validate_python(value)
    assert [problem["type"] for problem in refused.value.errors()] == ["bad_id"]


def test_the_refusal_names_the_place_and_not_the_id() -> None:
    """Logs and dead letters carry the reason; an id may be private."""
    reason = why_bad("secret\x00rest") or ""

    assert "U+0000 at 6" in reason
    assert "secret" not in reason


def test_the_same_parts_give_the_same_id_and_no_others_do() -> None:
    """A retried publish must be recognised, and `("ab", "c")` is not `("a", "bc")`."""
    assert derived("run", "ab", "c") == derived("run", "ab", "c")
    assert derived("run", "ab", "c") != derived("run", "a", "bc")
    assert derived("run", "ab", "c") != derived("compaction", "ab", "c")


def test_a_digest_does_not_depend_on_the_order_of_keys() -> None:
    """Another language may write the same event with its fields in another order."""
    assert digest({"a": 1, "b": "\ud83d"}) == digest({"b": "\ud83d", "a": 1})


def test_a_message_without_an_id_is_named_for_its_run_and_place() -> None:
    """Both ends give the same name, even where the run's id is as long as one may be."""
    longest = "r" * MAX_ID_LENGTH

    assert message_id("run-1", 3) == "run-1#3"
    assert why_bad(message_id(longest, 0)) is None
    assert message_id(longest, 0) != message_id(longest, 1)
