"""`takeaways scan`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer

from takeaways.workers.cli.context import open_for_reading, read_settings
from takeaways.workers.cli.output import AsJson, console, plain, print_json, table
from takeaways.workers.exits import Exit


def scan(
    agent: Annotated[str | None, typer.Argument(help="Only what belongs to this agent.")] = None,
    as_json: AsJson = False,
) -> None:
    """Look for secrets in the database.

    Says where they stand and of what kind they are, and shows none of them. Exit code 1 where there is one, so that
    a script can stop there. Dead letters keep what was published as it was; `takeaways dead-letters discard` and
    `takeaways erase` take away.

    Examples: `takeaways scan`, `takeaways scan scout --json`
    """
    from takeaways.workers.secrets.scan import scan as run

    database = open_for_reading(read_settings())
    try:
        found = list(run(database, agent_id=agent))
    finally:
        database.dispose()
    if as_json:
        print_json([asdict(leak) for leak in found])
    elif not found:
        console().print("No secrets found.")
    else:
        shown = table("where", "row", "what")
        for leak in found:
            row = ", ".join(str(part) for part in leak.row.values())
            what = ", ".join(f"{kind} ({times})" if times > 1 else kind for kind, times in leak.kinds.items())
            shown.add_row(f"{leak.table}.{leak.column}", plain(row), what)
        console().print(shown)
        tables = Counter(leak.table for leak in found)
        console().print(
            f"{len(found)} values hold secrets: {', '.join(f'{n} in {name}' for name, n in tables.items())}."
        )
    if found:
        raise typer.Exit(Exit.FAILED)
