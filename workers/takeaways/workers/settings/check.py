"""What is set, from where, and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError
from pydantic_settings import SettingsError

from takeaways.workers.pools.supported import why_not
from takeaways.workers.settings.variables import (
    PREFIX,
    Settings,
    address,
    running_server,
    unknown_variables,
    unreadable,
)

_URLS: Final = frozenset({"redis_url", "broker_url", "database_url"})


class Source(StrEnum):
    ENVIRONMENT = "environment"
    RUNNING_UP = "running up"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Setting:
    """One variable. `shown` is its value without secrets; empty where it cannot be read."""

    variable: str
    shown: str
    source: Source
    problem: str | None = None
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Checked:
    """Every setting, what is wrong with them together, and variables that nothing reads."""

    settings: tuple[Setting, ...]
    problems: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def works(self) -> bool:
        """Whether workers can start with this. A variable that nothing reads does not stop them."""
        return not self.problems and not any(setting.problem for setting in self.settings)


def check(environ: Mapping[str, str]) -> Checked:
    """Explain the settings that a process with this environment, which must be this one's, would have."""
    problems: dict[str, str] = {}
    whole: list[str] = []
    values: dict[str, Any] = {}
    found: dict[str, str] = {}
    try:
        settings = Settings()
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False, include_context=False):
            problems[str(problem["loc"][0])] = problem["msg"]
    except SettingsError as error:
        problems[unreadable(error)] = "this is no JSON"
    else:
        given = settings.model_fields_set
        found = {name: value for name, value in running_server(settings.home).items() if name not in given}
        settings = Settings.from_env()
        values = {
            **settings.model_dump(mode="json"),
            "broker_url": settings.broker,
            "database_url": settings.database,
        }
        whole = _together(settings)
    named = {name.upper() for name, value in environ.items() if value}
    rows = []
    for name, info in Settings.model_fields.items():
        variable = f"{PREFIX}{name.upper()}"
        source = Source.DEFAULT
        if variable in named:
            source = Source.ENVIRONMENT
        elif name in found:
            source = Source.RUNNING_UP
        rows.append(
            Setting(
                variable, _shown(name, values.get(name)), source, problems.get(name), info.description or ""
            )
        )
    return Checked(tuple(rows), tuple(whole), tuple(unknown_variables(environ)))


def _together(settings: Settings) -> list[str]:
    """What is right by itself and wrong with the rest."""
    problems = []
    if why := why_not(settings, pool=settings.pool, start_method=settings.pool_start_method):
        problems.append(why)
    for variable, url in (("REDIS_URL", settings.redis_url), ("BROKER_URL", settings.broker)):
        if url.partition("://")[0] not in ("redis", "rediss", "unix"):
            problems.append(f"{PREFIX}{variable}: use redis://host:6379/0 or rediss://…")
    if settings.database.partition("://")[0].partition("+")[0] not in ("sqlite", "postgresql"):
        problems.append(f"{PREFIX}DATABASE_URL: use sqlite:///path/to/file or postgresql://…")
    if settings.uses_sqlite and not settings.database_url and settings.home.exists():
        problems.extend(_folder(settings.home))
    if settings.model_wait_seconds > settings.model_wait_max_seconds:
        problems.append(f"{PREFIX}MODEL_WAIT_SECONDS is longer than {PREFIX}MODEL_WAIT_MAX_SECONDS")
    if settings.hint_again_seconds > settings.hint_again_max_seconds:
        problems.append(f"{PREFIX}HINT_AGAIN_SECONDS is longer than {PREFIX}HINT_AGAIN_MAX_SECONDS")
    return problems


def _folder(home: Path) -> list[str]:
    return [] if home.is_dir() else [f"{PREFIX}HOME: {home} is not a folder"]


def _shown(name: str, value: Any) -> str:
    if value is None or value in ("", {}):
        return ""
    if name in _URLS:
        return address(str(value))
    return json.dumps(value) if isinstance(value, dict | bool) else str(value)
