"""Rows of other agents, as a deployment has them after a while: enough of them that a scan would show."""

from __future__ import annotations

from typing import Final

from sqlalchemy import JSON, BigInteger, Boolean, Column, Connection, Integer, LargeBinary, Table, text

from takeaways.schemas.tables import metadata

AGENTS: Final = 500
_ROWS: Final = {"agents": AGENTS, "system": 0, "kept_answers": 0}
_MORE_ROWS: Final = 2_000
_TIMES: Final = 1_000
# What has been dealt with: the state that nearly all rows of a table are in.
_VALUES: Final = {
    ("agents", "wake_at_ms"): "9999999999999 + n",
    ("candidates", "state"): "'merged'",
    ("dead_letters", "state"): "'retried'",
    ("erasures", "done_ms"): "n",
    ("inbox", "taken_in_ms"): "9999999999999",
    ("jobs", "ended_ms"): "9999999999999 + n",
    ("jobs", "started_ms"): "9999999999999 + n",
    ("kept_answers", "kept_at_ms"): "9999999999999 + n",
    ("messages", "read_by"): "'filler-job-' || n",
    ("messages", "read_ms"): "9999999999999 + n",
    ("messages", "state"): "'stored'",
    ("messages", "run_id"): "'filler-run-' || n",
    ("messages", "undated"): "n % 20 = 0",
    ("quarantines", "lifted_at_ms"): "n",
    ("standing_note_calls", "at_ms"): "9999999999999 + n",
    ("standing_note_turns", "at_ms"): "9999999999999 + n",
}


def fill(connection: Connection) -> None:
    """Fill every table of a PostgreSQL database. To its planner each row stands for a thousand."""
    for table in metadata.sorted_tables:
        rows = _ROWS.get(table.name, _MORE_ROWS)
        columns = [column for column in table.columns if _is_given(table, column)]
        values = ", ".join(_value(table, column) for column in columns)
        names = ", ".join(f'"{column.name}"' for column in columns)
        connection.execute(
            text(
                f'INSERT INTO "{table.name}" ({names}) SELECT {values} FROM generate_series(1, {rows}) AS n'  # noqa: S608 - our own names
            )
        )
    connection.execute(text("ANALYZE"))
    # It goes by the number of rows a page, and by how many different values a column has.
    times = {"times": _TIMES}
    connection.execute(
        text("UPDATE pg_class SET reltuples = reltuples * :times WHERE relkind IN ('r', 'i')"), times
    )
    connection.execute(
        text("UPDATE pg_statistic SET stadistinct = stadistinct * :times WHERE stadistinct >= :agents"),
        {**times, "agents": AGENTS},
    )


def _is_given(table: Table, column: Column[object]) -> bool:
    return (table.name, column.name) in _VALUES or not column.nullable


def _value(table: Table, column: Column[object]) -> str:
    if (value := _VALUES.get((table.name, column.name))) is not None:
        return value
    if column.name == "agent_id":
        # One row for each agent where that is the whole key, else several.
        return f"'filler-' || (n % {AGENTS})"
    kind = column.type
    if isinstance(kind, Boolean):
        return "false"
    if isinstance(kind, BigInteger | Integer):
        return "n"
    if isinstance(kind, LargeBinary):
        return "'\\x00'"
    if isinstance(kind, JSON):
        return "'[]'"
    return f"left('{column.name[:8]}-' || n, {getattr(kind, 'length', None) or 64})"
