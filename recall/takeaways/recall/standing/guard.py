"""What must not stand in a note: secrets, orders planted for the model, hidden characters, our own frame.

Checked when an entry is written, and again whenever it is shown, because rows are also written by imports
and by hand. Patterns look for an order (a verb with its object), not for words: notes may speak of keys,
prompts and rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from takeaways.recall.standing.codes import Code, Refused
from takeaways.recall.standing.text import is_marker
from takeaways.schemas import secrets
from takeaways.schemas.hidden import hidden, revealed


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a text may not be kept. `name` says which rule it breaks and never quotes it."""

    code: Code
    name: str


Scan = Callable[[str], Finding | None]
BLOCKED: Final = "[blocked entry"

_ORDERS: Final = {
    "override": r"""
        \b(?:ignore|disregard|forget|override|bypass)\s+(?:\w+\s+){0,3}?
        (?:previous|prior|above|earlier|preceding|existing|system|your|safety|developer)\s+(?:\w+\s+){0,2}?
        (?:instructions?|prompts?|rules?|guidelines?|directives?|context|messages?|polic(?:y|ies))\b
        | \bignor(?:e|iere|ez|a)\s+(?:todas?\s+las?|alle|toutes\s+les)\s+(?:\w+\s+){0,3}?
          (?:instrucciones|anweisungen|instructions|regeln|reglas|r[eè]gles)""",
    "role": r"""
        \byou\s+are\s+(?:now|no\s+longer)\s+(?:an?\s+|the\s+|in\s+|bound\b|restricted\b)
        | \b(?:pretend|act)\s+(?:to\s+be|as\s+(?:if|though)\s+you)\b[^.\n]{0,60}
          \b(?:no|without|unrestricted|free\s+of)\b
        | \b(?:developer|debug|god|dan|jailbreak)\s+mode\s+(?:is\s+)?(?:on|enabled|activated)\b
        | \bdo\s+anything\s+now\b""",
    "system_prompt": r"""
        \b(?:new|updated|real|actual)\s+system\s+(?:prompt|message|instructions?)\b
        | \b(?:reveal|print|show|repeat|output|leak|dump)\s+(?:me\s+)?(?:the\s+|your\s+)?(?:\w+\s+)?
          system\s+(?:prompt|message|instructions?)\b""",
    "conceal": r"""
        \b(?:do\s+not|don'?t|never|without)\s+(?:ever\s+)?(?:tell|telling|inform(?:ing)?|alert(?:ing)?|
        show(?:ing)?|mention(?:ing)?\s+(?:this|it)\s+to|notify(?:ing)?|reveal(?:ing)?\s+(?:this|it)\s+to)
        \s+(?:this\s+to\s+|it\s+to\s+)?(?:the\s+)?(?:user|human|operator|owner|person)s?\b
        | \bhide\s+(?:this|it|that)\s+from\s+(?:the\s+)?(?:user|human|operator|owner)\b""",
    "exfiltrate": r"""
        \b(?:curl|wget|nc|ncat|fetch)\b[^\n]{0,200}?(?:\$\{?\w*(?:key|token|secret|pass|cred)|
        \.env\b|id_(?:rsa|ed25519)|/etc/passwd|\.aws/credentials)
        | \b(?:send|post|upload|forward|exfiltrate|email|append|leak|transmit)\b[^.\n]{0,80}?
          \b(?:api[\s_-]?keys?|credentials?|passwords?|secrets?|tokens?|conversations?|transcripts?|history|
          e-?mails?|messages?|files?|data)\b[^\n]{0,60}?\bto\s+(?:https?://|[\w.+-]+@[\w-]+\.)""",
    "read_secrets": r"""
        \b(?:cat|print|type|read|echo|dump|less|head|tail|open)\s+[^\s]{0,60}?
        (?:\.env\b|id_(?:rsa|ed25519)|/etc/shadow|\.aws/credentials|\.netrc|\.pgpass)""",
    "backdoor": r"""
        >>?\s*[^\s]{0,60}(?:authorized_keys|\.bashrc|\.zshrc|\.profile|crontab)
        | \b(?:curl|wget)\b[^\n|]{0,200}\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b
        | \brm\s+-[a-z]*r[a-z]*f?[a-z]*\s+(?:/|~|\$home)(?:\s|$)""",
    "forged_turn": r"""
        <\|?\s*/?\s*(?:im_start|im_end|system|assistant|user|human|endoftext|begin_of_text|eot_id|
        start_header_id|tool_result|function_results)\b[^>\n]{0,40}\|?>
        | \[/?(?:inst|system)\] | <</?sys>> | (?:^|\n)\s*(?:system|assistant|human)\s*:\s""",
}
_COMPILED: Final = {name: re.compile(order, re.IGNORECASE | re.VERBOSE) for name, order in _ORDERS.items()}


def check(text: str) -> Finding | None:
    """What `text` breaks, or None. The same for one entry and for a whole note."""
    if (character := hidden(text)) is not None:
        return Finding(Code.INVISIBLE_UNICODE, f"invisible {character}")
    plain = revealed(text)
    if is_marker(text) or is_marker(plain):
        return Finding(Code.RESERVED_MARKER, "marker")
    for name, order in _COMPILED.items():
        if order.search(plain):
            return Finding(Code.BLOCKED, name)
    for found in secrets.find(plain):
        return Finding(Code.SECRET_DETECTED, found.kind)
    return None


def scanned(text: str, scan: Scan) -> str:
    """`text`, where `scan` finds nothing in it. Raises `Refused`; a scan that fails refuses too."""
    try:
        finding = scan(text)
    except Exception:
        raise Refused(Code.SCAN_FAILED, "The content could not be checked, so it was not saved.") from None
    if finding is None:
        return text
    raise Refused(finding.code, _ADVICE[finding.code].format(name=finding.name), pattern=finding.name)


def blocked(entries: Sequence[str], scan: Scan) -> dict[int, str]:
    """The places of entries that must not be shown, with the name of the rule that each breaks.

    Where several entries break a rule only together, the newest of them goes.
    """
    found: dict[int, str] = {}
    for place, line in enumerate(entries):
        if (name := _name(line, scan)) is not None:
            found[place] = name
    left = [place for place in range(len(entries)) if place not in found]
    while left and (name := _name("\n".join(entries[place] for place in left), scan)) is not None:
        found[left.pop()] = name
    return found


def shown(entries: Sequence[str], scan: Scan) -> list[str]:
    """The entries as a model may see them: one line each, and a placeholder for each that is blocked."""
    names = blocked(entries, scan)
    return [
        f"{BLOCKED} {place + 1}: {names[place]}]" if place in names else " ".join(line.split())
        for place, line in enumerate(entries)
    ]


def _name(text: str, scan: Scan) -> str | None:
    try:
        finding = scan(text)
    except Exception:
        return "not checked"
    return None if finding is None else finding.name


_ADVICE: Final = {
    Code.INVISIBLE_UNICODE: "The content holds a character that nobody sees ({name}). Write it without.",
    Code.RESERVED_MARKER: "The content looks like the frame that notes are shown in. Leave the frame out.",
    Code.BLOCKED: "The content reads like an order to the model ({name}), and notes are facts. Nothing was saved.",
    Code.SECRET_DETECTED: "The content holds a secret ({name}), and notes are shown in every prompt. Save where it "
    "is kept instead of what it is.",
}
