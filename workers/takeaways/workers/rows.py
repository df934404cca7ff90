"""Many rows in one statement, on SQLite and PostgreSQL alike.

An ORM-style `values()` with thousands of parameters is compiled anew for each batch and costs tens of
microseconds a row. Here the text of a statement depends on the table and columns only, and the rows travel as
one JSON text; on SQLite, where nothing is returned, as they are. Arrays, one a column, cost psycopg three
times as much as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal

from sqlalchemy import BigInteger, Boolean, Connection, Integer, LargeBinary, Table, types

Row = Sequence[Any]
Columns = tuple[str, ...]


def insert(
    connection: Connection, table: Table, columns: Columns, rows: Sequence[Row], *, returning: Columns = ()
) -> list[Any]:
    """Insert rows in the order given and skip those whose key is there. JSON columns take JSON text.

    Returns `returning` of each row that was inserted, in no order. With it SQLite takes no bytes.
    """
    if not rows:
        return []
    statement = _insert(connection.dialect.name, table, columns, returning)
    if connection.dialect.name == "sqlite" and not returning:
        connection.exec_driver_sql(statement, [tuple(row) for row in rows])
        return []
    found = connection.exec_driver_sql(statement, (_json(rows),))
    return list(found.all()) if returning else []


def update(
    connection: Connection,
    table: Table,
    keys: Columns,
    columns: Columns,
    rows: Sequence[Row],
    *,
    where: Literal["undated"] | None = None,
) -> None:
    """Set `columns` of the rows whose `keys` are given: each row is the keys, then the values.

    A column that is written as `name+` is increased by the value. The caller holds the locks.
    """
    if not rows:
        return
    statement = _update(connection.dialect.name, table, keys, columns, where)
    if connection.dialect.name == "sqlite":
        # In SQLite's statement the values stand before the keys.
        width = len(keys)
        connection.exec_driver_sql(statement, [(*row[width:], *row[:width]) for row in rows])
    else:
        connection.exec_driver_sql(statement, (_json(rows),))


def delete(connection: Connection, table: Table, keys: Columns, rows: Sequence[Row]) -> None:
    """Delete the rows whose `keys` are given. The caller holds the locks."""
    if not rows:
        return
    statement = _delete(connection.dialect.name, table, keys)
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(statement, [tuple(row) for row in rows])
    else:
        connection.exec_driver_sql(statement, (_json(rows),))


def fetch(
    connection: Connection, table: Table, keys: Columns, wanted: Iterable[Row], columns: Columns
) -> list[Any]:
    """Return `columns` of the rows whose `keys` are among `wanted`, in no order."""
    rows = list(wanted)
    if not rows:
        return []
    statement = _fetch(connection.dialect.name, table, keys, columns)
    return list(connection.exec_driver_sql(statement, (_json(rows),)).all())


_json = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), default=lambda value: bytes(value).hex()
).encode


@lru_cache
def _insert(dialect: str, table: Table, columns: Columns, returning: Columns) -> str:
    into = f"INSERT INTO {table.name} ({', '.join(columns)})"
    if dialect == "sqlite" and not returning:
        return f"{into} VALUES ({', '.join('?' for _ in columns)}) ON CONFLICT DO NOTHING"
    if dialect == "sqlite":
        picked = ", ".join(f"json_extract(value, '$[{place}]')" for place in range(len(columns)))
        # Without WHERE, SQLite reads ON as the join's.
        source = f"SELECT {picked} FROM json_each(?) WHERE true"  # noqa: S608 - names of our own tables
    else:
        source = _given(table, columns)
    back = f" RETURNING {', '.join(returning)}" if returning else ""
    return f"{into} {source} ON CONFLICT DO NOTHING{back}"


@lru_cache
def _update(dialect: str, table: Table, keys: Columns, columns: Columns, where: str | None) -> str:
    also = f" AND {where}" if where else ""
    names = [(column.removesuffix("+"), column.endswith("+")) for column in columns]
    if dialect == "sqlite":
        changes = ", ".join(f"{name} = {name} + ?" if grows else f"{name} = ?" for name, grows in names)
        matches = " AND ".join(f"{key} = ?" for key in keys)
        return f"UPDATE {table.name} SET {changes} WHERE {matches}{also}"  # noqa: S608 - names of our own tables
    new = [f"new{place}" for place in range(len(keys) + len(columns))]
    changes = ", ".join(
        f"{name} = t.{name} + {value}" if grows else f"{name} = {value}"
        for (name, grows), value in zip(names, new[len(keys) :], strict=True)
    )
    matches = " AND ".join(f"t.{key} = {value}" for key, value in zip(keys, new, strict=False))
    source = f"({_given(table, keys + columns)}) AS given({', '.join(new)})"
    return f"UPDATE {table.name} AS t SET {changes} FROM {source} WHERE {matches}{also}"  # noqa: S608 - as above


@lru_cache
def _delete(dialect: str, table: Table, keys: Columns) -> str:
    if dialect == "sqlite":
        matches = " AND ".join(f"{key} = ?" for key in keys)
        return f"DELETE FROM {table.name} WHERE {matches}"  # noqa: S608 - names of our own tables
    given = [f"key{place}" for place in range(len(keys))]
    matches = " AND ".join(f"t.{key} = {value}" for key, value in zip(keys, given, strict=True))
    source = f"({_given(table, keys)}) AS given({', '.join(given)})"
    return f"DELETE FROM {table.name} AS t USING {source} WHERE {matches}"  # noqa: S608 - names of our own tables


@lru_cache
def _fetch(dialect: str, table: Table, keys: Columns, columns: Columns) -> str:
    wanted = ", ".join(f"t.{column}" for column in columns)
    if dialect == "sqlite":
        matches = " AND ".join(
            f"t.{key} = json_extract(given.value, '$[{place}]')" for place, key in enumerate(keys)
        )
        # CROSS JOIN keeps SQLite from scanning the table and looking into the JSON for each of its rows.
        source = f"json_each(?) AS given CROSS JOIN {table.name} AS t"
        return f"SELECT {wanted} FROM {source} WHERE {matches}"  # noqa: S608 - names of our own tables
    given = [f"key{place}" for place in range(len(keys))]
    matches = " AND ".join(f"t.{key} = {value}" for key, value in zip(keys, given, strict=True))
    source = f"({_given(table, keys)}) AS given({', '.join(given)})"
    return f"SELECT {wanted} FROM {source} JOIN {table.name} AS t ON {matches}"  # noqa: S608 - names of our own tables


def _given(table: Table, columns: Columns) -> str:
    """PostgreSQL's SELECT of the rows in the JSON text, in their order."""
    picked = ", ".join(
        _cast(f"value ->> {place}", table.c[column.removesuffix("+")].type)
        for place, column in enumerate(columns)
    )
    return f"SELECT {picked} FROM jsonb_array_elements(%s::jsonb)"  # noqa: S608 - names of our own tables


def _cast(value: str, column: types.TypeEngine[Any]) -> str:
    if isinstance(column, LargeBinary):
        return f"decode({value}, 'hex')"
    if isinstance(column, types.JSON):
        return f"({value})::jsonb"
    for kind, name in ((Boolean, "boolean"), (BigInteger, "bigint"), (Integer, "integer")):
        if isinstance(column, kind):
            return f"({value})::{name}"
    return value
