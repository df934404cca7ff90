"""Where the real conversations lie. They are not ours to ship, so a test that needs them skips without them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

DATA: Final = Path(os.environ.get("TAKEAWAYS_DATA") or Path(__file__).parents[2] / "shared" / "data")
"""`TAKEAWAYS_DATA`, else `../shared/data` beside the repository."""

NO_DATA: Final = f"no conversations at {DATA}; set TAKEAWAYS_DATA"
needs_data: Final = pytest.mark.skipif(not DATA.is_dir(), reason=NO_DATA)
