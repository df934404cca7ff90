"""File names for ids: safe on every file system, and different ids never share one.

A plain id is its own name. Any other becomes a readable slug, `~` and a part of its hash; `~` stands in
no plain id, and upper case is not plain, because some file systems take `A` and `a` for one. A secret in an id
is not shown.
"""

from __future__ import annotations

import re
from typing import Final

from takeaways.schemas.errors import BadInput
from takeaways.schemas.ids import digest, why_bad
from takeaways.schemas.secrets import mask

_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}", re.ASCII)
_DEVICES: Final = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.ASCII)
_SLUG_LENGTH: Final = 40
_HASH_LENGTH: Final = 24


def file_stem(any_id: str) -> str:
    """The name of a file or folder for `any_id`, without a suffix. Raises `BadInput` for what is no id."""
    if problem := why_bad(any_id):
        raise BadInput(problem)
    shown = mask(any_id)
    is_plain = _PLAIN.fullmatch(any_id) and not _DEVICES.fullmatch(any_id) and not any_id.endswith(".")
    if is_plain and shown == any_id:
        return any_id
    slug = re.sub(r"[^a-z0-9]+", "-", shown.lower(), flags=re.ASCII)[:_SLUG_LENGTH].strip("-")
    return f"{slug or 'id'}~{digest(any_id)[:_HASH_LENGTH]}"
