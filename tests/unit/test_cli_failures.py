"""What a person reads when a server does not let us in, or does not answer, and the exit code for scripts."""

from __future__ import annotations

import sqlite3

import psycopg
import pytest
from sqlalchemy.exc import DatabaseError, OperationalError, ProgrammingError

from takeaways.workers.cli.failures import explain
from takeaways.workers.exits import Exit

AT = 'connection failed: connection to server at "10.0.0.7", port 5432 failed: '


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (f'{AT}FATAL:  password authentication failed for user "takeaways_work"', Exit.MISCONFIGURED),
        (f"{AT}fe_sendauth: no password supplied", Exit.MISCONFIGURED),
        (f'{AT}FATAL:  database "takeaway" does not exist', Exit.MISCONFIGURED),
        (f'{AT}FATAL:  no pg_hba.conf entry for host "10.0.0.9"', Exit.MISCONFIGURED),
        (f"{AT}Connection refused\n\tIs the server running on that host?", Exit.UNAVAILABLE),
        (f"{AT}FATAL:  the database system is starting up", Exit.UNAVAILABLE),
        (f"{AT}FATAL:  sorry, too many clients already", Exit.UNAVAILABLE),
        ("failed to resolve host 'postgres': [Errno -2] Name or service not known", Exit.UNAVAILABLE),
    ],
)
def test_a_database_that_refuses_us_is_told_from_one_that_is_away(said: str, code: Exit) -> None:
    """A script waits for a server that starts, and does not wait for a password that is wrong."""
    explained = explain(OperationalError("SELECT 1", {}, psycopg.OperationalError(said)))

    assert explained is not None
    assert explained[0] is code
    assert said.splitlines()[0] in explained[1]
    assert "\n" not in explained[1]


@pytest.mark.parametrize("said", ["file is not a database", "database disk image is malformed"])
def test_a_damaged_file_is_told_without_a_traceback(said: str) -> None:
    """Whoever sees it needs their backup, not our stack; and waiting does not mend it."""
    explained = explain(DatabaseError("SELECT 1", {}, sqlite3.DatabaseError(said)))

    assert explained is not None
    assert explained[0] is Exit.FAILED
    assert "runbook" in explained[1]


def test_a_statement_that_fails_is_not_explained() -> None:
    """Its text may quote what somebody said, and it is a fault of ours."""
    assert explain(ProgrammingError("SELECT", {}, psycopg.ProgrammingError("at or near"))) is None
