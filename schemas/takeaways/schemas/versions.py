"""Which tables a program can work with.

A version of the tables is the name of a migration. Where older programs still work with its tables, it says from
which version on: `0003_from_0002` is for programs of 0002 and newer, a plain `0003` for none that is older. So a
program can judge tables that are newer than itself, and an upgrade needs no moment at which everything stops.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from sqlalchemy import Connection, inspect, text

from takeaways.schemas.errors import Misconfigured

NEWEST: Final = "0001"
"""The version that this program was written for: the newest migration that it ships."""


class Fit(StrEnum):
    """How tables and a program fit. `newer` ones were made for a later program, and this one still works."""

    EMPTY = "empty"
    SAME = "same"
    OLD = "old"
    NEWER = "newer"
    TOO_NEW = "too_new"


def fit(tables: str | None, program: str = NEWEST) -> Fit:
    """How tables of a version, or of none, fit a program that was written for another."""
    if tables is None:
        return Fit.EMPTY
    number, _, works_from = tables.partition("_from_")
    own = program.partition("_from_")[0]
    if number == own:
        return Fit.SAME
    if number < own:
        return Fit.OLD
    return Fit.NEWER if (works_from or number) <= own else Fit.TOO_NEW


def complaint(tables: str | None, program: str = NEWEST) -> str | None:
    """What is wrong with such tables, and what to do; None where the program works with them."""
    match fit(tables, program):
        case Fit.EMPTY:
            return "the database has no tables yet: run `takeaways migrate`"
        case Fit.OLD:
            return (
                f"the database's tables are of version {tables}, and this program needs {program}: "
                "run `takeaways migrate`"
            )
        case Fit.TOO_NEW:
            return (
                f"the database's tables are of version {tables}, and this program, which knows {program}, "
                "is too old for them: install a newer one"
            )
        case Fit.SAME | Fit.NEWER:
            return None


def version_of(connection: Connection) -> str | None:
    """The version that the tables are of; None before the first migration."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return found


def require(connection: Connection) -> None:
    """Raise `Misconfigured`, saying what to do, where this program cannot work with the tables."""
    if why := complaint(version_of(connection)):
        raise Misconfigured(why)
