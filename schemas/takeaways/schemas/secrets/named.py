"""Secrets that are told by the words around them: `DB_PASSWORD=…`, `Authorization: …`, "the password is …".

What is no secret although the words are there stays: `max_tokens=4096`, `password: required`,
`token = load_token()`, "the password is stored in the vault".
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from takeaways.schemas.secrets.beside import before, behind, in_column, in_markup
from takeaways.schemas.secrets.spans import Found, places
from takeaways.schemas.secrets.values import NO_VALUE, TELLS_OF_IT, looks_chosen, looks_made, looks_random

_PASSWORDS: Final = (
    "password", "passwd", "passphrase", "passcode", "pwd", "passwort", "kennwort", "contrasena", "mot de passe",
    "mot_de_passe", "senha", "wachtwoord", "parola", "heslo", "salasana", "adgangskode", "passord", "kata sandi",
)  # fmt: skip
_PASSWORDS_ELSEWHERE: Final = (
    "contraseña", "lösenord", "hasło", "пароль", "пароля", "密码", "密碼", "口令", "パスワード", "暗証番号",
    "şifre", "mật khẩu", "jelszó", "κωδικός", "비밀번호", "암호", "סיסמה", "كلمة المرور", "رمز عبور", "पासवर्ड",
    "รหัสผ่าน",
)  # fmt: skip
_KEYS: Final = ("key", "token", "secret", "credential", "bearer")
# "key" alone is no name for a secret: "key: value", "monkey", "keyboard".
_OF_A_SECRET: Final = re.compile(
    r"(?:api|access|private|secret|auth|account|shared ?access|encryption|signing|master|session|license|"
    r"service|deploy|webhook)[_ -]?$"
)
_NO_NAME: Final = re.compile(r"(?:tokens|tokeni[sz]|secretar|credentialed|keys|keyword|keyboard|bearer of)")

_QUOTE: Final = r"\\{0,6}[\"'`]|&(?:quot|apos|#0?39|#34);"
_Q: Final = rf"(?:{_QUOTE})"
_VALUE: Final = (
    rf"(?:(?P<quote>{_QUOTE})(?P<quoted>(?:(?!(?P=quote))[^\n\r]|\n(?!\n)){{1,300}}?)(?P=quote)"
    r"|(?P<bare>[^\s\"'`,;<>(){}\[\]\\]{1,500}))"
)
_REST_OF_NAME: Final = r"(?P<rest>[\w.-]{0,40})"
_ASSIGNED: Final = re.compile(
    rf"{_REST_OF_NAME}{_Q}?\]?[ \t]{{0,4}}(?:=>|:=|[:=：＝])[ \t]{{0,4}}(?:\n[ \t]{{1,8}})?{_VALUE}",
    re.IGNORECASE,
)
_SAID: Final = re.compile(
    r"[\w-]{0,12}"
    r"(?:[ \t]+(?:for|of|to|on|in|at|from|für|de|du|la|el|der|the|my|our|your|this|that|their|[\w./@&-]{1,40})){0,6}?"
    r"[ \t]{1,3}(?:(?:was|is|has been) (?:changed|reset|set|updated) to|is|was|are|will be|be|to|equals|now|"
    r"ist|lautet|war|est|es|era|é|è|är|jest|это|هي|هو|is:|=)"
    rf"(?:[ \t]+(?:now|still|currently|set to|jetzt|simply))?[ \t]*:?[ \t]+{_VALUE}",
    re.IGNORECASE,
)
_IS: Final = re.compile(
    r"[ \t](?:is|was|are|be|to|equals|now|ist|lautet|war|est|es|era|é|è|är|jest|это|هي|هو|=)[ \t:]",
    re.IGNORECASE,
)
_FAR: Final = 120  # how far from its name a value is looked for
_SAID_UNSPACED: Final = re.compile(
    r"\s?(?:は|：|:|是|为|為|는|은|이|가|=)\s{0,2}"
    r"(?:(?P<quote>[「『“\"'])(?P<quoted>[^」』”\"'\n]{1,100})[」』”\"']|(?P<bare>[\x21-\x7e]{4,100}))"
)
_ABBREVIATED: Final = re.compile(
    r"(?<![\w-])(?P<name>pw|psw|pass)[ \t]{0,2}[:=][ \t]{0,3}(?P<secret>[^\s\"'`,;<>(){}\[\]\\]{6,100})",
    re.IGNORECASE,
)
_OF_A_USER: Final = re.compile(r"user|login|account|usr\b|benutzer|e-?mail")
_CARD_CODE: Final = re.compile(
    r"cv[vc]2?(?:[ \t]+(?:code|number))?[ \t]{0,2}(?:[:=]|is)?[ \t]{0,3}(?P<secret>\d{3}|(?<=[:=s][ \t])\d{4})\b",
    re.I,
)
_SEED_PHRASE: Final = re.compile(
    r"\b(?:seed|recovery|mnemonic|backup)(?:[ _-](?:phrase|words))?(?: is)?[\"'`*_]{0,3}[ \t]{0,3}[:=\n][\s\"'`]{0,4}"
    r"(?P<secret>[a-z]{3,8}(?:[ ,\n]{1,3}[a-z]{3,8}){11,23})\b",
    re.IGNORECASE,
)
_HEADERS: Final = ("authorization", "x-api-key", "x-auth-token")
_HEADER: Final = re.compile(
    rf"[a-z-]{{9,13}}{_Q}?\s{{0,3}}[:=]\s{{0,3}}{_Q}?"
    rf"(?:(?:basic|bearer|token|digest|apikey|negotiate)\s{{1,3}})?(?P<secret>[^\s\"'`,;<>\\]{{6,4000}})",
    re.IGNORECASE,
)
_COOKIE: Final = re.compile(r"cookie\s{0,2}:\s{0,2}(?P<secret>[^\s\"'\\][^\n\"'\\]{7,2000})", re.I)
_BARE_BEARER: Final = re.compile(r"bearer[ \t]{1,3}(?P<secret>[A-Za-z0-9._~+/=-]{16,4000})", re.IGNORECASE)
_BARE_BASIC: Final = re.compile(r"basic[ \t]{1,3}(?P<secret>[A-Za-z0-9+/]{8,400}={0,2})", re.IGNORECASE)
_QUERY: Final = re.compile(
    r"(?:[?&]|%3[Ff]|%26)(?P<key>access_token|refresh_token|id_token|token|api_?key|key|sig|signature|auth|password|passwd|pwd|"
    r"secret|client_secret|code|x-amz-signature|x-amz-security-token)(?:=|%3[Dd])(?P<secret>[^&\s#\"'`<>)\]\\]{4,4000})",
    re.IGNORECASE,
)
_SURE_QUERIES: Final = frozenset({"password", "passwd", "pwd", "secret", "client_secret"})

# Words that say something about a password instead of being one.
_SAYS_SOMETHING: Final = frozenset(  # a list in one word a line would be pages long
    """a an the my our your their his her its this that these those not no none never always only also still
    already now then too very just here there where when if unless because and or but so same different
    required optional mandatory needed missing wrong incorrect correct invalid valid empty blank null nil
    undefined unknown true false yes string str text int bool boolean bytes number char varchar object any
    optional hidden masked redacted removed secret safe secure strong weak short long old new default temporary
    unique case-sensitive sensitive public private shared protected encrypted hashed salted in on at to from
    of for with without within by as like under over per via into inside stored kept saved set reset changed
    rotated expired expiring updated created generated sent managed handled available unavailable up off due
    it we you they he she i what which who how why can could should must may might will would has have had is
    was were are be been being do does did nothing something anything everything anonymous good bad fine ok
    okay okey done ready known lost forgotten gone different case minimum maximum at least most both either
    neither one two three four five six seven eight nine ten sufficient enough obvious simple complex easy hard
    important critical necessary visible readable accepted rejected reused common rule rules policy field prompt
    nicht kein keine falsch richtig erforderlich geheim im in der die das ein eine pas le la les un une el los
    una requis obligatoire incorrecto incorrecta obligatorio""".split()  # noqa: SIM905 - read as prose
)
_ENDS: Final = ".!?:。！？"
_AT_THE_END: Final = re.compile(r"[ \t]*(?:#[^\n]*|//[^\n]*)?(?:\r?\n|\\n|$|[\"'`,;)}\]\\])")


def named(text: str) -> Iterator[Found]:
    """Values that stand behind a name for a secret."""
    lowered = _lowered(text)
    for name in _PASSWORDS if lowered.isascii() else (*_PASSWORDS, *_PASSWORDS_ELSEWHERE):
        if name in lowered:
            for at in places(lowered, name):
                yield from _password(text, at, at + len(name), unspaced=not name.isascii())
    for name in _KEYS:
        if name in lowered:
            for at in places(lowered, name):
                yield from _key(text, lowered, at, name)
    for name in (" pin ", " pin:"):
        if name in lowered:
            for at in places(lowered, name):
                yield from _pin(text, at + 4)
    if lowered.startswith(("pin ", "pin:")):
        yield from _pin(text, 3)
    for name in ("cvv", "cvc"):
        yield from _behind(name, _CARD_CODE, text, lowered, "PIN")
    if "pw" in lowered or "pass" in lowered:
        yield from _abbreviated(text, lowered)
    if "phrase" in lowered or "mnemonic" in lowered or "seed" in lowered:
        yield from (Found(*found.span("secret"), "seed phrase") for found in _SEED_PHRASE.finditer(text))
    for name in _HEADERS:
        yield from _behind(name, _HEADER, text, lowered, "credentials")
    yield from _behind("cookie", _COOKIE, text, lowered, "cookie")
    yield from (
        one for one in _behind("bearer", _BARE_BEARER, text, lowered, "token") if _has_digit(text, one)
    )
    yield from (
        one for one in _behind("basic", _BARE_BASIC, text, lowered, "credentials") if _is_basic(text, one)
    )
    if ("=" in text and ("?" in text or "&" in text)) or "%3d" in lowered:
        yield from _queries(text)


def _lowered(text: str) -> str:
    """In lower case, with every character in its place: a few grow when they are made small."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(small if len(small := char.lower()) == 1 else char for char in text)


def _password(text: str, at: int, end: int, *, unspaced: bool) -> Iterator[Found]:
    for start, stop in (*behind(text, end), *before(text, at, end), *in_column(text, at, end)):
        yield Found(start, stop, "password")
    for start, stop in in_markup(text, end):
        if _is_password(text[start:stop], alone=True, quoted=False):
            yield Found(start, stop, "password")
    matches = list(_matches(text, end))
    if unspaced and (found := _SAID_UNSPACED.match(text, end)):
        matches.append((_SAID_UNSPACED, found))
    for pattern, found in matches:
        group, value = _value(found)
        quoted = group == "quoted"
        alone = quoted or pattern is not _ASSIGNED or _AT_THE_END.match(text, found.end()) is not None
        if _is_password(value, alone=alone, quoted=quoted):
            yield Found(found.start(group), found.start(group) + len(value), "password")


def _key(text: str, lowered: str, at: int, name: str) -> Iterator[Found]:
    begin = at
    if name == "key":
        before = _OF_A_SECRET.search(lowered, max(0, at - 15), at)
        if before is None:
            return
        begin = before.start()
    if _NO_NAME.match(lowered, at):
        return
    end = at + len(name)
    for start, stop in (*in_markup(text, end), *behind(text, end)):
        if looks_made(text[start:stop]):
            yield Found(start, stop, _kind(lowered[begin:end], "secret"))
    for _, found in _matches(text, end):
        group, value = _value(found)
        if looks_random(value):
            said = lowered[begin : found.start(group)]
            yield Found(found.start(group), found.start(group) + len(value), _kind(said, "secret"))


def _matches(text: str, behind: int) -> Iterator[tuple[re.Pattern[str], re.Match[str]]]:
    """The value that is assigned to, or said of, the name that ends at `behind`."""
    found = _ASSIGNED.match(text, behind)
    if found and not found["rest"].lower().endswith(TELLS_OF_IT):
        yield _ASSIGNED, found
    if _IS.search(text, behind, behind + _FAR) and (found := _SAID.match(text, behind)):
        yield _SAID, found


def _pin(text: str, behind: int) -> Iterator[Found]:
    for _, found in _matches(text, behind):
        group, value = _value(found)
        if value.isdigit() and 3 < len(value) < 9:
            yield Found(found.start(group), found.start(group) + len(value), "PIN")


def _abbreviated(text: str, lowered: str) -> Iterator[Found]:
    """`pw: …`, and `pass: …` where it belongs to a user: tests print PASS, too."""
    for found in _ABBREVIATED.finditer(text):
        user = found["name"].lower() != "pass" or _OF_A_USER.search(
            lowered, max(0, found.start() - 80), found.start()
        )
        if user and looks_chosen(found["secret"]):
            yield Found(found.start("secret"), found.end("secret"), "password")


def _behind(name: str, pattern: re.Pattern[str], text: str, lowered: str, kind: str) -> Iterator[Found]:
    for at in places(lowered, name):
        found = pattern.match(text, at)
        if found and not NO_VALUE.fullmatch(found["secret"]):
            yield Found(found.start("secret"), found.end("secret"), kind)


def _value(found: re.Match[str]) -> tuple[str, str]:
    if found["quoted"] is not None:
        return "quoted", found["quoted"]
    return "bare", found["bare"].rstrip(_ENDS)


def _is_password(value: str, *, alone: bool, quoted: bool) -> bool:
    if len(value) < (3 if quoted else 4) or NO_VALUE.fullmatch(value):
        return False
    word = value.lower().strip(_ENDS)
    if quoted:
        return word not in _SAYS_SOMETHING
    if any(not char.isalpha() and char not in "-'’" for char in value) or not value.islower():
        # A capital alone is the beginning of a sentence.
        return word not in _SAYS_SOMETHING and (
            value[1:].lower() != value[1:] or not value.isalpha() or alone
        )
    return alone and word not in _SAYS_SOMETHING and not word.endswith(("ed", "ing", "able", "ible"))


def _queries(text: str) -> Iterator[Found]:
    for found in _QUERY.finditer(text):
        value, key = found["secret"], found["key"].lower()
        if NO_VALUE.fullmatch(value):
            continue
        if key in _SURE_QUERIES or (looks_random(value) and (key not in ("code", "key") or len(value) > 15)):
            kind = "password" if key in ("password", "passwd", "pwd") else _kind(key, "token")
            yield Found(found.start("secret"), found.end("secret"), kind)


def _kind(key: str, otherwise: str) -> str:
    name = key.lower().replace("_", " ").replace("-", " ")
    if "token" in name or "bearer" in name:
        return "token"
    return "key" if "key" in name or "sig" in name else otherwise


def _has_digit(text: str, found: Found) -> bool:
    return any(map(str.isdigit, text[found.start : found.end]))


def _is_basic(text: str, found: Found) -> bool:
    """Whether it is base64 of `name:password`."""
    value = text[found.start : found.end].rstrip("=")
    try:
        return b":" in base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
