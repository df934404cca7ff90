"""Whether bytes that nobody could read name somebody: as text, as JSON writes it, or packed. Pure."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from typing import Final

_MOST_UNPACKED_BYTES: Final = 64 * 1024 * 1024
_PACKED: Final = re.compile(rb'"([A-Za-z0-9+/_-]{24,}={0,2})"')


def mentions(raw: bytes, id_: str) -> bool:
    """Whether `raw` holds the id as a JSON text, however it is escaped, also inside gzip and base64.

    In bytes that are no JSON text it counts anywhere. An id of a few letters is then found too often, never
    too rarely.
    """
    written = {json.dumps(id_).encode(), json.dumps(id_, ensure_ascii=False).encode("utf-8", "surrogatepass")}
    for text in _readings(raw):
        if any(form in text for form in written):
            return True
        if not text.lstrip().startswith(b"{") and id_.encode("utf-8", "surrogatepass") in text:
            return True
    return False


def _readings(raw: bytes) -> Iterator[bytes]:
    yield raw
    yield from _unzipped(raw)
    for packed in _PACKED.findall(raw):
        try:
            inner = base64.b64decode(packed.translate(bytes.maketrans(b"-_", b"+/")), validate=True)
        except (binascii.Error, ValueError):
            continue
        yield inner
        yield from _unzipped(inner)


def _unzipped(raw: bytes) -> Iterator[bytes]:
    """What of it can be unzipped: a cut archive gives its beginning."""
    if not raw.startswith(b"\x1f\x8b"):
        return
    try:
        yield zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(raw, _MOST_UNPACKED_BYTES)
    except (zlib.error, gzip.BadGzipFile):
        return
