"""`ClaudeServer`: a stand-in for Claude's API over real HTTP, for tests, examples and trying things out.

It checks requests as the API does, counts tokens and its prompt cache, streams, and answers what Takeaways asks from
`OfflineModel` or a script; `script` has the faults. `takeaways claude-stub` runs it.
"""

from __future__ import annotations

from takeaways.workers.testing.claude import script
from takeaways.workers.testing.claude.script import OK, Break, Scripted, ToolUse
from takeaways.workers.testing.claude.served import DEFAULT_MODELS, Served, dense_count
from takeaways.workers.testing.claude.server import ClaudeServer, Request

__all__ = [
    "DEFAULT_MODELS",
    "OK",
    "Break",
    "ClaudeServer",
    "Request",
    "Scripted",
    "Served",
    "ToolUse",
    "dense_count",
    "script",
]
