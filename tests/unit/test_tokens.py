"""The token estimate: never too low where it matters, and safe to add up."""

from __future__ import annotations

import base64
import json
import random
import time
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeaways.workers.models.tokens import estimate

ANY_TEXT = st.text(max_size=60)

# Text, and how many tokens the densest current tokenizer makes of it (measured once, offline).
MEASURED = {
    "base64": (base64.b64encode(random.Random(1).randbytes(300)).decode(), 385),
    "hexadecimal": (random.Random(2).randbytes(200).hex(), 255),
    "uuids": (
        "\n".join(str(uuid.UUID(bytes=random.Random(n).randbytes(16), version=4)) for n in range(8)),
        218,
    ),
}


def asked_of_every_counter(text: str) -> int:
    """The simple counter that budgets are checked against: one for two ASCII characters or one other."""
    ascii_characters = sum(character.isascii() for character in text)
    return len(text) - ascii_characters + (ascii_characters + 1) // 2


@pytest.mark.parametrize(("text", "tokens"), MEASURED.values(), ids=MEASURED)
def test_what_machines_write_is_covered(text: str, tokens: int) -> None:
    """Characters / 4 puts these at a quarter to a half of the truth."""
    assert tokens <= estimate(text) <= 1.5 * tokens


@given(ANY_TEXT, ANY_TEXT)
def test_the_parts_never_count_less_than_the_whole(left: str, right: str) -> None:
    """Requests are packed by adding up messages; the sum must bound what is really sent."""
    assert estimate(left + right) <= estimate(left) + estimate(right)


@given(ANY_TEXT, ANY_TEXT)
def test_more_text_is_never_fewer_tokens(text: str, more: str) -> None:
    """Cutting a message searches for the longest beginning that fits."""
    assert estimate(text + more) >= estimate(text)


@given(ANY_TEXT)
def test_it_is_never_below_the_simple_counter(text: str) -> None:
    """A room of CJK, emoji or minified code stays within half a window even by the crudest of counts
    (MA-09).
    """
    assert estimate(text) >= asked_of_every_counter(text)


@pytest.mark.parametrize(
    "text",
    ["日本語の長い会話です。" * 300, "🧑‍🚀" * 800, "x=[1,2];{(" * 600, "a b c d " * 800],
    ids=["japanese", "joined emoji", "minified", "single letters"],
)
def test_dense_text_counts_at_least_thirty_per_cent_over_a_quarter_of_its_characters(text: str) -> None:
    """Characters / 4 is three to four times too low for these, which broke budgets elsewhere (MA-09)."""
    assert estimate(text) >= 1.3 * len(text) / 4
    assert estimate(text) >= asked_of_every_counter(text)


def test_plain_english_is_not_counted_beyond_reason() -> None:
    """Erring high costs room: English takes about 0.31 tokens a character, and we say at most 0.6."""
    text = "Quotes over forty thousand dollars need a sign-off by the head of sales before they go out. " * 20

    assert 0.45 * len(text) <= estimate(text) <= 0.6 * len(text)


def test_json_and_logs_cost_more_than_prose() -> None:
    """Tool output is dense; pricing it as prose would overfill a request."""
    rows = json.dumps([{"id": n, "ok": True, "at": f"2026-03-02T10:{n:02d}:00Z"} for n in range(60)])
    prose = "the nightly job starts late because the queue is full " * 60

    assert estimate(rows) / len(rows) > 1.2 * estimate(prose) / len(prose)


def test_a_lone_surrogate_is_counted_like_any_other_text() -> None:
    """Counting must not be the place where damaged text stops a job."""
    assert estimate("half \ud83d") > estimate("half ")


def test_nothing_is_nothing() -> None:
    """An empty room adds nothing to a request."""
    assert estimate("") == 0


def test_it_counts_megabytes_in_no_time() -> None:
    """Every message is counted before it is sent; that must not be felt."""
    text = "2026-03-02 worker-7 took 3.4 s for job a8f3; 日本語 and naïve\n" * 40_000

    started = time.process_time()
    estimate(text)

    assert time.process_time() - started < 5
