"""A headless Chromium: what a person would see on a page, as text and as a picture."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def browser() -> str:
    """The program; a test that needs it is skipped where there is none."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium: `apt-get install chromium` has one")
    return found


def seen(url: str, *, picture: Path | None = None, width: int = 1400, height: int = 600) -> str:
    """The page's document after its scripts have run, as HTML."""
    with tempfile.TemporaryDirectory() as profile:
        options = [
            browser(),
            *("--headless", "--disable-gpu", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"),
            *(f"--user-data-dir={profile}", f"--window-size={width},{height}"),
            *("--virtual-time-budget=8000", "--dump-dom"),
            *([f"--screenshot={picture}"] if picture else []),
            url,
        ]
        done = subprocess.run(options, capture_output=True, timeout=90, check=True)
    return done.stdout.decode("utf-8", "replace")
