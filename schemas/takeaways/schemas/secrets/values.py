"""Whether a value is likely to be a secret: chosen by a person, or made by a machine; and what certainly is none."""

from __future__ import annotations

import re
from typing import Final

NO_VALUE: Final = re.compile(
    r"\*+|[xX]{3,}|[.•…]+|-+|_+|\[masked.*|<.*|\$\{?\w.*|\{\{?.*|%\w*%?|#.*|\\.*|[/~.].*|"
    r"https?://.*|(?:os|process|env|self|config|settings|secrets|request|args|options|params|vault|this|ctx)\b[.\[].*|"
    r"[A-Za-z_][\w.]*\(.*|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*){2,}|(?:your|my|the|some|new|old|example|placeholder|changeme)[_-].*",
    re.IGNORECASE,
)
TELLS_OF_IT: Final = (
    "name", "url", "uri", "path", "file", "type", "length", "size", "count", "limit", "budget", "ttl", "policy",
    "expiry", "expires", "expires_in", "expires_at", "hash", "rotation", "endpoint", "field", "header", "prompt",
)  # fmt: skip
"""Ends of names that tell of a secret instead of naming one: `password_policy`, `token_url`."""
# Names with a digit that stand beside passwords and are none.
_METHODS: Final = re.compile(
    r"(?:pbkdf2|argon2|bcrypt|scrypt|hmac|sha-?\d|md[45]|aes-?\d|rsa-?\d|ed25519|base(?:32|64)|utf-?(?:8|16)|oauth|oidc|"
    r"http/?\d|1password|2fa|mfa|v\d|rfc-?\d|ipv[46]|k8s|i18n)[\w./-]*",
    re.IGNORECASE,
)
_COUNTED: Final = re.compile(
    r"[a-z]+\d{1,3}[a-z]+|[a-z]+[_-]?\d{1,3}|\d{4}-\d{2}-\d{2}.*|v?\d+(?:\.\d+)+\S*|\d+[a-z]{1,6}|\d{1,2}[/.-]\d.*",
    re.IGNORECASE,
)
_CAPITALISED: Final = re.compile(r"[A-Z]?[a-z]+(?:[A-Z][a-z]+)*(?:[-_.][A-Za-z]+)*")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_NO_TOKEN: Final = re.compile(r"[/:,@]|=.")
_JOINTS: Final = re.compile(r"[-_.]")
_SIGNS: Final = frozenset("!@#$%^&*+?~")


def looks_random(value: str) -> bool:
    """Whether it is made by a machine: long enough, of more than one class of character, and no code."""
    if len(value) < 8 or NO_VALUE.fullmatch(value) or " " in value:
        return False
    if not value.isascii():
        return False
    digits, letters = any(map(str.isdigit, value)), any(map(str.isalpha, value))
    if not letters:
        return False
    if digits:
        return not re.fullmatch(
            r"[a-z]+[_-]?\d{1,3}|\d{4}-\d{2}-\d{2}.*|v?\d+(?:\.\d+)+\S*", value, re.IGNORECASE
        )
    return (
        len(value) >= 16
        and value != value.lower()
        and value != value.upper()
        and not _CAPITALISED.fullmatch(value)
    )


def looks_made(value: str, *, least: int = 12) -> bool:
    """Whether it looks like a key or token where only its place says so: a long piece of letters and digits in it."""
    if not looks_random(value) or _UUID.fullmatch(value) or _NO_TOKEN.search(value):
        return False
    return any(
        len(piece) >= least and sum(map(str.isdigit, piece)) > 1 and not piece.isdigit()
        for piece in _JOINTS.split(value)
    )


def looks_chosen(value: str, *, least: int = 6) -> bool:
    """Whether it looks like a password where nothing but its place says so: letters with digits or signs among them."""
    value = value.rstrip(".,:;")
    if len(value) < least or NO_VALUE.fullmatch(value) or _METHODS.fullmatch(value):
        return False
    letters = sum(map(str.isalpha, value))
    digits = sum(map(str.isdigit, value))
    signs = sum(char in _SIGNS for char in value[:-1]) + (value[-1] in _SIGNS and digits > 0)
    if not letters or not (digits or signs) or (value.islower() and ("/" in value or ":" in value)):
        return False
    if _COUNTED.fullmatch(value):
        # "Kirpich77" is one, "sha256", "step-12" and "30days" are not.
        return value[0].isupper() and value[1:].islower() and letters > 3 and digits > 1
    return True
