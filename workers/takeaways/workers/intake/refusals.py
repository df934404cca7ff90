"""What a database's error means for a batch: its fault, a lost race, or the database's own trouble. Pure."""

from __future__ import annotations

from enum import Enum, auto

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError


class Meaning(Enum):
    """What to do with a batch that failed."""

    REFUSED = auto()  # something in it cannot be stored: find it by halving
    TOO_SLOW = auto()  # it took longer than a statement may: try halves, but nothing in it is bad
    LOCKED = auto()  # one of its agents is held by somebody: take in the others
    LOST_RACE = auto()  # a deadlock or a serialisation failure: repeat it
    UNAVAILABLE = auto()  # the database's own trouble: acknowledge nothing, try later


_BY_STATE = {
    "40P01": Meaning.LOST_RACE,
    "40001": Meaning.LOST_RACE,
    "55P03": Meaning.LOCKED,
    "57014": Meaning.TOO_SLOW,
}
# Data exceptions, constraint violations, and program limits: a key that is too long for an index comes as an
# "operational" error, and waiting will not make it shorter.
_REFUSED_CLASSES = ("22", "23", "54")


def meaning_of(error: Exception) -> Meaning:
    """Read an error that a batch's transaction raised."""
    if isinstance(error, UnicodeError | OverflowError):
        return Meaning.REFUSED  # the driver could not even send it
    if not isinstance(error, DBAPIError):
        return Meaning.UNAVAILABLE
    state = getattr(error.orig, "sqlstate", None) or ""
    if state in _BY_STATE:
        return _BY_STATE[state]
    if isinstance(error, DataError | IntegrityError) or state.startswith(_REFUSED_CLASSES):
        return Meaning.REFUSED
    return Meaning.UNAVAILABLE


def named(error: Exception) -> str:
    """The error's name and SQLSTATE. Its text is left out: databases quote the values that they refuse."""
    original = getattr(error, "orig", None) or error
    state = getattr(original, "sqlstate", None)
    return f"{type(original).__name__}{f' (SQLSTATE {state})' if state else ''}"
