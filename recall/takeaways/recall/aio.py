"""The asyncio twins: the same calls with the same results, each to be awaited.

The work runs on threads of a pool of its own, because there is one way to speak to the database. An event loop is
never held up, and a call that is cancelled ends by itself within its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from os import PathLike
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeVar

from takeaways.recall.folder import Written, write_folder
from takeaways.recall.note import Note, Recall
from takeaways.recall.standing import Revision, Snapshot, StandingNotes, Target, View
from takeaways.recall.standing.exchange import Imported
from takeaways.recall.tools import Tool, Toolbox
from takeaways.schemas.database import Database

P = ParamSpec("P")
T = TypeVar("T")
_THREADS: Final = 32


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="takeaways-recall")


async def _off_the_loop(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return await asyncio.get_running_loop().run_in_executor(_pool(), partial(work, *args, **kwargs))


async def write_folder_async(
    database: Database, agent_id: str, workspace: str | PathLike[str], **options: Any
) -> Written:
    """As `write_folder`."""
    return await _off_the_loop(write_folder, database, agent_id, workspace, **options)


class AsyncRecall:
    """`Recall` for asyncio; takes the same arguments. It may be shared between event loops."""

    def __init__(self, database: Database | str, **options: Any) -> None:
        self.blocking = Recall(database, **options)

    async def note(
        self, agent_id: str, room_id: str, conversation_id: str, compaction: int | None = None
    ) -> Note:
        """As `Recall.note`."""
        return await _off_the_loop(self.blocking.note, agent_id, room_id, conversation_id, compaction)

    async def is_ours(self, agent_id: str, text: str) -> bool:
        """As `Recall.is_ours`."""
        return await _off_the_loop(self.blocking.is_ours, agent_id, text)

    async def read_memory(
        self, agent_id: str, *, topic: str | None = None, room: str | None = None, page: int = 1
    ) -> dict[str, Any]:
        """As `Recall.read_memory`."""
        return await _off_the_loop(self.blocking.read_memory, agent_id, topic=topic, room=room, page=page)

    async def search_memory(self, agent_id: str, query: str, *, limit: int = 10) -> dict[str, Any]:
        """As `Recall.search_memory`."""
        return await _off_the_loop(self.blocking.search_memory, agent_id, query, limit=limit)

    def tools(self, agent_id: str) -> list[Tool]:
        """As `Recall.tools`, for an `AsyncToolbox`."""
        return self.blocking.tools(agent_id)

    async def close(self) -> None:
        """As `Recall.close`."""
        await _off_the_loop(self.blocking.close)

    async def __aenter__(self) -> AsyncRecall:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AsyncToolbox:
    """`Toolbox` for asyncio: definitions are at hand, answers are awaited."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.blocking = Toolbox(tools)

    def for_anthropic(self) -> list[dict[str, Any]]:
        """As `Toolbox.for_anthropic`."""
        return self.blocking.for_anthropic()

    def for_openai(self) -> list[dict[str, Any]]:
        """As `Toolbox.for_openai`."""
        return self.blocking.for_openai()

    async def call(
        self, name: str, arguments: object, *, call_id: str | None = None, turn_id: str | None = None
    ) -> dict[str, Any]:
        """As `Toolbox.call`."""
        return await _off_the_loop(self.blocking.call, name, arguments, call_id=call_id, turn_id=turn_id)

    async def answer_anthropic(
        self, content: Iterable[Any], *, turn_id: str | None = None
    ) -> list[dict[str, Any]]:
        """As `Toolbox.answer_anthropic`."""
        return await _off_the_loop(self.blocking.answer_anthropic, content, turn_id=turn_id)

    async def answer_openai(self, message: Any, *, turn_id: str | None = None) -> list[dict[str, Any]]:
        """As `Toolbox.answer_openai`."""
        return await _off_the_loop(self.blocking.answer_openai, message, turn_id=turn_id)


class AsyncStandingNotes:
    """`StandingNotes` for asyncio; takes the same arguments."""

    def __init__(self, store: Any, **options: Any) -> None:
        self.blocking = StandingNotes(store, **options)

    async def call(self, arguments: object, **options: Any) -> dict[str, Any]:
        """As `StandingNotes.call`."""
        return await _off_the_loop(self.blocking.call, arguments, **options)

    def tools(self, agent_id: str, *, user_id: str | None = None) -> list[Tool]:
        """As `StandingNotes.tools`, for an `AsyncToolbox`."""
        return self.blocking.tools(agent_id, user_id=user_id)

    async def snapshot(
        self,
        agent_id: str,
        room_id: str,
        conversation_id: str,
        compaction: int | None = None,
        *,
        user_id: str | None = None,
        reload: bool = False,
    ) -> Snapshot:
        """As `StandingNotes.snapshot`."""
        return await _off_the_loop(
            self.blocking.snapshot,
            agent_id,
            room_id,
            conversation_id,
            compaction,
            user_id=user_id,
            reload=reload,
        )

    async def view(self, target: Target, owner_id: str) -> View:
        """As `StandingNotes.view`."""
        return await _off_the_loop(self.blocking.view, target, owner_id)

    async def history(self, target: Target, owner_id: str) -> list[Revision]:
        """As `StandingNotes.history`."""
        return await _off_the_loop(self.blocking.history, target, owner_id)

    async def undo(self, target: Target, owner_id: str, version: int) -> View:
        """As `StandingNotes.undo`."""
        return await _off_the_loop(self.blocking.undo, target, owner_id, version)

    async def export(self, target: Target, owner_id: str) -> str:
        """As `StandingNotes.export`."""
        return await _off_the_loop(self.blocking.export, target, owner_id)

    async def import_(
        self, target: Target, owner_id: str, text: str | bytes, *, force: bool = False
    ) -> Imported:
        """As `StandingNotes.import_`."""
        return await _off_the_loop(self.blocking.import_, target, owner_id, text, force=force)

    async def redact(self, target: Target, owner_id: str, version: int) -> None:
        """As `StandingNotes.redact`."""
        await _off_the_loop(self.blocking.redact, target, owner_id, version)

    async def erase(self, target: Target, owner_id: str) -> None:
        """As `StandingNotes.erase`."""
        await _off_the_loop(self.blocking.erase, target, owner_id)

    async def close(self) -> None:
        """As `StandingNotes.close`."""
        await _off_the_loop(self.blocking.close)

    async def __aenter__(self) -> AsyncStandingNotes:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
