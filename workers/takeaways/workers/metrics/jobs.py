"""What jobs did, counted in the process that ran them."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Histogram

from takeaways.schemas.queues import Kind
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.result import JobResult
from takeaways.workers.metrics.labels import model_label

_SECONDS: Final = (0.05, 0.25, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600)
_WAITS: Final = (1, 5, 15, 30, 60, 120, 300, 900, 3600, 4 * 3600)
_RATIOS: Final = (0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.5, 2.0)
_SIZES: Final = (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000)

ENDED = Counter("takeaways_jobs", "Jobs by the name of their ending.", ("kind", "outcome"))
DURATION = Histogram(
    "takeaways_job_duration_seconds", "How long jobs that were claimed took.", ("kind",), buckets=_SECONDS
)
WAIT = Histogram(
    "takeaways_job_wait_seconds", "From when work was due until a job claimed it.", ("kind",), buckets=_WAITS
)
SET_ASIDE = Counter("takeaways_jobs_set_aside", "Jobs that put something into quarantine.", ("kind",))
MESSAGES = Counter("takeaways_messages_read", "Messages that extractions have read.")
MADE = Counter("takeaways_candidates_made", "Candidates that extractions have found.")
SETTLED = Counter("takeaways_candidates_settled", "Candidates that consolidations have merged or dropped.")
TOKENS = Counter(
    "takeaways_model_tokens",
    "Tokens sent and received. `cached` is part of `sent`.",
    ("kind", "model", "what"),
)
COST = Counter("takeaways_model_cost_dollars", "What calls cost, where a price is known.", ("kind", "model"))
CALLS = Counter("takeaways_model_calls", "Calls that the model answered or charged for.", ("kind", "model"))
ERRORS = Counter(
    "takeaways_model_errors", "Jobs that the model stopped, by their ending.", ("kind", "model", "outcome")
)
MODEL_WAIT = Histogram(
    "takeaways_model_wait_seconds",
    "How long agents were told to wait for a model: rate limits, overload, faults.",
    ("kind", "outcome"),
    buckets=_WAITS,
)
SHRINK = Histogram(
    "takeaways_consolidation_lines_ratio",
    "Lines of a memory after a consolidation, divided by those before it.",
    buckets=_RATIOS,
)
SIZE = Histogram("takeaways_memory_tokens", "Size of a memory after a consolidation of it.", buckets=_SIZES)

_OF_THE_MODEL: Final = frozenset(
    {
        Outcome.OVERLOADED,
        Outcome.UNAVAILABLE,
        Outcome.PARKED,
        Outcome.UNREADABLE_ANSWER,
        Outcome.REFUSED,
        Outcome.TOO_LONG,
        Outcome.REFUSED_EDITS,
    }
)


def ended(kind: Kind, result: JobResult, seconds: float) -> None:
    """Count a job. One that was not claimed has an ending, and neither a duration nor a wait."""
    ENDED.labels(kind.value, result.outcome.value).inc()
    if result.waited_seconds is not None:
        DURATION.labels(kind.value).observe(seconds)
        WAIT.labels(kind.value).observe(result.waited_seconds)
    if result.set_aside:
        SET_ASIDE.labels(kind.value).inc()
    MESSAGES.inc(result.messages_read)
    MADE.inc(result.candidates_made)
    SETTLED.inc(result.candidates_settled)
    _model(kind, result)
    if (grown := result.grown) is not None:
        SIZE.observe(grown.tokens)
        if grown.lines_before:
            SHRINK.observe(grown.lines_after / grown.lines_before)


def failed(kind: Kind, seconds: float) -> None:
    """Count a job that ended with an error that nobody expected."""
    ENDED.labels(kind.value, Outcome.FAILED.value).inc()
    DURATION.labels(kind.value).observe(seconds)


def _model(kind: Kind, result: JobResult) -> None:
    model = model_label(result.model)
    if result.calls:
        CALLS.labels(kind.value, model).inc(result.calls)
        TOKENS.labels(kind.value, model, "sent").inc(result.input_tokens)
        TOKENS.labels(kind.value, model, "received").inc(result.output_tokens)
        TOKENS.labels(kind.value, model, "cached").inc(result.cached_tokens)
        if result.cost_microdollars is not None:
            COST.labels(kind.value, model).inc(result.cost_microdollars / 1_000_000)
    if result.outcome in _OF_THE_MODEL:
        ERRORS.labels(kind.value, model, result.outcome.value).inc()
        if result.wait_seconds:
            MODEL_WAIT.labels(kind.value, result.outcome.value).observe(result.wait_seconds)
