"""Everything about one agent in one file, and back: a zip of its rows as JSON lines, with the memory as Markdown.

Left out are what belongs to a server and not to the agent: the lease and timers, kept answers, workspaces and
dead letters. The Markdown is for people; an import reads the rows alone.
"""

from __future__ import annotations

import json
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Table, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from takeaways.recall import memory_md, summary_md
from takeaways.recall.markdown import session_summary_md
from takeaways.recall.names import file_stem
from takeaways.recall.store import load_memory, load_session_summaries, snapshot
from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.errors import BadInput, NotFound
from takeaways.schemas.ids import why_bad
from takeaways.schemas.tables import (
    agents,
    candidates,
    inbox,
    jobs,
    messages,
    note_texts,
    notes,
    persons,
    quarantines,
    revisions,
    rooms,
    runs,
    section_texts,
    standing_note_calls,
    standing_note_pins,
    standing_note_revisions,
    standing_note_turns,
    standing_notes,
)

FORMAT: Final = 1
_TABLES: Final = (
    rooms,
    runs,
    messages,
    candidates,
    section_texts,
    revisions,
    jobs,
    quarantines,
    notes,
    note_texts,
    persons,
    inbox,
    standing_note_calls,
    standing_note_pins,
    standing_note_turns,
)
_OWNED: Final = (standing_notes, standing_note_revisions)
_OF_THE_SERVER: Final = (
    "generation",
    "epoch",
    "deleted_at_ms",
    "boot_id",
    "owner",
    "owner_kind",
    "lease_until_ms",
    "lease_boot",
    "attempts",
    "attempts_at",
    "wake_at_ms",
    "hints",
    "left_for",
    "left_until_ms",
    "due_since_ms",
    "due_kind",
    "due_reason",
    "not_before_ms",
    "parked_because",
    "extraction_pass",
    "consolidation_pass",
)
_NAMED_IDS: Final = frozenset({"job_id", "read_by", "settled_by", "summary_job_id", "quarantine_id"})
_ROWS_AT_ONCE: Final = 500
# A fixed date, so that the same agent gives the same bytes.
_DATE: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class _To:
    """Where the rows go: to which agent, as which generation, with which ids instead of taken ones."""

    agent_id: str
    generation: int
    renamed: Mapping[str, str]


def export_agent(database: Database, agent_id: str, file: Path) -> dict[str, int]:
    """Write the archive; returns how many rows of each table are in it. Raises `NotFound` for an unknown agent.

    It holds what people said: keep it as carefully as the database. An agent that did not change gives the
    same bytes. A file of that name is replaced only once the archive is whole.
    """
    counts: dict[str, int] = {}
    with snapshot(database) as connection, _replacing(file) as archive:
        row = connection.execute(select(agents).where(agents.c.agent_id == agent_id)).mappings().one_or_none()
        if row is None:
            raise NotFound(f"no agent {agent_id} is known here")
        own = {name: value for name, value in row.items() if name not in _OF_THE_SERVER}
        manifest = {"format": FORMAT, "agent_id": agent_id, "epoch": row["epoch"], "agent": own}
        _put(archive, "agent.json", json.dumps(manifest, ensure_ascii=False, indent=2, sort_keys=True))
        for table in (*_TABLES, *_OWNED):
            counts[table.name] = _export(connection, archive, table, agent_id)
        memory = load_memory(connection, agent_id)
        if memory.number:
            _put(archive, "agent-memory/summary.md", summary_md(memory.memory))
            _put(archive, "agent-memory/MEMORY.md", memory_md(memory.memory))
        for summary in load_session_summaries(connection, agent_id):
            name = f"agent-memory/session_summaries/{file_stem(summary.room_id)}.md"
            _put(archive, name, session_summary_md(summary))
    return counts


@contextmanager
def _replacing(file: Path) -> Iterator[zipfile.ZipFile]:
    """An archive that takes the place of `file` when all of it is written; after an error nothing has changed."""
    partial = file.with_name(f".{file.name}.part")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
            yield archive
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def import_agent(
    database: Database, file: Path, *, agent_id: str | None = None
) -> tuple[str, dict[str, int]]:
    """Restore an agent, under another id if one is given; returns the id and the rows of each table.

    Raises `BadInput` for a file that is no archive, and where the agent exists: erase it first. What an erased
    agent's tombstone keeps out stays out.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            manifest = json.loads(archive.read("agent.json"))
            if manifest.get("format") != FORMAT:
                raise BadInput(
                    f"{file.name} has format {manifest.get('format')}, and this version reads {FORMAT}"
                )
            here = agent_id or manifest["agent_id"]
            if problem := why_bad(here):
                raise BadInput(f"agent id: {problem}")
            with database.write() as connection:
                renamed = {
                    **_taken(connection, archive, jobs, "job_id"),
                    **_taken(connection, archive, quarantines, "quarantine_id"),
                }
                to = _To(here, _agent(connection, here, manifest), renamed)
                counts = {
                    table.name: _import(connection, archive, table, to) for table in (*_TABLES, *_OWNED)
                }
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadInput(
            f"{file.name} is no archive of an agent ({type(error).__name__}); `takeaways memory export` makes one"
        ) from error
    return here, counts


def _agent(connection: Connection, agent_id: str, manifest: Mapping[str, Any]) -> int:
    """Make the agent's row, or fill that of a tombstone; returns its generation."""
    known = (
        connection.execute(select(agents).where(agents.c.agent_id == agent_id).with_for_update())
        .mappings()
        .one_or_none()
    )
    if known is not None and not _is_empty(connection, agent_id):
        raise BadInput(
            f"agent {agent_id!r} exists here; erase it first, or import it under another id (`--as`)"
        )
    own = {
        name: value for name, value in manifest["agent"].items() if name in agents.c and name != "agent_id"
    }
    values = {**own, "wake_at_ms": now_ms(connection)}
    if known is None:
        connection.execute(insert(agents).values(agent_id=agent_id, epoch=manifest["epoch"], **values))
        return 1
    values["epoch"] = max(known["epoch"], manifest["epoch"]) + 1
    connection.execute(update(agents).where(agents.c.agent_id == agent_id).values(values))
    return int(known["generation"])


def _is_empty(connection: Connection, agent_id: str) -> bool:
    counts = (
        connection.execute(
            select(func.count()).select_from(table).where(table.c.agent_id == agent_id)
        ).scalar_one()
        for table in (rooms, messages, candidates, revisions)
    )
    return not sum(counts)


def _export(connection: Connection, archive: zipfile.ZipFile, table: Table, agent_id: str) -> int:
    keys = list(table.primary_key.columns)
    found = connection.execute(select(table).where(_of(table, agent_id)).order_by(*keys)).mappings()
    rows = [{name: value for name, value in row.items() if name != "agent_id"} for row in found]
    if rows:
        lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":"), sort_keys=True) for row in rows)
        _put(archive, f"rows/{table.name}.jsonl", "\n".join(lines) + "\n")
    return len(rows)


def _import(connection: Connection, archive: zipfile.ZipFile, table: Table, to: _To) -> int:
    rows = [_row(table, row, to) for row in _rows(archive, table)]
    # An event, or the note about a person, may be here already.
    shared = table in (inbox, *_OWNED)
    adding = (sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert)(table)
    for at in range(0, len(rows), _ROWS_AT_ONCE):
        batch = rows[at : at + _ROWS_AT_ONCE]
        connection.execute(adding.on_conflict_do_nothing() if shared else adding, batch)
    return len(rows)


def _rows(archive: zipfile.ZipFile, table: Table) -> list[dict[str, Any]]:
    name = f"rows/{table.name}.jsonl"
    if name not in archive.namelist():
        return []
    # Not splitlines: what people said may hold any of Unicode's line breaks.
    text = archive.read(name).decode("utf-8", "surrogatepass")
    return [json.loads(line) for line in text.split("\n") if line]


def _taken(connection: Connection, archive: zipfile.ZipFile, table: Table, key: str) -> dict[str, str]:
    """New ids for those that another agent of this server has: a copy stands beside its original."""
    ids = [row[key] for row in _rows(archive, table)]
    found: dict[str, str] = {}
    for at in range(0, len(ids), _ROWS_AT_ONCE):
        known = select(table.c[key]).where(table.c[key].in_(ids[at : at + _ROWS_AT_ONCE]))
        found.update((id_, uuid.uuid4().hex) for id_ in connection.execute(known).scalars())
    return found


def _row(table: Table, row: dict[str, Any], to: _To) -> dict[str, Any]:
    values = {name: value for name, value in row.items() if name in table.c}
    for name in _NAMED_IDS & values.keys():
        values[name] = to.renamed.get(values[name], values[name])
    if "agent_id" in table.c:
        values["agent_id"] = to.agent_id
    if table in _OWNED and values["target"] == "memory":
        values["owner_id"] = to.agent_id
    if table in (runs, jobs):
        values["generation"] = to.generation
    return values


def _of(table: Table, agent_id: str) -> Any:
    if table in _OWNED:
        # The notes about the people that its runs were made for go along.
        people = select(runs.c.user_id).where(runs.c.agent_id == agent_id, runs.c.user_id.is_not(None))
        return or_(
            (table.c.target == "memory") & (table.c.owner_id == agent_id),
            (table.c.target == "user") & table.c.owner_id.in_(people),
        )
    return table.c.agent_id == agent_id


def _put(archive: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    archive.writestr(entry, text.encode("utf-8", "surrogatepass"))


def contents(counts: Mapping[str, int]) -> Iterable[str]:
    """The counts in words, for people."""
    for name, number in counts.items():
        words = name.replace("_", " ")
        if number:
            yield f"{number} {words.removesuffix('s') if number == 1 else words}"
