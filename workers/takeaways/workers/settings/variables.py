"""The settings, read from the environment in one place: every variable is `TAKEAWAYS_` and a field's name.

What is not set comes from a `takeaways up` that runs with the same home, so that the commands of a second
terminal meet it without any setting; else from the defaults below. URLs may hold passwords: they are shown
through `address` and left out of `repr`.
"""

from __future__ import annotations

import difflib
import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from takeaways.schemas.errors import Misconfigured
from takeaways.workers.models.prices import Price
from takeaways.workers.models.windows import LEAST_WINDOW, MOST_WINDOW
from takeaways.workers.schedule.policy import Policy

PREFIX: Final = "TAKEAWAYS_"
# Read before there are settings, or only by tests and benchmarks.
_KNOWN_ELSEWHERE: Final = frozenset({"TAKEAWAYS_CASES", "TAKEAWAYS_DATA", "TAKEAWAYS_FAULT_AT"})
_DEFAULT_POLICY: Final = Policy()

Days = Annotated[float, Field(ge=0, le=36_600)]
Seconds = Annotated[float, Field(gt=0, le=366 * 24 * 3600.0)]
Positive = Annotated[int, Field(ge=1, le=1_000_000)]
Tokens = Annotated[int, Field(ge=1, le=10**12)]
WindowTokens = Annotated[int, Field(ge=LEAST_WINDOW, le=MOST_WINDOW)]


MODEL_NAMES: Final = "use offline, offline+local, claude-…, anthropic/NAME or package.module:factory"


def _model_name(name: str) -> str:
    """A name that nobody knows would start workers that can do no job."""
    if name in ("offline", "offline+local") or name.startswith(("claude-", "anthropic/")) or ":" in name:
        return name
    raise PydanticCustomError(
        "model", "{name} is not known; {names}", {"name": repr(name), "names": MODEL_NAMES}
    )


ModelName = Annotated[str, AfterValidator(_model_name)]


def _default_home() -> Path:
    """The folder for the database and the embedded server's data, as the XDG rules have it."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "takeaways"


class Settings(BaseSettings):
    """One frozen value, made at start-up and handed on."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", env_ignore_empty=True)

    home: Path = Field(
        default_factory=_default_home, description="folder of the default database and of the data of `up`"
    )
    redis_url: str = Field(
        default="redis://127.0.0.1:6379/0",
        repr=False,
        description="where events are published; `rediss://` for TLS",
    )
    broker_url: str = Field(
        default="", repr=False, description="where hints travel; the same server unless set"
    )
    database_url: str = Field(
        default="",
        repr=False,
        description="`sqlite:///file` or `postgresql://…`; a SQLite file in the home unless set",
    )

    model: ModelName = Field(
        default="offline",
        description="the working model: `offline`, `offline+local` (sentence embeddings, needs the extra `local`), "
        "`claude-…`, `anthropic/NAME` (another one at `ANTHROPIC_BASE_URL`), or `package.module:factory`",
    )
    extraction_model: ModelName | None = Field(
        default=None, description="another model for extraction, for all agents"
    )
    consolidation_model: ModelName | None = Field(
        default=None, description="another model for consolidation, for all agents"
    )
    window: int | None = Field(
        default=None, ge=1_000, description="context window in tokens, over what the model says"
    )
    windows: dict[str, WindowTokens] = Field(
        default_factory=dict, description='windows of single models, as JSON: `{"house-model": 64000}`'
    )
    output_tokens: dict[str, Tokens] = Field(
        default_factory=dict,
        description='the most that single models answer, as JSON: `{"house-model": 8000}`; else as they say',
    )
    prices: dict[str, Price] = Field(
        default_factory=dict,
        description='dollars for a million tokens, over the list prices: `{"house-model": {"input": 2, "output": 10}}`',
    )
    model_calls_at_once: Positive | None = Field(
        default=None, description="calls to one model at once, over all workers"
    )
    model_tokens_a_minute: Tokens | None = Field(
        default=None, description="tokens sent to one model in a minute, over all workers"
    )
    model_wait_seconds: Seconds = Field(
        default=15.0, description="first wait after a fault of a model; doubles each time"
    )
    model_wait_max_seconds: Seconds = Field(default=300.0, description="the longest of these waits")
    boot_id: str | None = Field(
        default=None, max_length=255, description="pins the boot; a new value resets run counts"
    )

    pool: Literal["threads", "prefork", "solo"] = Field(
        default="threads", description="Celery's pool: `threads`, `prefork` or `solo`"
    )
    pool_start_method: Literal["fork", "spawn"] = Field(
        default="fork", description="how `prefork` makes its children: `fork` or `spawn`"
    )
    concurrency: Positive = Field(default=20, description="jobs at once in one worker process")

    runs_per_extraction: Positive = Field(
        default=_DEFAULT_POLICY.runs_per_extraction,
        description="successful runs, in all rooms of an agent, until an extraction is due",
    )
    idle_seconds: Seconds = Field(
        default=_DEFAULT_POLICY.idle_seconds,
        description="time without a successful run until a consolidation is due",
    )
    candidates_per_consolidation: Positive = Field(
        default=_DEFAULT_POLICY.candidates_per_consolidation,
        description="waiting candidates that make a consolidation due",
    )
    rooms_summarised: Positive = Field(
        default=_DEFAULT_POLICY.rooms_summarised, description="rooms whose session summaries are kept"
    )
    lease_seconds: Seconds = Field(
        default=_DEFAULT_POLICY.lease_seconds,
        description="how long an agent stays locked by a worker that died",
    )
    slice_seconds: Seconds = Field(
        default=_DEFAULT_POLICY.slice_seconds, description="after this long a job lets others go first"
    )
    call_seconds: Seconds = Field(
        default=_DEFAULT_POLICY.call_seconds, description="the longest that one call to the model may take"
    )
    grace_seconds: Seconds | None = Field(
        default=None, description="how long a stop may take; unset: one call to the model and 15 s"
    )
    max_attempts: Positive = Field(
        default=_DEFAULT_POLICY.max_attempts, description="tries until a batch is quarantined"
    )
    quarantine_seconds: Seconds = Field(
        default=_DEFAULT_POLICY.quarantine_seconds,
        description="until what was set aside is tried again, alone",
    )
    daily_tokens: Tokens | None = Field(
        default=None, description="tokens of one agent in a day (UTC), sent and received, until its jobs stop"
    )
    person_message_tokens: Tokens = Field(
        default=_DEFAULT_POLICY.person_message_tokens,
        description="what extraction keeps of one message of a person; the rest is cut off and counted",
    )
    answer_message_tokens: Tokens = Field(
        default=_DEFAULT_POLICY.answer_message_tokens, description="the same for the agent's answers"
    )
    agent_message_tokens: Tokens = Field(
        default=_DEFAULT_POLICY.agent_message_tokens,
        description="the same for other agents, and for what the agent says between calls of tools",
    )
    tool_message_tokens: Tokens = Field(
        default=_DEFAULT_POLICY.tool_message_tokens,
        description="the same for calls of tools and what they return",
    )
    hint_again_seconds: Seconds = Field(
        default=_DEFAULT_POLICY.hint_again_seconds,
        description="until a hint that nobody answered is repeated; doubles each time",
    )
    hint_again_max_seconds: Seconds = Field(
        default=_DEFAULT_POLICY.hint_again_max_seconds, description="the longest wait between two of them"
    )

    raw_text_days: Days | None = Field(
        default=None,
        description="days after its extraction that the text of a message is kept; unset: always",
    )
    raw_text_quotes: bool = Field(
        default=True, description="whether the quotes of such messages stay with the lessons"
    )
    notes_memory_chars: int = Field(
        default=2_200,
        ge=0,
        le=100_000,
        description="characters of an agent's standing note, for `takeaways notes`",
    )
    notes_user_chars: int = Field(
        default=1_375, ge=0, le=100_000, description="the same of the standing note about a person"
    )
    metrics: bool = Field(default=True, description="whether each pool serves its metrics over HTTP")
    metrics_host: str = Field(
        default="127.0.0.1", description="the address that metrics are served on; they need no password"
    )
    metrics_port: int = Field(
        default=9601,
        ge=0,
        le=65_534,
        description="the port of an extraction pool's metrics; a consolidation pool's is the next. 0: any free one",
    )

    log_format: Literal["auto", "json", "text"] = Field(
        default="auto", description="`text`, `json`, or `auto`: text on a terminal, else JSON"
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="of our own messages; libraries are heard from WARNING"
    )

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.upper() if isinstance(value, str) else value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings

    @classmethod
    def from_env(cls, **overrides: Any) -> Self:
        """Read the environment; `overrides` win. Raises `Misconfigured` that names each bad variable."""
        try:
            settings = cls(**overrides)
        except ValidationError as error:
            raise Misconfigured(_explain(error)) from None
        except SettingsError as error:
            raise Misconfigured(f"{PREFIX}{unreadable(error).upper()}: this is no JSON") from None
        found = running_server(settings.home)
        missing = {name: value for name, value in found.items() if name not in settings.model_fields_set}
        if not missing:
            return settings
        return cls(**{**settings.model_dump(include=settings.model_fields_set), **missing})

    @property
    def policy(self) -> Policy:
        """The numbers that the decision and the jobs go by."""
        names = Policy.__dataclass_fields__
        return Policy(**{name: getattr(self, name) for name in names})

    @property
    def broker(self) -> str:
        return self.broker_url or self.redis_url

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'takeaways.db'}"

    @property
    def uses_sqlite(self) -> bool:
        return self.database.startswith("sqlite")

    @property
    def drain_seconds(self) -> float:
        """How long a worker may take to drain before it is killed."""
        return self.call_seconds + 15.0 if self.grace_seconds is None else self.grace_seconds

    @property
    def abort_seconds(self) -> float:
        """How long after the stop running calls are called off, so that there is time to give leases back."""
        return max(self.drain_seconds - 10.0, self.drain_seconds / 2)

    def environment(self) -> dict[str, str]:
        """The variables that give another process these settings, with the passwords that are in the URLs."""
        values = {
            **self.model_dump(mode="json", exclude_none=True),
            "broker_url": self.broker,
            "database_url": self.database,
        }
        return {f"{PREFIX}{name.upper()}": _as_text(value) for name, value in values.items()}


def _as_text(value: Any) -> str:
    """A value as an environment variable holds it: tables are JSON."""
    return json.dumps(value) if isinstance(value, dict) else str(value)


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """One warning for each `TAKEAWAYS_…` variable that nothing reads, with the name that may be meant."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | _KNOWN_ELSEWHERE
    warnings = []
    for name in sorted(environ):
        if name.upper().startswith(PREFIX) and name.upper() not in known:
            near = difflib.get_close_matches(name.upper(), known, n=1)
            warnings.append(f"{name} is no setting of ours{f'; is {near[0]} meant?' if near else ''}")
    return warnings


def address(url: str) -> str:
    """A URL without user, password and query: what logs and messages may show."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(a URL that cannot be read)"
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


def running_server(home: Path) -> dict[str, str]:
    """The settings of a `takeaways up` that runs with this home, or nothing.

    A lock on its file, which ends with the process, says that it still runs.
    """
    try:
        with (home / "up.json").open("r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                found: dict[str, str] = json.load(file)
                return found
    except (OSError, ValueError):
        pass
    return {}


def unreadable(error: SettingsError) -> str:
    """The field whose value could not even be parsed. The error names it in quotes and nowhere else."""
    return str(error).partition('field "')[2].partition('"')[0]


def _explain(error: ValidationError) -> str:
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{PREFIX}{str(p['loc'][0]).upper() if p['loc'] else ''}: {p['msg']}" for p in problems)
