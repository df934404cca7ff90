"""Standing notes: two tiny texts, always in the prompt, that an agent edits itself with the tool `memory`.

StandingNotes                   the notes of all agents and persons in one store
MemoryStore, DatabaseStore      where they are kept
Snapshot, SnapshotStatus        what a conversation shows
Target, Code                    the words of requests and answers
Refused, Revision, View         for people who look after notes
"""

from __future__ import annotations

from takeaways.recall.standing.caps import MEMORY_CHARS, USER_CHARS
from takeaways.recall.standing.codes import Code, Refused
from takeaways.recall.standing.in_database import DatabaseStore
from takeaways.recall.standing.in_memory import MemoryStore
from takeaways.recall.standing.notes import Snapshot, SnapshotStatus, StandingNotes, View
from takeaways.recall.standing.request import Target
from takeaways.recall.standing.store import Revision

__all__ = [
    "MEMORY_CHARS",
    "USER_CHARS",
    "Code",
    "DatabaseStore",
    "MemoryStore",
    "Refused",
    "Revision",
    "Snapshot",
    "SnapshotStatus",
    "StandingNotes",
    "Target",
    "View",
]
