"""Credentials in a note, by their forms."""

from __future__ import annotations

import re
from typing import Final

_FORMS: Final = {
    "anthropic key": r"\bsk-ant-[\w-]{16,}",
    "openai key": r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{20,}",
    "github token": r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})",
    "gitlab token": r"\bglpat-[\w-]{16,}",
    "slack token": r"\bxox[abeoprs]-[\w-]{10,}|hooks\.slack\.com/services/\w+/\w+/\w{8,}",
    "aws key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "google key": r"\bAIza[\w-]{30,}",
    "stripe key": r"\b[srp]k_(?:live|test)_\w{16,}",
    "jwt": r"\beyJ[\w-]{8,}\.eyJ[\w-]{5,}\.[\w-]{8,}",
    "private key": r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY",
    "authorization header": r"(?i:\b(?:bearer|basic)\s+(?=[\w.~+/=-]*\d)[\w.~+/-]{16,}={0,2})",
    "password in a url": r"\b[a-zA-Z][\w+.-]*://[^\s/:@]*:[^\s@]+@[\w.-]+",
    "password": r"""(?ix)\b\w*(?:pass(?:word|wd|phrase)?|secret(?:_?(?:access_?)?key)?|api_?key|account_?key|
        auth_?token|access_?token)["']?\s*(?:=|:=?)\s*(?:"[^"\s][^"]{3,}"|'[^'\s][^']{3,}'|(?=\S*[\d\W])\S{6,})""",
    "password in prose": r"""(?ix)\b(?:password|passcode|passphrase)\s+(?:is|was)\s+
        ["'`]?(?=\S*\d)(?=\S*[a-z])\S{6,}""",
}
_COMPILED: Final = {kind: re.compile(form) for kind, form in _FORMS.items()}


def secret_in(text: str) -> str | None:
    """The kind of the first secret in `text`, or None."""
    return next((kind for kind, form in _COMPILED.items() if form.search(text)), None)
