"""Four parts of one namespace, what each may need, and what the wheel has to carry."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("workers", "recall", "producers", "schemas")
FOLDERS = {".ci", "benchmarks", "deploy", "docs", "requirements", "scripts", "tests", *PARTS}
# Somebody's home, a package registry. Written so that they do not match themselves.
MACHINE_PATH = re.compile(r"(?<![\w.:~-])/(?:wor[k]|roo[t]|hom[e]/\w+|User[s]/\w+)/")
REGISTRY = re.compile(r"pyp[i]\.org|pythonhosted\.or[g]|--(?:extra-)?inde[x]-url[ =]|--find-link[s][ =]")


def tracked() -> list[Path]:
    """The files of the checkout that git knows, as paths relative to the root."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.split("\0")
    return [Path(name) for name in listed if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_a_typed_piece_of_one_namespace(part: str) -> None:
    """An `__init__.py` in one part would hide the three others; without `py.typed` a part has no types."""
    assert not (ROOT / part / "takeaways" / "__init__.py").exists()
    assert (ROOT / part / "takeaways" / part / "__init__.py").is_file()
    assert (ROOT / part / "takeaways" / part / "py.typed").is_file()


@pytest.mark.parametrize(
    ("part", "absent"),
    [
        ("takeaways.producers", ("sqlalchemy", "alembic", "anthropic", "celery", "kombu", "typer", "rich")),
        ("takeaways.recall", ("alembic", "anthropic", "celery", "kombu", "typer", "rich")),
    ],
)
def test_a_service_installs_only_what_its_part_needs(part: str, absent: tuple[str, ...]) -> None:
    """Publishing takes redis and pydantic, reading takes SQLAlchemy besides: neither drags in the workers."""
    blocked = "; ".join(f"sys.modules[{name!r}] = None" for name in absent)

    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {blocked}; import {part}"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("part", ["takeaways.workers.app", "takeaways.workers.cli"])
def test_the_sdk_of_the_model_is_imported_only_where_it_is_used(part: str) -> None:
    """It takes seconds to import; neither `--help` nor a worker of the offline model waits for it."""
    done = subprocess.run(
        [sys.executable, "-c", f"import {part}, sys; sys.exit('anthropic' in sys.modules)"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr or f"{part} imports anthropic"


def test_the_wheel_carries_every_file_of_the_parts(tmp_path: Path) -> None:
    """Prompts, scripts and migrations are read at run time: one left out breaks only the installed copy."""
    build = f"import hatchling.build; print(hatchling.build.build_wheel({str(tmp_path)!r}))"

    subprocess.run([sys.executable, "-c", build], cwd=ROOT, check=True, capture_output=True)

    (wheel,) = tmp_path.glob("takeaways-*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        path.relative_to(ROOT / part).as_posix()
        for part in PARTS
        for path in (ROOT / part / "takeaways").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sorted(wanted - packed) == []
    assert {f"takeaways/{part}/py.typed" for part in PARTS} <= packed
    assert [name for name in packed if not name.startswith("takeaways")] == []


def test_every_folder_at_the_top_is_known() -> None:
    """A stray folder at the top is either misplaced or missing from the docs and this list."""
    assert {path.parts[0] for path in tracked() if len(path.parts) > 1} <= FOLDERS


def test_no_file_names_a_place_on_somebodys_machine_or_a_package_registry() -> None:
    """A path or an index that exists only here breaks the install for everybody else."""
    found = []
    for path in tracked():
        text = (ROOT / path).read_bytes().decode("utf-8", "replace")
        for number, line in enumerate(text.splitlines(), start=1):
            if MACHINE_PATH.search(line) or REGISTRY.search(line):
                found.append(f"{path}:{number}")

    assert found == []


def test_pinned_requirements_hold_hashes_and_no_address() -> None:
    """What is installed is what was tested, byte for byte, from whatever index the machine uses."""
    for name in ("run.txt", "dev.txt", "image.txt", "build.txt"):
        text = (ROOT / "requirements" / name).read_text()
        pins = re.findall(r"^(\S+)==", text, re.MULTILINE)
        hashed = re.findall(r"^\S+==.*\\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)

        assert len(pins) > 5
        assert len(hashed) == len(pins)
        assert "://" not in text


def test_what_runs_is_what_was_tested() -> None:
    """All requirement files pin the same version of what they share."""

    def pins(name: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for package, version in re.findall(
            r"^(\S+)==([^\s;]+)", (ROOT / "requirements" / name).read_text(), re.MULTILINE
        ):
            found.setdefault(package, set()).add(version)
        return found

    tested = pins("dev.txt")
    for name in ("run.txt", "image.txt", "build.txt"):
        assert {what: versions for what, versions in pins(name).items() if tested.get(what) != versions} == {}
