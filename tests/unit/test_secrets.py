"""Secrets are found in every form and place, and nothing that only looks like one is touched."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeaways.schemas import secrets as ours
from takeaways.schemas.parts import Attachment, Text, ToolCall, ToolResult
from takeaways.schemas.secrets import find, mask, mask_parts
from takeaways.workers import secrets as ours_and_theirs
from tests.cases import case

Mask = Callable[[str], str]
BOTH = pytest.mark.parametrize("masked", [ours.mask, ours_and_theirs.mask], ids=["ours", "with the library"])


def j(*pieces: str) -> str:
    """Joined at run time, so that no scanner trips over this file."""
    return "".join(pieces)


TOKEN = j("gh", "p_", "Q9w8" * 9)


def cores() -> dict[str, tuple[str, str]]:
    """Of each secret of the case: the whole text, and the part that nobody may see."""
    whole = case("SE-02")["secrets"]
    parts = {
        "aws_secret": whole["aws_secret"].partition(" = ")[2],
        "slack_hook": whole["slack_hook"].partition("services/")[2],
        "pg_url": "p%40ss:w/rd",
        "mongo": "S3cretPw",
        "redis": "S3cretPw",
        "basic": whole["basic"].rpartition(" ")[2],
        "bearer": whole["bearer"].rpartition(" ")[2],
        "env": "correct horse battery",
        "yaml": "Tr0ub4dor&3",
        "azure": whole["azure"].partition("=")[2].partition("=")[0],
        "pem": "MIIEowIBAAKCAQEA7v",
        "pem_escaped": "MIIEvQIBADANBg",
    }
    return {name: (text, parts.get(name, text)) for name, text in whole.items()}


PLACES: dict[str, Callable[[str, str], str]] = {
    "in a sentence": lambda text, _: f"For the record: {text} and please go on from there.",
    "at the end of one": lambda text, _: f"we use {text}.",
    "in arguments of a tool": lambda text, _: json.dumps({"command": f"run --with {text}", "n": 1}),
    "in a result": lambda text, _: f"exit 0\n{text}\ndone in 3 s",
    "in a markdown link": lambda text, _: f"see [the page]({text}) for more",
    "in brackets": lambda text, _: f"({text})",
    "in a heading": lambda text, _: f"## {text}",
    "wrapped over two lines": lambda text, core: text.replace(core, _wrapped(core)),
    "with characters that nobody sees": lambda text, core: text.replace(core, _hidden(core)),
}


def _wrapped(core: str) -> str:
    middle = len(core) // 2
    return f"{core[:middle]}\n{core[middle:]}"


def _hidden(core: str) -> str:
    middle = len(core) // 2
    return f"{core[:middle]}\u200b{core[middle:]}"


@BOTH
@pytest.mark.parametrize("place", PLACES)
def test_no_secret_of_the_case_is_left_in_any_place(place: str, masked: Mask) -> None:
    """A credential that somebody pasted must not become something that the agent knows."""
    for name, (text, core) in cores().items():
        if name.startswith("pem") and place in ("in a sentence", "with characters that nobody sees"):
            continue  # a block of its own; see below
        hidden = PLACES[place](text, core)

        shown = masked(hidden)

        half = core[: max(6, len(core) // 2 - 1)]
        assert half not in shown.replace("\\n", "\n"), (name, shown)
        assert core[-max(6, len(core) // 2 - 1) :] not in shown, (name, shown)
        assert "[masked: " in shown
        assert masked(shown) == shown


@BOTH
def test_what_only_looks_like_a_secret_stays(masked: Mask) -> None:
    """Commit hashes, ids and long words are what memory is made of."""
    for text in case("SE-02")["must_stay"]:
        assert masked(text) == text
        assert masked(f"It is {text}, as I said.") == f"It is {text}, as I said."


@BOTH
def test_cards_are_masked_and_ids_times_and_orders_are_not(masked: Mask) -> None:
    """A checksum alone fits one number in ten: ids must survive."""
    found = case("SE-03")
    other_scripts = ("４１１１ １１１１ １１１１ １１１１", "٤١١١ ١١١١ ١١١١ ١١١١", "4111–1111–1111–1111")
    for text in (*found["redact"], *other_scripts):
        shown = masked(text)
        assert not any(char.isdigit() for char in shown.replace("exp 12/29", "")), shown
        assert masked(f"My card is {text}, thanks.").count("[masked: card number]") == shown.count("[masked")
    for text in found["keep"]:
        assert masked(text) == text
        assert masked(f"see {text} there") == f"see {text} there"
    for value in found["envelope"].values():
        assert masked(json.dumps(found["envelope"])) == json.dumps(found["envelope"])
        assert masked(str(value)) == str(value)


NUMBERS_THAT_STAY = (
    "order 4111111111111111",
    "event_id=4111111111111111",
    '{"seq": 4111111111111111}',
    "https://shop.example.test/orders/4111111111111111",
    "trace 4111111111111111aa",
    "41111111111111112222",
    "4111.1111.1111.1111",
    "0000 0000 0000 0000",
    "tel +49 4111 1111 1111 1111",
)


@pytest.mark.parametrize("text", NUMBERS_THAT_STAY)
def test_a_number_that_is_called_something_else_is_no_card(text: str) -> None:
    """What stands before a number says what it is."""
    assert mask(text) == text


SAID = {
    "The wifi password is hunter2.": "hunter2",
    "my password for the VPN is Tr0ub4dor&3, ok?": "Tr0ub4dor",
    "The password for staging was changed to S3cure!pass yesterday": "S3cure",
    'the passphrase is "correct horse battery"': "correct horse",
    "password is swordfish": "swordfish",
    "Password: Welcome1": "Welcome1",
    "Das Passwort ist geheim123": "geheim123",
    "パスワードはhunter2です": "hunter2",
    "密码是abc12345。": "abc12345",
    "пароль: Kirpich77": "Kirpich77",
    "The PIN code is 4711, ok": "4711",
    "API key: 0123456789abcdef0123456789abcdef": "0123456789abcdef",
    "token is abcd1234efgh": "abcd1234efgh",
    "curl -H 'X-Api-Key: abcDEF123456'": "abcDEF123456",
    "Cookie: sid=abc123def456; theme=dark": "abc123def456",
    "https://x.test/cb?access_token=abcDEF123456&state=1": "abcDEF123456",
    "ssh://git:pw1234@host.example.test/x": "pw1234",
    '{"c": "password: \\"Tr0ub4dor&3\\""}': "Tr0ub4dor",
    "refresh_token=1//0gabcdef12345678": "0gabcdef12345678",
    "machine api.example.test login svc password s3cr3tPw9": "s3cr3tPw9",
    "ENV DB_PASSWORD Kirpich77": "Kirpich77",
    "password for the router:\nHunter2024!": "Hunter2024",
    "the VPN password -> Kirpich77": "Kirpich77",
    "password (Kirpich77)": "Kirpich77",
    "Пароль от вайфая — Kirpich77": "Kirpich77",
    "كلمة المرور هي Kirpich77": "Kirpich77",
    "Şifre: Kirpich77": "Kirpich77",
    "Kirpich77 is the password for the VPN": "Kirpich77",
    "please use Kirpich77 as the new password": "Kirpich77",
    "user: admin / pass: Hunter2024!": "Hunter2024",
    "pw: Hunter2024!": "Hunter2024",
    "the vercel token aB3dE6gHaB3dE6gHaB3dE6gH": "aB3dE6gHaB",
    "private key 0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318": "4c0883a69102",
    "CVV 123, exp 12/29": "123",
    "Authorization: AWS4-HMAC-SHA256 Signature=" + "fe5f80f7" * 8: "fe5f80f7",
    "https://x.example.test/?next=%3Faccess_token%3DabcDEF123456": "abcDEF123456",
    "https://0123456789abcdef0123456789abcdef@git.example.test/a": "0123456789abcdef",
}


@pytest.mark.parametrize("text", SAID)
def test_a_secret_that_is_named_in_words_is_found(text: str) -> None:
    """Most passwords have no form of their own: people say what they are."""
    shown = mask(text)

    assert SAID[text] not in shown
    assert len(shown.split()) >= len(text.split()) - 2, "the sentence around it stays usable"


NOT_SAID = (
    "password is required",
    "Password: required",
    "The password is stored in the vault, not in the wiki.",
    "passwords are rotated every 90 days",
    "the password is in 1Password",
    "DB_PASSWORD=${DB_PASSWORD}",
    "password = os.environ['PW']",
    "max_tokens=4096, tokens: 1200",
    "token = load_token()",
    "The token budget is 2000 tokens",
    "The secret is that we never deploy on Fridays",
    "the secret to success is consistency2024",
    "secretary: Anna12345",
    "primary key: abcd1234efgh",
    "token_url: https://auth.example.test/oauth2/token",
    "https://localhost:3000/@fs/file",
    "git@github.com:acme/repo.git",
    "api key rotation is 2024-05-01",
    "She is the bearer of bad news1234567890",
    "a basic understanding123 of it",
    "password hashing uses argon2id with 19MiB",
    "SHA256 is the password hash, and we use bcrypt2 as the password hash",
    "1Password is the password manager",
    "password → vault:kv/db-1",
    "password (see ticket OPS-1234)",
    "password min12chars policy",
    "PASS: TestLogin2 (0.03s)",
    "user tests pass: 12/12",
    "token limit 128000tokens",
    "client secret rotation runbook-2026-03",
    "secret name: projects/acme-prod/secrets/db-1",
    "a seed phrase must be written down on paper and kept in a safe place by all of us",
    "CVC 2024 conference",
    "https://cdn.example.test/npm/vue@3.2.1/dist",
    "def check_password(password1, password2):",
    '<Password minLength="8">required</Password>',
    "| password | 12 characters |\n| user | any |",
)


def test_the_words_of_a_wallet_go_whole() -> None:
    """Twelve words are all that a thief needs."""
    words = "legal winner thank year wave sausage worth useful legal winner thank yellow"

    assert mask(f"My recovery phrase: {words}.") == "My recovery phrase: [masked: seed phrase]."


IN_MARKUP = (
    "<password>S3cr3tPw9</password>",
    "**Password:** S3cr3tPw9",
    "<b>password</b>: S3cr3tPw9",
    "password=&quot;S3cr3tPw9&quot;",
    "password: |\n  S3cr3tPw9\n",
    '{"name": "DB_PASSWORD", "value": "S3cr3tPw9"}',
    "- name: DB_PASSWORD\n  value: S3cr3tPw9",
    'variable "db_password" { default = "S3cr3tPw9" }',
    '{\\\\\\"password\\\\\\":\\\\\\"S3cr3tPw9\\\\\\"}',
    "| user | password |\n|---|---|\n| admin | S3cr3tPw9 |\n| ann | S3cr3tPw9b |\n",
    "user,password\nadmin,S3cr3tPw9",
)


@pytest.mark.parametrize("text", IN_MARKUP)
def test_a_secret_is_found_in_markup_and_tables(text: str) -> None:
    """Files are full of passwords that no "=" gives away."""
    shown = mask(text)

    assert "S3cr3tPw9" not in shown
    assert mask(shown) == shown


COMMANDS = {
    "curl -u admin:S3cr3tPw9 https://api.example.test": True,
    "curl --user 'admin:S3cr3tPw9' https://api.example.test": True,
    '{"command": "mysql -u root -pS3cr3tPw9 app"}': True,
    "deploy --password S3cr3tPw9 --host x": True,
    'deploy --db-password "correct horse"': True,
    "tool --api-key abcd1234efgh5678": True,
    "redis-cli -h cache -a S3cr3tPw9 ping": True,
    "sshpass -p S3cr3tPw9 ssh x@y": True,
    "docker login -u me -p S3cr3tPw9 registry.example.test": True,
    "openssl pkcs12 -in a.p12 -passin pass:S3cr3tPw9": True,
    "docker run -u 1000:1000 -p 127.0.0.1:5432:5432 postgres:16": False,
    "ssh -p 2222 deploy@host1.example.test": False,
    'curl -u "$USER:$PASS" https://x': False,
    "mysql -u root -p app": False,
    "mysql -u root -p$MYSQL_PWD app": False,
    "the --password flag is deprecated since v2.3": False,
    "docker build --secret id=npmrc,src=$HOME/.npmrc .": False,
    "mkdir -p build/x86_64 && git push -u origin feature/login-2": False,
}


@pytest.mark.parametrize("text", COMMANDS)
def test_a_password_given_to_a_command_is_found_and_the_command_stays(text: str) -> None:
    """What was run is worth knowing, and most of what stands behind an option is no secret."""
    shown = mask(text)

    assert (shown != text) is COMMANDS[text]
    assert shown.split()[0] == text.split()[0]
    assert not any(core in shown for core in ("S3cr3tPw9", "abcd1234", "horse"))


@BOTH
@pytest.mark.parametrize("text", NOT_SAID)
def test_what_is_said_about_secrets_is_no_secret(text: str, masked: Mask) -> None:
    """A rule about passwords is a lesson like any other."""
    assert masked(text) == text


def test_the_mask_says_what_it_was_and_leaves_the_sentence() -> None:
    """ "The database is at db.internal" is worth knowing without its password."""
    url = case("SE-02")["secrets"]["pg_url"]

    assert (
        mask(f"DB is {url}")
        == "DB is postgresql://svc:[masked: password]@db.internal:5432/app?sslmode=require"
    )
    assert mask(f"use {TOKEN} here") == "use [masked: GitHub token] here"


def test_a_private_key_goes_whole_and_so_does_its_beginning() -> None:
    """A key that was cut off is still half a key."""
    pem = case("SE-02")["secrets"]["pem"]

    assert mask(f"before\n{pem}\nafter") == "before\n[masked: private key]\nafter"
    assert mask(f"before\n{pem[:90]}") == "before\n[masked: private key]"
    numbered = "\n".join(f"{number:6}→{line}" for number, line in enumerate(pem.splitlines(), start=1))
    changed = "\n".join(f"-{line}" for line in pem.splitlines())
    encrypted = pem.replace("\n", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n", 1)
    for shown in (pem, numbered, changed, encrypted):
        assert "MIIE" not in mask(shown)
        assert "MIIE" not in mask(shown.rpartition("\n")[0]), "cut before its end"
        assert "MIIE" not in mask(shown.partition("\n")[2]), "cut after its beginning"
    assert mask(pem.replace("RSA ", "").replace("PRIVATE", "PUBLIC")).startswith("-----BEGIN PUBLIC")


def test_the_library_finds_kinds_that_are_not_ours() -> None:
    """New providers appear every month; the library follows them."""
    text = j("the mailbox uses ", "xkey", "sib-", "a1b2c3d4" * 8, "-", "AbCdEfGh12345678")

    assert mask(text) == text
    assert "a1b2c3d4a1b2" not in ours_and_theirs.mask(text)


def test_a_part_is_masked_in_every_field_and_arguments_stay_json() -> None:
    """A secret hides in file names and in numbers as well as in text."""
    parts = (
        Text(text=f"use {TOKEN}"),
        ToolCall(
            id="c1", name=TOKEN, arguments=json.dumps({"card": 4111111111111111, "why": TOKEN, "n": 17})
        ),
        ToolResult(call_id="c1", text=TOKEN),
        Attachment(name=f"{TOKEN}.txt", text=TOKEN),
        Text(text="nothing here"),
    )

    shown = mask_parts(parts)

    assert "Q9w8" not in repr(shown)
    assert shown[1].id == "c1"  # type: ignore[union-attr] # it is the call
    assert json.loads(shown[1].arguments)["n"] == 17  # type: ignore[union-attr] # as above
    assert shown[4] is parts[4]
    assert mask_parts((parts[4],)) == (parts[4],)


@given(st.text(max_size=200), st.text(max_size=200))
def test_masking_is_idempotent_and_loses_nothing_else(before: str, after: str) -> None:
    """Text passes through masking several times on its way."""
    text = f"{before} {TOKEN} {after}"

    shown = mask(text)

    assert mask(shown) == shown
    assert "Q9w8Q9w8" not in shown
    places = find(text)
    assert all(one.start < one.end <= len(text) for one in places)
    assert all(one.end <= two.start for one, two in itertools.pairwise(places))


@pytest.mark.parametrize(
    "unit",
    [
        "-----BEGIN PRIVATE KEY-----",
        "password is ",
        "://a:",
        "4111 ",
        "sk-",
        "token: ",
        "eyJ",
        "x",
        "ab\n",
        "?key=",
        "x1 is the password ",
        "ABCDEFGHIJKLMNOPQRST\n-----END PRIVATE KEY-----\n",
        "curl -u a:",
        "user,password\n",
        "--password ",
        "'",
    ],
)
def test_masking_takes_time_in_proportion(unit: str) -> None:
    """A message of megabytes, or one made to be slow, must not hold up the intake."""
    text = unit * (400_000 // len(unit))

    begun = time.process_time()
    mask(text)

    assert time.process_time() - begun < 20, "what grows with the square takes hours"
