"""What tokens cost: a price table, in US dollars for a million tokens, and the bill of one answer."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from takeaways.schemas.usage import Usage

Dollars = Annotated[float, Field(ge=0)]


class Price(BaseModel):
    """Dollars for a million tokens. What is not given follows from `input`: a tenth where the provider reads a
    token from its cache, a quarter more where it writes one.

    A prompt longer than `long_from_tokens` is charged at `long_times` the price.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: Dollars
    output: Dollars
    cached: Dollars | None = None
    written: Dollars | None = None
    long_from_tokens: int | None = None
    long_times: Dollars = 1.0


PRICES: Final[Mapping[str, Price]] = {
    "offline": Price(input=0, output=0),
    "offline+local": Price(input=0, output=0),
    "claude-fable-5-2": Price(input=8, output=40),
    "claude-fable-5-1": Price(input=10, output=50),
    "claude-opus-5-5": Price(input=4, output=20),
    "claude-opus-5": Price(input=5, output=25),
    "claude-sonnet-5-5": Price(input=2, output=10),
    "claude-sonnet-5": Price(input=2, output=10),
    "claude-sonnet-4-6": Price(input=3, output=15),
    "claude-haiku-5-5": Price(input=0.1, output=0.5, long_from_tokens=100_000, long_times=5),
    "claude-haiku-4-5": Price(input=1, output=5),
}
"""List prices, to be overridden by settings: they change, and a contract may say otherwise."""


_CLAUDE: Final = re.compile(
    r"(?:.*[./])?(claude-[a-z0-9-]+?)(?:[@-](?:\d{8}|latest))?(?:-v\d+(?::\d+)?)?(?:\[\w+\])?", re.ASCII
)


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model by its name, else by the name that it has without what gateways put around it: the date of a
    snapshot, a region, a provider.
    """
    if (price := prices.get(model)) is not None:
        return price
    plain = _CLAUDE.fullmatch(model)
    return prices.get(plain[1]) if plain else None


def cost_microdollars(usage: Usage, price: Price | None) -> int | None:
    """The cost in millionths of a dollar, rounded up; None where no price is known.

    A price in dollars for a million tokens is one in millionths of a dollar for a token.
    """
    if price is None:
        return None
    cached = price.input / 10 if price.cached is None else price.cached
    written = price.input * 1.25 if price.written is None else price.written
    fresh = usage.input_tokens - usage.cached_tokens - usage.written_tokens
    cost = (
        max(fresh, 0) * price.input
        + usage.cached_tokens * cached
        + usage.written_tokens * written
        + usage.output_tokens * price.output
    )
    each_input = usage.input_tokens / max(usage.calls, 1)
    if price.long_from_tokens is not None and each_input > price.long_from_tokens:
        cost *= price.long_times
    return math.ceil(round(cost, 6))
