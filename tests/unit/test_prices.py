"""The bill of an answer."""

from __future__ import annotations

import pytest

from takeaways.schemas.usage import Usage
from takeaways.workers.models.prices import PRICES, Price, cost_microdollars, price_of

PLAIN = Price(input=2, output=10)


@pytest.mark.parametrize(
    ("usage", "price", "expected"),
    [
        (Usage(1_000, 100), PLAIN, 3_000),
        (Usage(1_000, 0, cached_tokens=1_000), PLAIN, 200),
        (Usage(1_000, 0, written_tokens=1_000), PLAIN, 2_500),
        (Usage(1_000, 0, cached_tokens=400, written_tokens=600), PLAIN, 80 + 1_500),
        (Usage(1_000, 0, cached_tokens=1_000), Price(input=2, output=10, cached=0.5), 500),
        (Usage(1, 0), Price(input=0.1, output=1), 1),
        (Usage(3_000, 0, calls=3), Price(input=1, output=1, long_from_tokens=2_000, long_times=5), 3_000),
        (Usage(3_000, 0, calls=1), Price(input=1, output=1, long_from_tokens=2_000, long_times=5), 15_000),
        (Usage(1_000, 100), None, None),
    ],
)
def test_every_kind_of_token_has_its_price(usage: Usage, price: Price | None, expected: int | None) -> None:
    """A bill that prices cached tokens as fresh ones is ten times too high, and one without a price is unknown."""
    assert cost_microdollars(usage, price) == expected


def test_the_offline_model_costs_nothing() -> None:
    """Nobody is shown a bill for rules that run at home."""
    assert cost_microdollars(Usage(10_000, 10_000), PRICES["offline"]) == 0


@pytest.mark.parametrize(
    ("name", "priced_as"),
    [
        ("claude-haiku-4-5", "claude-haiku-4-5"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5"),
        ("claude-haiku-4-5-latest", "claude-haiku-4-5"),
        ("claude-sonnet-4-6[1m]", "claude-sonnet-4-6"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5"),
        ("openrouter/anthropic/claude-opus-5", "claude-opus-5"),
        ("claude-opus-5-5", "claude-opus-5-5"),
        ("claude-opus-9", None),
        ("house-claude-opus-5", None),
        ("claude-opus-5-mini", None),
    ],
)
def test_a_model_costs_the_same_under_all_its_names(name: str, priced_as: str | None) -> None:
    """A snapshot with its date, or the name of a gateway, was billed as nothing; one that is not known stays so."""
    assert price_of(name, PRICES) == (PRICES[priced_as] if priced_as else None)


def test_a_price_that_was_set_for_a_snapshot_goes_first() -> None:
    """A contract may be about just that one."""
    own = Price(input=7, output=7)

    assert price_of("claude-opus-5-20260101", {**PRICES, "claude-opus-5-20260101": own}) == own
