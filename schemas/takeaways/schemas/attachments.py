"""Files in a message: where each API puts the bytes, the type, the name and the text of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from takeaways.schemas.parts import AnyPart, Attachment, Text
from takeaways.schemas.readable import BYTES_KEYS, DATA_URL, cleaned, decoded_bytes, label, whole_number

Json = dict[str, Any]

FILE_KINDS: Final = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "document": "document",
    "audio": "audio",
    "input_audio": "audio",
    "video": "video",
    "file": "file",
    "input_file": "file",
    "container_upload": "file",
    "resource": "file",
    "resource_link": "file",
}
PLAIN_KINDS: Final = frozenset(FILE_KINDS.values())

_URL_KEYS: Final = ("url", "uri", "image_url", "file_url", "fileUri")
_MEDIA_TYPE_KEYS: Final = ("media_type", "mimeType", "mime_type")
_NAME_KEYS: Final = ("title", "filename", "file_name", "name", "file_id", "fileId")
# Where APIs put what an attachment is, inside its block.
_HOLDER_KEYS: Final = (
    "source",
    "image_url",
    "input_audio",
    "file",
    "resource",
    "inlineData",
    "fileData",
    "image",
    "document",
    "video",
    "audio",
)


def attachment(block: Json, kind: str, inside: Callable[[Any], list[AnyPart]]) -> list[AnyPart]:
    """Read the block of a file; `inside` reads content that stands in it. Its text is text of the attachment,
    all else that was in it follows beside.
    """
    holders = [block, *(value for key in _HOLDER_KEYS if isinstance(value := block.get(key), dict))]
    if isinstance(inner := holders[-1].get("source"), dict) and inner is not block.get("source"):
        holders.append(inner)
    data, url = _anywhere(holders, BYTES_KEYS), _anywhere(holders, _URL_KEYS)
    media_type = _anywhere(holders, _MEDIA_TYPE_KEYS) or _media_type_of(kind, holders)
    text, beside = _text_inside(block, holders, inside)
    if text and data and "text" in (holder.get("type") for holder in holders):
        data = ""
    for source in (data, url):
        if inline := DATA_URL.match(source):
            media_type, data, url = media_type or inline[1] or "", inline[2], ""
    size_bytes = whole_number(_anywhere_raw(holders, ("size_bytes", "size")))
    # What was said aloud is said: a voice note speaks for who sent it.
    if kind == "audio" and (transcript := cleaned(_anywhere(holders, ("transcript",)))):
        beside = [Text(text=transcript), *beside]
    found = Attachment(
        kind=kind,
        media_type=label(media_type),
        size_bytes=decoded_bytes(data) if data else size_bytes,
        name=label(_anywhere(holders, _NAME_KEYS) or url),
        text=text,
        cut_chars=whole_number(block.get("cut_chars")) or 0,
    )
    return [found, *beside]


def _text_inside(
    block: Json, holders: list[Json], inside: Callable[[Any], list[AnyPart]]
) -> tuple[str, list[AnyPart]]:
    """What an attachment says where it came as text, and the parts that stood in it beside."""
    pieces: list[str] = [
        said for key in ("context", "description") if isinstance(said := block.get(key), str)
    ]
    beside: list[AnyPart] = []
    for holder in holders:
        said = holder.get("data") if holder.get("type") == "text" else holder.get("text")
        if isinstance(said, str):
            pieces.append(said)
        if isinstance(content := holder.get("content"), str | list):
            for part in inside(content):
                if isinstance(part, Text):
                    pieces.append(part.text)
                else:
                    beside.append(part)
    return cleaned("\n".join(pieces)), beside


def _media_type_of(kind: str, holders: list[Json]) -> str:
    name = _anywhere(holders, ("format",))
    return f"{kind}/{name}" if name and kind in ("image", "audio", "video") else ""


def _anywhere(holders: list[Json], keys: tuple[str, ...]) -> str:
    value = _anywhere_raw(holders, keys, str)
    return value if isinstance(value, str) else ""


def _anywhere_raw(holders: list[Json], keys: tuple[str, ...], of: type = object) -> Any:
    for key in keys:
        for holder in holders:
            value = holder.get(key)
            if value is not None and isinstance(value, of):
                return value
    return None
