"""Reading an agent's memory back: the note that begins a conversation, and `agent-memory/` in a workspace.

For services:

    Recall, Note, NoteStatus, Reach the note of a conversation, pinned for its life; tools to read and search more
    AsyncRecall, AsyncStandingNotes, AsyncToolbox
                                    the same for asyncio
    at_head_anthropic, at_head_openai, at_head_text, as_typed
                                    where notes belong in a conversation
    Toolbox, Tool, Call             tools for Anthropic, OpenAI and plain Python
    takeaways.recall.standing       standing notes, which the agent writes itself
    takeaways.recall.workspaces     the registered workspaces of a machine, kept up to date
    write_folder, Written, FolderOutcome, FolderNotWritten
                                    the workspace folder, always one whole revision
    load_memory, load_session_summaries, Revision, snapshot
                                    the memory as data
    memory_md, summary_md, session_summary_md
                                    the memory as Markdown

Needs the extra `recall` (SQLAlchemy and a driver), and neither Celery nor a model's SDK.
"""

from __future__ import annotations

from takeaways.recall.aio import AsyncRecall, AsyncStandingNotes, AsyncToolbox, write_folder_async
from takeaways.recall.folder import FolderOutcome, Written, write_folder
from takeaways.recall.heads import as_typed, at_head_anthropic, at_head_openai, at_head_text
from takeaways.recall.markdown import memory_md, session_summary_md, summary_md
from takeaways.recall.note import Note, NoteStatus, Recall
from takeaways.recall.store import Revision, load_memory, load_session_summaries, snapshot
from takeaways.recall.switch import FolderNotWritten
from takeaways.recall.tools import Call, Tool, Toolbox
from takeaways.recall.wrapper import Reach

__all__ = [
    "AsyncRecall",
    "AsyncStandingNotes",
    "AsyncToolbox",
    "Call",
    "FolderNotWritten",
    "FolderOutcome",
    "Note",
    "NoteStatus",
    "Reach",
    "Recall",
    "Revision",
    "Tool",
    "Toolbox",
    "Written",
    "as_typed",
    "at_head_anthropic",
    "at_head_openai",
    "at_head_text",
    "load_memory",
    "load_session_summaries",
    "memory_md",
    "session_summary_md",
    "snapshot",
    "summary_md",
    "write_folder",
    "write_folder_async",
]
