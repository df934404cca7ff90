"""What each role of PostgreSQL may do with each table. `deploy/postgres/roles.sql` makes the roles, with passwords.

They are rights and not people: grant them to roles of your own where those have other names. SQLite has no roles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from sqlalchemy import Connection, Table, text

from takeaways.schemas.tables import metadata

WORK: Final = "takeaways_work"
RECALL: Final = "takeaways_recall"
READ: Final = "takeaways_read"

VERSION_TABLE: Final = "alembic_version"

WORDS: Final[Mapping[str, frozenset[str]]] = {
    "candidates": frozenset({"topic", "text", "evidence", "reason"}),
    "dead_letters": frozenset({"raw"}),
    "kept_answers": frozenset({"answer"}),
    "messages": frozenset({"author_name", "parts"}),
    "note_texts": frozenset({"text"}),
    "revisions": frozenset({"account"}),
    "rooms": frozenset({"title", "summary"}),
    "section_texts": frozenset({"content"}),
    "standing_note_calls": frozenset({"answer"}),
    "standing_note_pins": frozenset({"text"}),
    "standing_note_revisions": frozenset({"entries"}),
    "standing_notes": frozenset({"entries"}),
}
"""The columns that hold what people said or what was learned from it. `takeaways_read` does not see them."""

_Rights = Mapping[str, tuple[str, ...]]

_SELECT: Final = ("SELECT",)
_WRITE: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
_RECALL: Final[_Rights] = {
    VERSION_TABLE: _SELECT,
    "system": _SELECT,
    # A note is pinned under a lock of the agent's row, and a lock wants the right to update some column.
    "agents": ("SELECT", "UPDATE (name)"),
    "rooms": _SELECT,
    "revisions": _SELECT,
    "section_texts": _SELECT,
    "notes": ("SELECT", "INSERT"),
    "note_texts": ("SELECT", "INSERT"),
    "workspaces": _WRITE,
    "standing_notes": _WRITE,
    "standing_note_revisions": _WRITE,
    "standing_note_calls": _WRITE,
    "standing_note_turns": _WRITE,
    "standing_note_pins": _WRITE,
}


def _readable(table: Table) -> tuple[str, ...]:
    words = WORDS.get(table.name)
    if words is None:
        return _SELECT
    shown = (f'"{column.name}"' for column in table.columns if column.name not in words)
    return (f"SELECT ({', '.join(shown)})",)


RIGHTS: Final[Mapping[str, _Rights]] = {
    WORK: {VERSION_TABLE: _SELECT, **dict.fromkeys(metadata.tables, _WRITE)},
    RECALL: _RECALL,
    READ: {VERSION_TABLE: _SELECT, **{name: _readable(table) for name, table in metadata.tables.items()}},
}
"""What a role may do, by table, in the words of GRANT. A table that is missing it may not touch."""


def grant(connection: Connection) -> tuple[str, ...]:
    """Give the roles that this server has what they need of our tables, and take the rest away. Returns those roles.

    Only who owns the tables can: nothing happens on SQLite, without the roles, or as somebody else.
    """
    if connection.dialect.name != "postgresql" or not _owns_the_tables(connection):
        return ()
    known = set(connection.execute(text("SELECT rolname FROM pg_roles")).scalars())
    found = tuple(role for role in RIGHTS if role in known)
    for statement in (one for role in found for one in _statements(role)):
        connection.exec_driver_sql(statement)
    return found


def _statements(role: str) -> Iterator[str]:
    # In one transaction: whoever works meanwhile never sees the moment without rights.
    for table in (VERSION_TABLE, *metadata.tables):
        yield f'REVOKE ALL ON "{table}" FROM "{role}"'
        if allowed := RIGHTS[role].get(table):
            yield f'GRANT {", ".join(allowed)} ON "{table}" TO "{role}"'


def _owns_the_tables(connection: Connection) -> bool:
    owner = text(
        "SELECT pg_has_role(current_user, relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(:table)"
    )
    return bool(connection.execute(owner, {"table": VERSION_TABLE}).scalar())
