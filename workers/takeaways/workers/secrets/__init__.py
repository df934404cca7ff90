"""Keeping secrets out of the memory: our own detectors and those of a library, for all that workers read and write.

`mask` and `find` are as in `takeaways.schemas.secrets`, and know several hundred kinds more.
"""

from __future__ import annotations

from takeaways.workers.secrets.answers import mask_answer
from takeaways.workers.secrets.library import find, load, mask

__all__ = ["find", "load", "mask", "mask_answer"]
