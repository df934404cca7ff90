"""The workspaces of a machine, and keeping `agent-memory/` in each of them up to date.

A workspace belongs to one agent on one machine; an agent may have many, on many machines. Each machine keeps
its own up to date: `Workspaces.sync` once, `watch` for as long as it runs. What an agent's folder shows changes
only when one of a few counters in its row does, so watching is one indexed query for all workspaces of the
machine, and a folder is opened only where something happened. From time to time all are looked into, which finds
edits by hand.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final

from sqlalchemy import ColumnElement, String, cast, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite

from takeaways.recall import switch
from takeaways.recall.folder import FolderOutcome, write_folder
from takeaways.recall.store import answered_or_unavailable
from takeaways.schemas.database import Database, now_ms
from takeaways.schemas.errors import BadInput, StoreUnavailable, TakeawaysError, Transient
from takeaways.schemas.ids import derived, why_bad
from takeaways.schemas.tables import agents, workspaces

EVERY_SECONDS: Final = 1.0
CHECK_SECONDS: Final = 60.0
_AT_ONCE: Final = 8
FAILED: Final = "failed"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A registered folder, and how its last sync ended: a `FolderOutcome`, "failed", or None before the first."""

    agent_id: str
    path: str
    machine: str
    outcome: str | None
    detail: str | None
    checked_ms: int | None
    edited_ms: int | None


@dataclass(frozen=True, slots=True)
class Synced:
    """How one workspace was brought up to date. `outcome` is "failed" with `detail` where it could not be."""

    agent_id: str
    path: str
    outcome: str
    revision: int = 0
    edited: bool = False
    detail: str = ""


class Workspaces:
    """The workspaces that are registered for `machine`: by default this one's host name."""

    def __init__(self, database: Database, *, machine: str | None = None) -> None:
        self.machine = machine or socket.gethostname()
        if problem := why_bad(self.machine):
            raise BadInput(f"machine: {problem}")
        self._database = database

    def register(self, agent_id: str, path: str | PathLike[str]) -> Workspace:
        """Keep `agent-memory/` in this folder for an agent from now on; the same again changes nothing.

        Raises `BadInput` for a folder that is not there, or that belongs to another agent.
        """
        if problem := why_bad(agent_id):
            raise BadInput(f"agent_id: {problem}")
        where = _absolute(path)
        if not Path(where).is_dir():
            raise BadInput(f"{where} is no folder; make it first")
        with answered_or_unavailable(), self._database.write() as connection:
            insert = sqlite.insert if self._database.is_sqlite else postgresql.insert
            connection.execute(
                insert(workspaces)
                .values(
                    workspace_id=self._id(where),
                    machine=self.machine,
                    agent_id=agent_id,
                    path=where,
                    registered_ms=now_ms(connection),
                )
                .on_conflict_do_nothing()
            )
            owner = connection.execute(
                select(workspaces.c.agent_id).where(workspaces.c.workspace_id == self._id(where))
            ).scalar_one()
        if owner != agent_id:
            raise BadInput(f"{where} is a workspace of agent {owner!r}; unregister it first")
        return next(one for one in self.listed() if one.path == where)

    def unregister(self, path: str | PathLike[str]) -> bool:
        """Forget a workspace and take `agent-memory/` out of it; whether it was registered."""
        where = _absolute(path)
        with answered_or_unavailable(), self._database.write() as connection:
            gone = connection.execute(
                delete(workspaces).where(workspaces.c.workspace_id == self._id(where))
            ).rowcount
        if gone and Path(where).is_dir():
            with switch.opened(Path(where)) as place:
                switch.remove(place)
        return bool(gone)

    def listed(self) -> list[Workspace]:
        """All workspaces of this machine."""
        columns = [workspaces.c[name] for name in Workspace.__dataclass_fields__]
        query = select(*columns).where(workspaces.c.machine == self.machine).order_by(workspaces.c.path)
        with answered_or_unavailable(), self._database.read() as connection:
            return [Workspace(*row) for row in connection.execute(query)]

    def sync(self, agent_ids: Sequence[str] | None = None, *, check: bool = True) -> list[Synced]:
        """Bring the workspaces of this machine up to date, of all agents or of some; what became of each.

        With `check` every folder is looked into, and edits by hand are found; without, only those whose agent
        has changed since. One that fails holds up no other. Raises `StoreUnavailable` when the database is away.
        """
        stamp = _stamp()
        query = (
            select(
                workspaces.c.workspace_id,
                workspaces.c.agent_id,
                workspaces.c.path,
                workspaces.c.files_hash,
                stamp.label("stamp"),
            )
            .outerjoin_from(workspaces, agents, agents.c.agent_id == workspaces.c.agent_id)
            .where(workspaces.c.machine == self.machine)
            .order_by(workspaces.c.path)
        )
        if agent_ids is not None:
            query = query.where(workspaces.c.agent_id.in_(agent_ids))
        if not check:
            query = query.where(workspaces.c.shown.is_distinct_from(stamp))
        with answered_or_unavailable(), self._database.read() as connection:
            due = connection.execute(query).all()
        if not due:
            return []
        with ThreadPoolExecutor(min(_AT_ONCE, len(due)), thread_name_prefix="takeaways-sync") as pool:
            return list(pool.map(lambda row: self._synced(*row), due))

    def watch(
        self,
        stop: threading.Event,
        *,
        agent_ids: Sequence[str] | None = None,
        every_seconds: float = EVERY_SECONDS,
        check_seconds: float = CHECK_SECONDS,
        report: Callable[[Synced], None] = lambda synced: None,
    ) -> None:
        """Keep the workspaces up to date until `stop` is set. `report` is told of each that was not as it should be.

        While the database is away the folders stay as they are.
        """
        check_at = time.monotonic()
        away = False
        while True:
            check = time.monotonic() >= check_at
            try:
                for synced in self.sync(agent_ids, check=check):
                    if synced.edited or synced.outcome not in (FolderOutcome.UNCHANGED, FolderOutcome.ABSENT):
                        report(synced)
                if check:
                    check_at = time.monotonic() + check_seconds
                away = False
            except StoreUnavailable as error:
                if not away:
                    _log.warning("the workspaces wait: %s", error)
                away = True
            if stop.wait(every_seconds):
                return

    def _synced(self, workspace_id: str, agent_id: str, path: str, known: str | None, stamp: str) -> Synced:
        try:
            written = write_folder(self._database, agent_id, path, known=known)
            done = Synced(agent_id, path, written.outcome, written.revision, written.edited)
            values = {"files_hash": written.files_hash, "shown": stamp}
        except TakeawaysError as error:
            done = Synced(agent_id, path, FAILED, detail=str(error))
            # What only somebody at the machine can mend is looked at again when the agent changes, or at a check.
            values = {} if isinstance(error, Transient) else {"shown": stamp}
        if done.edited:
            _log.warning("%s was changed by hand; it shows the memory again", Path(path) / switch.NAME)
        try:
            self._keep(workspace_id, done, values)
        except StoreUnavailable as error:
            _log.warning("%s is up to date, but that could not be stored: %s", path, error)
        return done

    def _keep(self, workspace_id: str, done: Synced, values: dict[str, str]) -> None:
        with answered_or_unavailable(), self._database.write() as connection:
            at_ms = now_ms(connection)
            connection.execute(
                update(workspaces)
                .where(workspaces.c.workspace_id == workspace_id)
                .values(
                    outcome=done.outcome,
                    detail=done.detail or None,
                    checked_ms=at_ms,
                    **values,
                    **({"edited_ms": at_ms} if done.edited else {}),
                )
            )

    def _id(self, path: str) -> str:
        return derived("workspace", self.machine, path)


def _stamp() -> ColumnElement[str]:
    """What changes whenever the folder of an agent may show something else: its counters, epoch and generation."""
    parts = (
        agents.c.generation,
        agents.c.epoch,
        agents.c.revision,
        agents.c.messages_read,
        agents.c.candidates_settled,
    )
    joined: ColumnElement[str] = cast(parts[0], String)
    for part in parts[1:]:
        joined = joined + "." + cast(part, String)
    return func.coalesce(joined, "")


def _absolute(path: str | PathLike[str]) -> str:
    where = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - also for names that no Path accepts
    if isinstance(where, bytes) or "\0" in where or not _is_text(where):
        raise BadInput("the path of a workspace is text that can be stored; rename the folder")
    return where


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
