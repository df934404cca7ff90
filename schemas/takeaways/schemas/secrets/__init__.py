"""Finding secrets in text and putting into their place what kind they were. Deterministic, and needs nothing else.

`mask` is for text that is stored or shown, `find` for those who want to count. Workers add the rules of a
library to these: see `takeaways.workers.secrets`.
"""

from __future__ import annotations

from takeaways.schemas.secrets.finding import Found, find
from takeaways.schemas.secrets.masking import mask, masked_at, placeholder, without_masks
from takeaways.schemas.secrets.messages import mask_label, mask_parts

__all__ = ["Found", "find", "mask", "mask_label", "mask_parts", "masked_at", "placeholder", "without_masks"]
