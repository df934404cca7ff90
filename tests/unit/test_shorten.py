"""A text that is too long keeps its beginning, and what is kept can be read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from takeaways.workers.extraction.shorten import shorten
from takeaways.workers.models.tokens import estimate

CODE = "\n".join(f"    step_{number}(retries=5)" for number in range(200))


def fences(text: str) -> int:
    return sum(line.startswith("```") for line in text.split("\n"))


def test_a_cut_in_a_long_code_fence_closes_it() -> None:
    """An open fence would swallow whatever is shown after it."""
    short = shorten(f"Run this:\n```python\n{CODE}\n```\nand then rest.", 400)

    assert short.endswith("\n```")
    assert fences(short) == 2
    assert estimate(short) <= 400


def test_a_cut_soon_after_a_fence_began_is_before_the_fence() -> None:
    """Two lines of a program say less than nothing of it."""
    said = "We decided to keep retries at five. " * 20
    short = shorten(f"{said}\n```python\n{CODE}\n```", estimate(said) + 60)

    assert short.strip() == said.strip()


def test_a_fence_that_is_closed_again_is_kept_whole() -> None:
    """What fits is not touched."""
    text = "Run `make` or:\n```sh\nmake all\n```\n" + "It takes a while. " * 100

    short = shorten(text, 200)

    assert "```sh\nmake all\n```" in short


@given(
    st.lists(
        st.sampled_from(["```py", "```", "~~~", "````", "x = 1", "said so", ""]), min_size=1, max_size=60
    ),
    st.integers(60, 300),
)
def test_no_cut_leaves_a_fence_open_that_was_closed(lines: list[str], tokens: int) -> None:
    """Whatever fences a message has, its beginning reads as it did."""
    text = "\n".join(lines) + "\n" + "and so on " * 200

    short = shorten(text, tokens)

    assert estimate(short) <= tokens
    assert text.startswith((short, short.rpartition("\n")[0]))
