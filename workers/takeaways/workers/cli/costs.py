"""`takeaways costs`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from takeaways.workers.cli.amounts import dollars
from takeaways.workers.cli.context import open_for_reading, read_settings, require_known
from takeaways.workers.cli.output import AsJson, console, plain, print_json, table
from takeaways.workers.exits import Exit

_NUMBERS = ("calls", "in", "cached", "written", "out", "cost")


def costs(
    agent: Annotated[str | None, typer.Argument(help="Only this agent's.")] = None,
    prefix: Annotated[str, typer.Option(help="Only agents whose id begins so.")] = "",
    days: Annotated[
        int, typer.Option(min=1, max=3_660, help="How many days back (UTC), today included.")
    ] = 7,
    as_json: AsJson = False,
) -> None:
    """Show the tokens sent and received, and what they cost, by day, agent and model.

    `cached` and `written` are the part of `in` that the provider read from its prompt cache and wrote into it. Prices
    are list prices unless TAKEAWAYS_PRICES says otherwise; a job keeps the price of its day.

    Examples: `takeaways costs`, `takeaways costs scout --days 30`, `takeaways costs --prefix acme/ --json`
    """
    from takeaways.workers.jobs.costs import spent_lately

    database = open_for_reading(read_settings())
    try:
        with database.read() as connection:
            found = spent_lately(connection, days=days, agent_id=agent, prefix=prefix)
            if agent is not None and not found:
                require_known(connection, agent)
    finally:
        database.dispose()
    if as_json:
        print_json([asdict(one) for one in found])
    elif found:
        shown = table("day", "agent", "model", *_NUMBERS, right=_NUMBERS)
        for one in found:
            tokens = (one.input_tokens, one.cached_tokens, one.written_tokens, one.output_tokens)
            cost = dollars(one.cost_microdollars) if one.without_price < one.jobs else "no price"
            shown.add_row(
                one.day,
                plain(one.agent_id),
                plain(one.model),
                f"{one.calls:,}",
                *(f"{number:,}" for number in tokens),
                cost,
            )
        console().print(shown)
        known = sum(one.cost_microdollars for one in found)
        rest = sum(one.without_price for one in found)
        console().print(f"{dollars(known)} in all{f', and {rest:,} jobs without a price' if rest else ''}")
    if not found:
        console(stderr=True).print("Nothing was spent in this time.")
        raise typer.Exit(Exit.NOTHING_FOUND)
