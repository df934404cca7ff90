"""`docs/settings.md`, written from `Settings`: `make settings`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pydantic.fields import FieldInfo

from takeaways.workers.settings import PREFIX, Settings

_INTRODUCTION: Final = """# Settings

All come from the environment. `takeaways config check` shows what holds, where it comes from, and what is
wrong with it. A variable that begins with `TAKEAWAYS_` and that nothing reads is named in a warning. URLs are
shown without user, password and query. What is not set comes from a `takeaways up` that runs with the same
home, so that a second terminal meets it; else from the defaults below.

Tables are given as JSON. An empty variable is one that is not set. This page is made from the code by
`make settings`.
"""
_SECTIONS: Final = {
    "home": "Where things are",
    "model": "The model",
    "pool": "A worker process",
    "runs_per_extraction": "When work is due, and how long it may take",
    "raw_text_days": "What is kept",
    "metrics": "Metrics and logs",
}
"""The heading above a field and those that follow it."""
_SAID: Final = {"home": "~/.local/share/takeaways"}
"""Defaults that depend on the machine."""


def page() -> str:
    """The whole page, as it should be on disk."""
    return _INTRODUCTION + "".join(_rows())


def _rows() -> Iterator[str]:
    for name, info in Settings.model_fields.items():
        if name in _SECTIONS:
            yield f"\n## {_SECTIONS[name]}\n\n| variable | default | meaning |\n| --- | --- | --- |\n"
        yield f"| `{PREFIX}{name.upper()}` | {_default(name, info)} | {info.description} |\n"


def _default(name: str, info: FieldInfo) -> str:
    value: Any = _SAID.get(name) or info.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ("", {}):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
