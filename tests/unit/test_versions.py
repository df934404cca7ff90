"""Which programs work with which tables, as a table."""

from __future__ import annotations

import re

import pytest
from alembic.script import ScriptDirectory

from takeaways.schemas.migrations import FOLDER
from takeaways.schemas.versions import NEWEST, Fit, complaint, fit

NAMES = [script.revision for script in ScriptDirectory(str(FOLDER)).walk_revisions("base", "heads")]


@pytest.mark.parametrize(
    ("tables", "program", "fits"),
    [
        (None, "0002_from_0001", Fit.EMPTY),
        ("0001", "0001", Fit.SAME),
        ("0001", "0002_from_0001", Fit.OLD),
        ("0002_from_0001", "0002_from_0001", Fit.SAME),
        ("0002_from_0001", "0001", Fit.NEWER),
        ("0003_from_0001", "0001", Fit.NEWER),
        ("0003_from_0002", "0002_from_0001", Fit.NEWER),
        ("0003_from_0002", "0001", Fit.TOO_NEW),
        ("0004", "0003_from_0002", Fit.TOO_NEW),
        ("0010_from_0009", "0009_from_0008", Fit.NEWER),
        ("ae1027a6acf", "0001", Fit.TOO_NEW),
    ],
)
def test_a_program_judges_tables_by_their_version(tables: str | None, program: str, fits: Fit) -> None:
    """An older worker goes on beside newer ones for as long as the tables allow, and no longer."""
    assert fit(tables, program) is fits


def test_every_misfit_says_what_to_do() -> None:
    """Whoever is in the middle of an upgrade reads which of the two to bring forward."""
    assert "run `takeaways migrate`" in (complaint(None) or "")
    assert "run `takeaways migrate`" in (complaint("0001", "0002_from_0001") or "")
    assert "install a newer one" in (complaint("0003_from_0002", "0001") or "")
    assert complaint("0002_from_0001", "0001") is None


def test_the_program_is_written_for_its_newest_migration() -> None:
    """A program that ships a migration and does not ask for it would work on tables without it."""
    assert NAMES[0] == NEWEST


def test_names_of_migrations_say_what_they_work_with() -> None:
    """Versions are compared as text, and what was cut off once stays cut off."""
    oldest = []
    for place, name in enumerate(reversed(NAMES), start=1):
        number, _, works_from = name.partition("_from_")
        assert re.fullmatch(r"\d{4}(_from_\d{4})?", name), name
        assert int(number) == place
        oldest.append(works_from or number)

    assert oldest == sorted(oldest)
