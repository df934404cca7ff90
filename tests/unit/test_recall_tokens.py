"""The estimate of tokens that readers use who have no better one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeaways.recall.tokens import count


@pytest.mark.parametrize(
    ("text", "at_least"),
    [
        ("The quick brown fox jumps over the lazy dog.", 10),
        ("価格は四万ドルを超える場合に承認が必要です。", 22),
        ("사용자는 짧은 답변을 선호합니다.", 20),
        ("3f2b9c1e-8d47-4a6b-9e01-5c7d2a8b4f60", 24),
        ("aGVsbG8gd29ybGQsIHRoaXMgaXMgYmFzZTY0", 20),
        ("🎉" * 10, 20),
        ("{}[]();:,.", 10),
    ],
)
def test_no_script_is_underestimated(text: str, at_least: int) -> None:
    """A note in any language stays within its budget."""
    assert at_least <= count(text) <= 6 * at_least


@settings(deadline=None)
@given(st.text(), st.text())
def test_more_text_is_never_fewer_tokens(one: str, other: str) -> None:
    """The summary can add up its pieces."""
    assert count(one) <= count(f"{one}\n{other}")
    assert count(f"{one}\n{other}") <= count(f"{one}\n") + count(other)
