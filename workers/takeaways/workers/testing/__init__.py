"""Stand-ins for tests, ours and other people's: `ScriptedModel` answers by rule or by script, without a
model.
"""

from __future__ import annotations

from takeaways.workers.testing.scripted import ScriptedModel

__all__ = ["ScriptedModel"]
