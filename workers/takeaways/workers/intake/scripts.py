"""The scripts that Redis runs on the streams."""

from __future__ import annotations

from importlib.resources import files


def script(*names: str) -> str:
    """The text of a script, after those that it builds on."""
    return "\n".join(files(__package__).joinpath(f"{name}.lua").read_text("utf-8") for name in names)
