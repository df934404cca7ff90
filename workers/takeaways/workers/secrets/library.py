"""The rules of Kingfisher beside our own: several hundred kinds of token, compiled into one automaton.

A process compiles them when it first needs them, after any fork. That takes some seconds once a machine, and half
a second where a process of the same user did it before. A scan then runs at hundreds of megabytes a second,
without Python's lock and without the network.
"""

from __future__ import annotations

import re
import threading
from functools import cache
from typing import TYPE_CHECKING, Final

from takeaways.schemas.secrets import Found, masked_at
from takeaways.schemas.secrets import find as find_ours
from takeaways.schemas.secrets.spans import joined, outside_masks

if TYPE_CHECKING:
    from kingfisher_sdk import Scanner

# What no rule finds anything without: a long word that a machine made. Most of what people say has none, and
# a process that reads nothing else never compiles the rules. Passwords in prose and in URLs are ours to find.
_LONG_WORD: Final = re.compile(r"\S{16,}")
_MADE: Final = re.compile(r"\d|[a-z][A-Z]")
_OURS_IS_BETTER: Final = frozenset({"generic credential uri"})
_making: Final = threading.Lock()


def find(text: str) -> list[Found]:
    """The secrets in `text`, in order, none overlapping another; where both know one, ours names it."""
    ours = find_ours(text)
    if not any(_MADE.search(word.group()) for word in _LONG_WORD.finditer(text)):
        return ours
    return joined([*ours, *outside_masks(text, _in_library(text))])


def mask(text: str) -> str:
    """`text` with every secret replaced by its kind. Idempotent; a text without one is the same object."""
    return masked_at(text, find(text))


def load() -> None:
    """Compile the rules now, if this process has not yet. Safe from any thread."""
    with _making:
        _scanner()


@cache
def _scanner() -> Scanner:
    # Imported where it is needed: commands that mask nothing start without it.
    from kingfisher_sdk import Rules, Scanner

    return Scanner(Rules())


def _in_library(text: str) -> list[Found]:
    load()
    data = text.encode("utf-8", "replace")
    found: list[Found] = []
    for one in _scanner().scan(data):
        start, end = one.location["start_offset"], one.location["end_offset"]
        if not one.is_base64_encoded and data[start:end] != one.secret.encode():
            start = data.find(one.secret.encode())  # where the scanner read another encoding into the text
            end = start + len(one.secret.encode())
        if 0 <= start < end <= len(data):
            begin = len(data[:start].decode("utf-8", "ignore"))
            found.append(
                Found(begin, begin + len(data[start:end].decode("utf-8", "ignore")), _kind(one.rule_id))
            )
    return found


def _kind(rule_id: str) -> str:
    """A rule's name in words: `betterleaks.slack-bot-token` is a slack bot token."""
    name = rule_id.rpartition(".")[2].replace("-", " ").replace("_", " ")
    return "password" if name in _OURS_IS_BETTER else name
