"""Conversations that other tools wrote into files, as the events that they would have been.

`read` turns a file or a folder into rooms; `events_of` turns a room into wire events. Neither needs a
database, and both give the same answer for the same files, so importing twice changes nothing.
"""

from __future__ import annotations

from takeaways.workers.importing.files import conversation_files, read
from takeaways.workers.importing.problems import Problem, Report
from takeaways.workers.importing.rooms import ImportedCompaction, ImportedRoom, ImportedRun
from takeaways.workers.importing.wire import SOURCE, events_of, run_event

__all__ = [
    "SOURCE",
    "ImportedCompaction",
    "ImportedRoom",
    "ImportedRun",
    "Problem",
    "Report",
    "conversation_files",
    "events_of",
    "read",
    "run_event",
]
