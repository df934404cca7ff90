"""Reading an agent's memory back: the note that begins a conversation, and `agent-memory/` in a workspace.

For services:

    Recall, Note, NoteStatus        the note of a conversation, pinned for its life
    write_folder, Written, FolderOutcome, FolderNotWritten
                                    the workspace folder, always one whole revision
    load_memory, load_session_summaries, Revision, snapshot
                                    the memory as data
    memory_md, summary_md, session_summary_md
                                    the memory as Markdown

Needs the extra `recall` (SQLAlchemy and a driver), and neither Celery nor a model's SDK.
"""

from __future__ import annotations

from takeaways.recall.folder import FolderOutcome, Written, write_folder
from takeaways.recall.markdown import memory_md, session_summary_md, summary_md
from takeaways.recall.note import Note, NoteStatus, Recall
from takeaways.recall.store import Revision, load_memory, load_session_summaries, snapshot
from takeaways.recall.switch import FolderNotWritten

__all__ = [
    "FolderNotWritten",
    "FolderOutcome",
    "Note",
    "NoteStatus",
    "Recall",
    "Revision",
    "Written",
    "load_memory",
    "load_session_summaries",
    "memory_md",
    "session_summary_md",
    "snapshot",
    "summary_md",
    "write_folder",
]
