"""What an intake took in, counted in its process."""

from __future__ import annotations

from prometheus_client import Counter

from takeaways.workers.intake.taken import TakenIn

EVENTS = Counter("takeaways_events", "Events by what became of them.", ("stream", "outcome"))
LEFT = Counter(
    "takeaways_events_left", "Times that an event was left for later, its agent being locked.", ("stream",)
)
MESSAGES = Counter("takeaways_messages_stored", "Messages that were stored.", ("stream",))
UNKNOWN_FIELDS = Counter(
    "takeaways_unknown_fields", "Fields of events that this version does not know.", ("stream",)
)


def taken_in(stream: str, taken: TakenIn) -> None:
    """Count a batch: what `IntakeProcess` is given as `observe`."""
    for outcome, number in taken.outcomes.items():
        EVENTS.labels(stream, outcome.value).inc(number)
    LEFT.labels(stream).inc(len(taken.left))
    MESSAGES.labels(stream).inc(taken.messages_stored)
    UNKNOWN_FIELDS.labels(stream).inc(taken.unknown_fields)
