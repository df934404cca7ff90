"""Logs, in words that mean the same everywhere.

Every ending of a job (`Outcome`; the jobs table, logs, metrics, Flower and the command line say these words):

| ending | what it means | tried again |
| --- | --- | --- |
| `remembered` | something new was stored: candidates, or a revision of the memory | no |
| `nothing_to_remember` | everything was read and there was nothing lasting in it | no |
| `nothing_due` | the hint came late or twice; the work is already done | no |
| `busy` | another job holds the agent; that one, or the sweep, goes on | by the holder |
| `continues` | the slice is over and its progress is stored | at once |
| `overloaded` | the model is overloaded or limits its rate; the lease was given back | when it may be asked |
| `unavailable` | the model failed or could not be reached; the lease was given back | after a back-off |
| `parked` | a person has to act: key, permission, model name, spend limit, window | when it is put right |
| `daily_tokens` | the agent's tokens of the day are used up | the next day (UTC) |
| `handed_over` | reserved: the batch is with the provider, its answer comes later | by the answer |
| `interrupted` | the worker shuts down | by another worker |
| `fenced_off` | the lease was lost, so the result was thrown away | by the new holder |
| `refused` | the model declined to answer; the segment is set aside | alone, after a cool-down |
| `too_long` | the step does not fit the model's window, even halved | after a back-off |
| `unreadable_answer` | the answer was cut, empty or not of our schema | after a back-off |
| `refused_edits` | the edits break a rule of the memory; nothing was changed | after a back-off |
| `failed` | an error that is none of the others; the job's detail names it | after a back-off |
| `quarantined` | the batch failed as often as it may and is set aside, visibly | alone, after a cool-down |

Text of messages never gets into a log: values are cut short, secrets in them masked, and a traceback shows
no values at all.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import Any, Final, Literal, TextIO

import structlog

from takeaways.schemas.errors import TakeawaysError
from takeaways.schemas.secrets import mask

LogFormat = Literal["auto", "json", "text"]
_MAX_VALUE_CHARS: Final = 300
# What others print at INFO is about themselves; their warnings matter.
_OTHERS: Final = logging.WARNING


def configure(
    log_format: LogFormat = "auto", level: str = "INFO", *, stream: TextIO | None = None, **bound: str
) -> None:
    """Send our logs and those of the libraries to `stream` (stderr), one line each; `bound` is on every line.

    `auto` is text for a person at a terminal and JSON for a machine.
    """
    target = sys.stderr if stream is None else stream
    terminal = target.isatty()
    as_text = log_format == "text" or (log_format == "auto" and terminal)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _binder(bound),
        structlog.stdlib.add_log_level,
        *(_for_a_person() if as_text else _for_a_machine()),
        _without_values,
        _without_nothing,
        _short,
    ]
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer(colors=terminal, pad_event_to=0, sort_keys=False)
        if as_text
        else structlog.processors.JSONRenderer()
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(_OTHERS)
    logging.getLogger("takeaways").setLevel(level)
    logging.captureWarnings(True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def describe(error: BaseException) -> str:
    """An error in a line that may be shown: ours in full, others by their type and what the system says.

    The text of a foreign error may quote what it choked on (a statement's parameters, a field's value).
    """
    if isinstance(error, TakeawaysError):
        return f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}"
    origin = getattr(error, "orig", None)
    return f"{type(error).__name__} ({type(origin).__name__})" if origin is not None else type(error).__name__


def _for_a_person() -> list[structlog.typing.Processor]:
    return [structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False)]


def _for_a_machine() -> list[structlog.typing.Processor]:
    return [structlog.stdlib.add_logger_name, structlog.processors.TimeStamper(fmt="iso", utc=True)]


def _binder(bound: dict[str, str]) -> structlog.typing.Processor:
    def bind(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        return {**bound, **event}

    return bind


def _without_values(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace an exception by its chain of descriptions and the lines that it passed."""
    found = event.pop("exc_info", None)
    error = sys.exc_info()[1] if found is True else found[1] if isinstance(found, tuple) else found
    if isinstance(error, BaseException):
        event["error"] = describe(error)
        event["at"] = " < ".join(
            f"{frame.filename.rpartition('/')[2]}:{frame.lineno} {frame.name}"
            for frame in reversed(traceback.extract_tb(error.__traceback__)[-8:])
        )
        if error.__cause__ is not None:
            event["because"] = describe(error.__cause__)
    return event


def _without_nothing(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: value for key, value in event.items() if value is not None}


def _short(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str) and key != "at":
            shown = mask(value)
            long = len(shown) > _MAX_VALUE_CHARS
            event[key] = f"{shown[:_MAX_VALUE_CHARS]}… ({len(shown)} characters)" if long else shown
    return event
