"""The docs hold: every link leads somewhere, every table is described, every example runs."""

from __future__ import annotations

import ast
import contextlib
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis

from takeaways.schemas import queues, tables
from takeaways.schemas.database import Database
from takeaways.schemas.events import decode
from tests.command_line import root_command, understood

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("**/*.md"), *(ROOT / "requirements").glob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]\n]+\]\(([^)\s]+)\)")
# What the examples say, and what a test puts in its place.
REDIS_URL = "redis://localhost:6379/0"
DATABASE_URL = "sqlite:///takeaways.db"


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    """The fenced blocks of all pages in one of these languages."""
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        for match in FENCE.finditer(text):
            if match[1] in languages:
                found.append(Block(page, text.count("\n", 0, match.start()) + 1, match[1], match[2]))
    return found


def commands(block: Block) -> Iterator[list[str]]:
    """The words of each command of a console block, as a shell splits them; a quote may span lines."""
    begun = ""
    for line in block.text.splitlines():
        if not begun and not line.startswith("$ "):
            continue
        begun += line[2:] if not begun else f"\n{line}"
        with contextlib.suppress(ValueError):  # a quote is still open
            yield shlex.split(begun)
            begun = ""
    assert not begun, f"{block}: a quote is never closed"


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings make, by GitHub's rule."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_between_pages_leads_somewhere(page: Path) -> None:
    """A reader who follows a link finds the page, and the heading on it."""
    for target in LINK.findall(prose(page)):
        if "://" in target or target.startswith("mailto:"):
            continue
        name, _, anchor = target.partition("#")
        other = (page.parent / name).resolve() if name else page

        assert other.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(other), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_is_reached_from_the_readme(page: Path) -> None:
    """A page that no other page links to is read by nobody."""
    reached, to_do = set[Path](), [ROOT / "README.md"]
    while to_do:
        current = to_do.pop()
        if current in reached or current.suffix != ".md" or not current.exists():
            continue
        reached.add(current)
        names = (target.partition("#")[0] for target in LINK.findall(prose(current)) if "://" not in target)
        to_do.extend((current.parent / name).resolve() for name in names if name)

    assert page in reached


@pytest.mark.parametrize(
    "page", sorted({block.page for block in blocks("python")}), ids=lambda page: page.name
)
def test_python_examples_run(
    page: Path, redis_url: str, sqlite_database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a reader copies works. The blocks of a page run in order; an illustration is only compiled."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": page.stem}
    for block in blocks("python"):
        if block.page != page:
            continue
        code = block.text.replace(REDIS_URL, redis_url).replace(DATABASE_URL, str(sqlite_database.engine.url))
        compiled = compile(code, str(block), "exec", dont_inherit=True)

        if not block.text.startswith("# illustration"):
            exec(compiled, names)  # noqa: S102 - our own pages


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_json_examples_can_be_read(block: Block) -> None:
    """An example of an event is one that a worker would take in."""
    value = json.loads(block.text)

    if isinstance(value, dict) and "specversion" in value:
        decode(block.text.encode())


@pytest.mark.parametrize("block", [b for b in blocks("console") if "XADD" in b.text], ids=str)
def test_an_event_can_be_published_with_one_command_of_redis(block: Block, redis_url: str) -> None:
    """Any language can publish: the command in the docs makes an entry that decodes."""
    with redis.Redis.from_url(redis_url) as client:
        for words in commands(block):
            if "XADD" in words:
                client.execute_command(*words[words.index("XADD") :])

        for stream in queues.STREAMS:
            entries: Any = client.xrange(stream)
            for _, fields in entries:
                decode(fields[queues.FIELD.encode()], stream=stream)


def test_commands_of_make_exist() -> None:
    """Every `make` target that a page names is one."""
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))

    for page in PAGES:
        for target in re.findall(r"(?:^\$ |`)make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE):
            assert target in targets, f"{page.name} names make {target}"


@pytest.mark.parametrize("block", [b for b in blocks("console") if "$ takeaways" in b.text], ids=str)
def test_commands_in_console_blocks_are_understood(block: Block) -> None:
    """What a reader pastes into a terminal has the names and options of today."""
    for words in commands(block):
        if words[0] == "takeaways":
            try:
                understood(words[1:])
            except Exception as error:
                # The reader's own files are not here.
                if "does not exist" not in str(error):
                    raise


def test_commands_named_in_passing_exist() -> None:
    """`takeaways …` in a sentence names a command that there is."""
    commands = root_command().commands
    for page in PAGES:
        for named in re.findall(r"`takeaways ([a-z-]+)(?= |`)", prose(page)):
            assert named in commands, f"{page.name} names takeaways {named}"


@pytest.mark.parametrize("table", sorted(tables.metadata.tables))
def test_every_table_and_column_is_described(table: str) -> None:
    """Whoever looks into the database finds what each column means and how long it lives."""
    page = (ROOT / "docs" / "redis-and-tables.md").read_text("utf-8")
    section = re.search(rf"^### {table}\n(.*?)(?=^### |\Z)", page, re.MULTILINE | re.DOTALL)

    assert section is not None
    described = set(re.findall(r"`(\w+)`", section[1]))
    assert sorted(set(tables.metadata.tables[table].columns.keys()) - described) == []


def test_no_table_is_described_that_is_not_there() -> None:
    """The page is about the tables of today."""
    page = (ROOT / "docs" / "redis-and-tables.md").read_text("utf-8")

    assert set(re.findall(r"^### (\w+)$", page, re.MULTILINE)) == set(tables.metadata.tables)


def test_every_name_on_redis_is_described_with_its_lifetime() -> None:
    """A key that nobody knows is a key that nobody dares to delete."""
    page = (ROOT / "docs" / "redis-and-tables.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `takeaways:")]
    keys = {*queues.STREAMS, *(f"{queues.BROKER_PREFIX}{kind}" for kind in queues.Kind)}

    assert sorted(key for key in keys if not any(f"`{key}`" in row for row in rows)) == []
    assert all(len(row.split("|")) == 6 and row.split("|")[4].strip() for row in rows)


def test_the_tests_that_guard_the_protocol_exist() -> None:
    """`docs/internals.md` names the test that guards each rule: a renamed test must be renamed there too."""
    page = (ROOT / "docs" / "internals.md").read_text("utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page)

    for file, function in named:
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}

        assert not function or function in functions, f"{file}::{function}"


def test_the_words_of_the_glossary_are_in_order() -> None:
    """A glossary is looked things up in."""
    page = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    words = [
        word for word in re.findall(r"^\| ([^|]+?) \|", page, re.MULTILINE) if word not in ("word", "---")
    ]

    assert words == sorted(words)
