"""Secrets that are told by their frame: private keys in PEM, and passwords within URLs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from takeaways.schemas.secrets.spans import Found, places

_BEGIN: Final = re.compile(r"-----BEGIN (?:[A-Z0-9 ]{0,40})PRIVATE KEY(?: BLOCK)?-----")
_END: Final = re.compile(r"-----END (?:[A-Z0-9 ]{0,40})PRIVATE KEY(?: BLOCK)?-----")
# Also as it is shown: quoted, numbered, in a diff, or within JSON. Headers say how it is encrypted.
_CUT_BODY: Final = re.compile(
    r"(?:[\s>|+\d→:-]{0,20}[A-Z][A-Za-z-]{2,20}: [^\n]{1,200}\n){0,6}(?:[A-Za-z0-9+/=\s>|→:]|\\+[nr]|(?<=\n)-)*"
)
_LINE_OF_A_BODY: Final = re.compile(r"[\s\d>|+→:-]{0,16}?[A-Za-z0-9+/=]{16,120}\s*\n")
_MOST: Final = 20_000

_PUTTY: Final = re.compile(
    r"Private-Lines: \d+\s{1,3}(?P<secret>(?:[A-Za-z0-9+/=]{1,100}\s{0,3})+)(?=Private-MAC|\Z)"
)

_SLASHES: Final = "://"
_TOKEN_AS_USER: Final = re.compile(r"://(?P<secret>(?=[^\s@/:]{0,300}\d)[A-Za-z0-9_~+%-]{20,300})@(?=\w)")
# What stands behind the slashes. The password may hold `/`, `:` and `@`; what looks like a port is none.
_USERINFO: Final = re.compile(
    r"://[^\s:@/?#\"'<>]{0,100}:(?!\d{1,5}(?:[/?#\s\"'<>)]|$))(?!\[masked: )(?P<secret>[^\s\"'<>`]{1,300}?)"
    r"@(?=[\w.\[%-]{1,255}(?::\d{1,5})?(?:[/?#,;\s\"'<>`)\]\\|]|\.?$|\.\s))"
)


def private_keys(text: str) -> Iterator[Found]:
    """Whole blocks, and the beginning of one that was cut."""
    at = end_at = 0
    while (dashes := text.find("-----BEGIN ", at)) >= 0:
        begin = _BEGIN.match(text, dashes)
        if begin is None:
            at = dashes + 1
            continue
        if 0 <= end_at < begin.end():
            end_at = text.find("-----END ", begin.end())
        end = _END.match(text, end_at) if 0 <= end_at <= begin.end() + _MOST else None
        body = _CUT_BODY.match(text, begin.end(), begin.end() + _MOST)
        at = end.end() if end else begin.end() + len(body[0].rstrip()) if body else begin.end()
        yield Found(begin.start(), at, "private key")


def lines_of_putty(text: str) -> Iterator[Found]:
    """The private lines of PuTTY's own format."""
    for at in places(text, "Private-Lines: "):
        if found := _PUTTY.match(text, at):
            yield Found(found.start("secret"), found.end("secret"), "private key")


def ends_of_private_keys(text: str) -> Iterator[Found]:
    """The lines before an end whose beginning was cut off, or shown in another result."""
    for at in places(text, "-----END "):
        if not _END.match(text, at):
            continue
        begin = text.rfind("\n", 0, at) + 1
        while at - begin < _MOST and begin:
            line = text.rfind("\n", 0, begin - 1) + 1
            if not _LINE_OF_A_BODY.fullmatch(text, line, begin):
                break
            begin = line
        if text[begin:at].strip(" \t>|+-"):
            yield Found(begin, at, "private key")


def passwords_in_urls(text: str) -> Iterator[Found]:
    """The password in every URL that names one."""
    for at in places(text, _SLASHES):
        found = _USERINFO.match(text, at) if at and text[at - 1].isalnum() else None
        if found and found["secret"].strip("*"):
            yield Found(found.start("secret"), found.end("secret"), "password")
        elif token := _TOKEN_AS_USER.match(text, at):
            yield Found(token.start("secret"), token.end("secret"), "token")
