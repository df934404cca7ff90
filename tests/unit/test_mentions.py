"""Finding out whether bytes that nobody could read name somebody: an erasure must not pass over them."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from takeaways.workers.erasure.mentions import mentions

EVENT = json.dumps({"subject": "scöut", "data": {"room": {"id": "room-1"}}})


@pytest.mark.parametrize(
    "raw",
    [
        EVENT.encode(),
        json.dumps({"subject": "scöut"}, ensure_ascii=False).encode(),
        EVENT.encode()[:-9],
        gzip.compress(EVENT.encode()),
        gzip.compress(EVENT.encode() * 50)[:-12],
        json.dumps({"data_base64": base64.b64encode(gzip.compress(EVENT.encode())).decode()}).encode(),
        json.dumps({"data_base64": base64.urlsafe_b64encode(EVENT.encode()).decode()}).encode(),
        "\ufeffno JSON at all: scöut was here".encode(),
    ],
    ids=["escaped", "as it is", "cut", "gzip", "cut gzip", "base64 of gzip", "base64", "no JSON"],
)
def test_a_name_is_found_however_it_is_packed(raw: bytes) -> None:
    """A dead letter may be anything: that is why it is one."""
    assert mentions(raw, "scöut")


@pytest.mark.parametrize(
    "raw",
    [
        EVENT.encode(),
        b"\x1f\x8b\x08garbage",
        b'{"data_base64": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}',
        b"",
        b"\x00\xff\xfe",
    ],
)
def test_somebody_else_is_not_found_and_garbage_breaks_nothing(raw: bytes) -> None:
    """What is not about them is not theirs to erase; an id is no part of a longer one."""
    assert not mentions(raw, "room-")
    assert not mentions(raw, "scout")
