"""The bill of an answer."""

from __future__ import annotations

import pytest

from takeaways.schemas.usage import Usage
from takeaways.workers.models.prices import PRICES, Price, cost_microdollars

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
