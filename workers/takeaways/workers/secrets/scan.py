"""Looking through a whole database for secrets: what was stored before their kind was known, or by other hands.

Every text and JSON column of every table is read, and the bytes of dead letters. Nothing is changed, and nothing
that is found is ever shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import JSON, Column, Connection, LargeBinary, String, Table, select
from sqlalchemy.engine import RowMapping

from takeaways.schemas.database import Database
from takeaways.schemas.tables import metadata
from takeaways.workers.secrets.library import find

_ROWS_AT_ONCE: Final = 500
# Names of other rows and made up of them: a secret in them stands in the column that they name, too.
_MADE_UP: Final = frozenset({"digest", "text_hash", "body_hash", "prompt_hash"})


@dataclass(frozen=True, slots=True)
class Leak:
    """A value that holds secrets: `row` is its key, `kinds` says what and how often."""

    table: str
    column: str
    row: dict[str, Any]
    kinds: dict[str, int]


def scan(database: Database, *, agent_id: str | None = None) -> Iterator[Leak]:
    """Every value that holds a secret, table by table; with `agent_id` only what belongs to that agent."""
    for table in metadata.sorted_tables:
        if agent_id is not None and "agent_id" not in table.c:
            continue
        with database.read() as connection:
            yield from _in_table(connection, table, agent_id)


def _in_table(connection: Connection, table: Table, agent_id: str | None) -> Iterator[Leak]:
    read = [column for column in table.c if _holds_text(column)]
    if not read:
        return
    keys = list(table.primary_key.columns)
    wanted = select(*keys, *(column for column in read if column not in keys))
    if agent_id is not None:
        wanted = wanted.where(table.c.agent_id == agent_id)
    for row in connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(wanted).mappings():
        for column in read:
            kinds = Counter(one.kind for text in _texts(row[column.name]) for one in find(text))
            if kinds:
                yield Leak(table.name, column.name, _named(row, keys), dict(sorted(kinds.items())))


def _holds_text(column: Column[Any]) -> bool:
    return column.name not in _MADE_UP and isinstance(column.type, String | JSON | LargeBinary)


def _named(row: RowMapping, keys: list[Column[Any]]) -> dict[str, Any]:
    """The key of a row. An id that is a secret itself is not shown."""
    return {key.name: "(masked)" if _is_secret(row[key.name]) else row[key.name] for key in keys}


def _is_secret(value: Any) -> bool:
    return isinstance(value, str) and bool(find(value))


def _texts(value: Any) -> Iterator[str]:
    """The texts in a value: secrets are looked for in each, not in JSON around them."""
    if isinstance(value, bytes | memoryview):
        yield from _texts(bytes(value).decode("utf-8", "replace"))
    elif isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield str(name)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
