"""Looking for a word in everything that a server keeps: each table, each key of Redis, each file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from redis import Redis
from sqlalchemy import select

from takeaways.schemas.database import Database
from takeaways.schemas.tables import metadata


def found_in(database: Database, redis_url: str, *folders: Path, word: str) -> list[str]:
    """Where `word` still stands, as readable places; empty when it is gone."""
    return [
        *_in_tables(database, word),
        *_in_redis(redis_url, word),
        *_in_sqlite_files(database, word),
        *(place for folder in folders for place in _in_folder(folder, word)),
    ]


def _in_tables(database: Database, word: str) -> list[str]:
    found = []
    with database.read() as connection:
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table)).mappings():
                found += [f"{table.name}.{name}" for name, value in row.items() if _holds(value, word)]
    return found


def _holds(value: Any, word: str) -> bool:
    if isinstance(value, bytes | memoryview):
        return word.encode() in bytes(value)
    return word in str(value)


def _in_redis(url: str, word: str) -> list[str]:
    with Redis.from_url(url) as client:
        return [
            f"redis {key.decode()}"
            for key in client.scan_iter()
            if client.type(key) == b"stream" and word in str(client.xrange(key))
        ]


def _in_sqlite_files(database: Database, word: str) -> list[str]:
    if not database.is_sqlite:
        return []
    file = Path(str(database.engine.url.database))
    return [str(one) for one in file.parent.glob(f"{file.name}*") if word.encode() in one.read_bytes()]


def _in_folder(folder: Path, word: str) -> list[str]:
    return [
        str(one)
        for one in folder.rglob("*")
        if word in one.name or (one.is_file() and word.encode() in one.read_bytes())
    ]
