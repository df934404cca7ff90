"""Finding the one entry that `old_text` means."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from takeaways.recall.standing.codes import Code, Refused
from takeaways.recall.standing.text import canonical

_PLAIN: Final = str.maketrans(
    {
        **dict.fromkeys("“”„«»", '"'),
        **dict.fromkeys("‘’‚", "'"),
        **dict.fromkeys("\u2010\u2011\u2012–—\u2015\u2212", "-"),
        "…": "...",
    }
)
_DASHES: Final = re.compile("-+")


class MatchedBy(StrEnum):
    """How an entry was found."""

    WHOLE = "whole"
    SUBSTRING = "substring"
    NORMALIZED = "normalized"


@dataclass(frozen=True, slots=True)
class Match:
    place: int
    by: MatchedBy


def match(entries: Sequence[str], old_text: object) -> Match:
    """Equality with a whole entry goes first, then a unique substring, then a unique one whatever the white
    space and the style of quotes, dashes and dots. Raises `Refused` where none or several match, with their places
    in `matches`; case is never folded, because notes name things. Of entries that are the same, which only a hand
    can have written, the first is meant.
    """
    if old_text is not None and not isinstance(old_text, str):
        raise Refused(Code.INVALID_ARGUMENT, f"`old_text` is text, not {type(old_text).__name__}.")
    if old_text is None or not old_text.strip():
        raise Refused(
            Code.MISSING_OLD_TEXT,
            "`old_text` is missing. Give a piece of text that stands in exactly the one entry you mean.",
        )
    wanted = unicodedata.normalize("NFC", old_text).strip()
    for by, text, texts in (
        (MatchedBy.SUBSTRING, wanted, entries),
        (MatchedBy.NORMALIZED, _plain(canonical(wanted)), [_plain(entry) for entry in entries]),
    ):
        whole = [place for place, entry in enumerate(texts) if entry == text]
        if len({entries[place] for place in whole}) == 1:
            return Match(whole[0], MatchedBy.WHOLE if by is MatchedBy.SUBSTRING else by)
        found = [place for place, entry in enumerate(texts) if text in entry] if text else []
        if len({entries[place] for place in found}) == 1:
            return Match(found[0], by)
        if found:
            raise Refused(
                Code.AMBIGUOUS_MATCH,
                f"`old_text` stands in {len(found)} entries. Give more of the one you mean.",
                matches=found,
            )
    raise Refused(Code.NO_MATCH, "No entry holds `old_text`. Copy it from the current entries.")


def _plain(text: str) -> str:
    return _DASHES.sub("-", "".join(text.split()).translate(_PLAIN))
