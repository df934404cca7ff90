"""What an error is for a person: an exit code, and one line."""

from __future__ import annotations

import os
import re
from typing import Final

from takeaways.schemas.errors import Misconfigured, NotFound, TakeawaysError, Transient
from takeaways.workers.exits import Exit

_DAMAGED: Final = re.compile("disk image is malformed|file is not a database")


def explain(error: Exception) -> tuple[Exit, str] | None:
    """The code and the line for an error that is to be expected; None for one that deserves its traceback."""
    if isinstance(error, TakeawaysError):
        from takeaways.schemas.secrets import mask

        return code_of(error), mask(str(error))
    if isinstance(error, OSError) and error.filename is not None:
        return Exit.FAILED, f"{os.fspath(error.filename)!s}: {error.strerror}"
    # The two clients are imported only by commands that use them, so they are told apart by name.
    from takeaways.schemas.database import first_line

    family, name = type(error).__module__.partition(".")[0], type(error).__name__
    if family == "redis":
        return (
            Exit.UNAVAILABLE,
            f"Redis does not answer ({first_line(error)}). Is it running? `takeaways up` starts one",
        )
    if family == "sqlalchemy" and (origin := getattr(error, "orig", None)) is not None:
        return _database(name, origin)
    return None


def code_of(error: TakeawaysError) -> Exit:
    if isinstance(error, Misconfigured):
        return Exit.MISCONFIGURED
    if isinstance(error, NotFound):
        return Exit.NOTHING_FOUND
    return Exit.UNAVAILABLE if isinstance(error, Transient) else Exit.FAILED


def _database(name: str, origin: BaseException) -> tuple[Exit, str] | None:
    from takeaways.schemas.database import first_line, is_refused

    if "no such table" in str(origin) or type(origin).__name__ == "UndefinedTable":
        return Exit.MISCONFIGURED, "the database has no tables yet: run `takeaways migrate`"
    if "no such column" in str(origin) or type(origin).__name__ == "UndefinedColumn":
        return (
            Exit.MISCONFIGURED,
            "the database's tables are not of this version: `takeaways doctor` says what to do",
        )
    if type(origin).__name__ in ("InsufficientPrivilege", "ReadOnlySqlTransaction"):
        return (
            Exit.MISCONFIGURED,
            "the database lets this role do no such thing; takeaways_work is the one for people (docs/securing.md)",
        )
    if _DAMAGED.search(str(origin)):
        return (
            Exit.FAILED,
            f"the SQLite file is damaged, or is none ({first_line(origin)}): see docs/runbook.md on backups",
        )
    if name not in ("OperationalError", "InterfaceError"):
        return None
    if is_refused(origin):
        return (
            Exit.MISCONFIGURED,
            f"the database refuses us ({first_line(origin)}); check TAKEAWAYS_DATABASE_URL",
        )
    return Exit.UNAVAILABLE, f"the database does not answer ({first_line(origin)})"
