"""What a language model is told, in files of its own: `extraction.md`, `consolidation.md`, and three short ones.

`extraction` and `consolidation` are the instructions, which come first and stay the same, so that a provider can
cache them. `closing` ends the material, `repair` asks for another answer, `schema` is for a provider that takes no
schema of its own.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources
from typing import Final

NAMES: Final = ("extraction", "consolidation", "closing", "repair", "schema")


@cache
def prompt(name: str) -> str:
    """The text of a prompt, without white space around it."""
    return resources.files(__package__).joinpath(f"{name}.md").read_text(encoding="utf-8").strip()


def prompts_version(*more: str) -> str:
    """Changes with every word of any prompt, and of `more` (schemas): `claude-` and eight hexadecimal digits."""
    whole = "\0".join([*map(prompt, NAMES), *more])
    return f"claude-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
