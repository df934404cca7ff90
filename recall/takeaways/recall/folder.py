"""`agent-memory/` in a workspace: the memory as files that an agent reads with the tools it has.

One call makes the folder what the database says: written, left alone when nothing changed, absent
while the agent has no memory, removed when it was erased.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from os import PathLike
from pathlib import Path
from typing import Final

from takeaways.recall import switch
from takeaways.recall.markdown import memory_md, session_summary_md
from takeaways.recall.names import file_stem
from takeaways.recall.store import ROOMS_SHOWN, load_memory, load_session_summaries, snapshot
from takeaways.recall.tokens import Count, count
from takeaways.recall.wrapper import NOTE_BUDGET_TOKENS, carried_summary
from takeaways.schemas.database import Database
from takeaways.schemas.errors import BadInput
from takeaways.schemas.ids import why_bad

_ROUNDS: Final = 8


class FolderOutcome(StrEnum):
    """How writing a folder ended."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    ABSENT = "absent"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Written:
    """What the folder is now. `revision` is 0 for an agent without a memory: then there is no folder.

    `files_hash` is for the next call, as `known`. `edited`: it was not as the last call had left it.
    """

    outcome: FolderOutcome
    revision: int
    folder: Path
    files_hash: str = ""
    edited: bool = False


def write_folder(
    database: Database,
    agent_id: str,
    workspace: str | PathLike[str],
    *,
    rooms: int = ROOMS_SHOWN,
    budget_tokens: int = NOTE_BUDGET_TOKENS,
    count: Count = count,
    known: str | None = None,
) -> Written:
    """Make `agent-memory/` in `workspace` show the current memory of an agent.

    Readers see one whole revision: open the folder once and read its files relative to it. Files and
    folders are read-only, and what was changed by hand is replaced; with the `files_hash` of the last call as
    `known` the result says so. Raises `StoreUnavailable` or
    `FolderNotWritten` when it may work later, and then the folder is as it was; `BadInput` for a
    workspace that is no folder, or where somebody else's `agent-memory` stands.
    """
    if problem := why_bad(agent_id):
        raise BadInput(f"agent_id: {problem}")
    root = Path(workspace)
    changed = False
    revision = 0
    files: dict[str, bytes] = {}
    with switch.opened(root) as place:
        edited = known is not None and switch.hash_on_disk(place) != known
        # After a change the database is asked again: an erasure that came meanwhile must find nothing here.
        for _ in range(_ROUNDS):
            revision, files = _files(database, agent_id, rooms, budget_tokens, count)
            if not files:
                if not switch.remove(place):
                    break
            elif switch.holds(place, files):
                break
            else:
                switch.replace(place, files)
            changed = True
    outcome = _OUTCOMES[bool(files), changed]
    return Written(outcome, revision, root / switch.NAME, switch.hash_of(files), edited)


_OUTCOMES: Final = {
    (True, True): FolderOutcome.WRITTEN,
    (True, False): FolderOutcome.UNCHANGED,
    (False, True): FolderOutcome.REMOVED,
    (False, False): FolderOutcome.ABSENT,
}


def _files(
    database: Database, agent_id: str, rooms: int, budget_tokens: int, count: Count
) -> tuple[int, dict[str, bytes]]:
    """The number of the current revision and all files of the folder; none while there is no memory."""
    with snapshot(database) as connection:
        revision = load_memory(connection, agent_id)
        summaries = load_session_summaries(connection, agent_id, rooms) if revision.number else []
    if not revision.number:
        return 0, {}
    summary = carried_summary(agent_id, revision, budget_tokens=budget_tokens, count=count)
    texts = {"summary.md": summary, "MEMORY.md": memory_md(revision.memory)}
    for session in summaries:
        texts[f"{switch.SESSIONS}/{file_stem(session.room_id)}.md"] = session_summary_md(session)
    return revision.number, {name: text.encode() for name, text in texts.items()}
