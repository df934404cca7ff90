"""Secrets in command lines, told by the command and the option before them.

Only the value is masked: what was run can still be read. `docker run -p 8080:80`, `ssh -p 2222`, `--password
"$PASSWORD"` and what is said of an option ("the --password flag") stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from takeaways.schemas.secrets.spans import Found, places
from takeaways.schemas.secrets.values import NO_VALUE, looks_chosen, looks_made

_VALUE: Final = (
    r"(?:(?P<quote>\\{0,6}[\"'])(?P<quoted>(?:(?!(?P=quote))[^\n\r]){1,300}?)(?P=quote)"
    r"|(?P<bare>[^\s\"'`;|&<>()\\]{3,500}))"
)
_ON: Final = r"[^\n|;&]{0,200}?"  # to an option of the same command
_OPTION: Final = re.compile(
    r"--(?:[a-z0-9]+[-_]){0,4}(?P<name>password|passwd|passphrase|pass|pwd|token|secret|api[-_]?key|access[-_]?key|"
    rf"secret[-_]?key|private[-_]?key)[ \t]+{_VALUE}",
    re.IGNORECASE,
)
_PASSWORDS: Final = frozenset({"password", "passwd", "passphrase", "pass", "pwd"})
_COMMANDS: Final = {
    word: re.compile(pattern + _VALUE)
    for word, pattern in {
        "sshpass": r"sshpass[ \t]+-p[ \t]*",
        "login": rf"login\b{_ON}[ \t]-p[ \t]+",  # of docker, podman, helm, oc, az
        "mysql": rf"mysql(?:dump|admin|import)?\b{_ON}[ \t]-p(?=\S)",
        "mariadb": rf"mariadb(?:-dump|-admin)?\b{_ON}[ \t]-p(?=\S)",
        "redis-cli": rf"redis-cli\b{_ON}[ \t]-a[ \t]+",
        "valkey-cli": rf"valkey-cli\b{_ON}[ \t]-a[ \t]+",
        "mongo": rf"mongo(?:sh|dump|restore|import|export)?\b{_ON}[ \t]-p[ \t]+",
        "ldap": rf"ldap(?:search|add|modify|delete|passwd|whoami)\b{_ON}[ \t]-w[ \t]*",
        "smbclient": rf"smbclient\b{_ON}[ \t]-U[ \t]*[^\s%]{{1,80}}%",
        " pass:": r" pass:",  # of openssl
    }.items()
}
# `-u name:password`, of those that speak HTTP; elsewhere it is a user and a group.
_USER: Final = re.compile(
    r"(?:-u|--(?:proxy-)?user)(?:[ \t]*|=)\\{0,6}[\"']?[^\s:\"'\\/]{1,100}:(?P<bare>[^\s\"'\\]{1,300})(?P<quoted>(?!))?"
)
_BY_HTTP: Final = re.compile(r"\b(?:curl|wget|https?|xh)(?:\.exe)?[ \t][^\n|;]*\Z")
_NEAR: Final = 300


def commands(text: str) -> Iterator[Found]:
    """The password or token that is given to a command."""
    if "--" in text:
        for at in places(text, "--"):
            if text[at - 1 : at].strip("\"'[(` \t\n\\,") == "" and (found := _OPTION.match(text, at)):
                yield from _given(found)
    if " -" in text or " pass:" in text:
        for word, pattern in _COMMANDS.items():
            for at in places(text, word) if word in text else ():
                if (found := pattern.match(text, at)) and not NO_VALUE.fullmatch(_value(found)[1]):
                    yield _found(found, "password")
        for option in (" -u", " --user", " --proxy-user"):
            for at in places(text, option) if option in text else ():
                found = _USER.match(text, at + 1)
                if (
                    found
                    and not NO_VALUE.fullmatch(found["bare"])
                    and _BY_HTTP.search(text[max(0, at - _NEAR) : at + 1])
                ):
                    yield _found(found, "password")


def _given(found: re.Match[str]) -> Iterator[Found]:
    name = found["name"].lower()
    group, value = _value(found)
    if name in _PASSWORDS:
        if looks_chosen(value, least=4) or (group == "quoted" and not NO_VALUE.fullmatch(value)):
            yield _found(found, "password")
    elif looks_made(value, least=8):
        yield _found(found, "key" if "key" in name else name)


def _value(found: re.Match[str]) -> tuple[str, str]:
    group = "quoted" if found["quoted"] is not None else "bare"
    return group, found[group]


def _found(found: re.Match[str], kind: str) -> Found:
    group, _ = _value(found)
    return Found(found.start(group), found.end(group), kind)
