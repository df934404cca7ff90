"""Fitting a step by the provider's count: more where the estimate left room, and never over the step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from takeaways.schemas.events import Author
from takeaways.schemas.transcripts import Said, Text
from takeaways.workers.extraction.filling import filled
from takeaways.workers.extraction.render import render
from takeaways.workers.extraction.segment import Planned, RoomBacklog, next_request
from takeaways.workers.models.requests import ExtractionRequest
from takeaways.workers.models.tokens import estimate

INSTRUCTIONS = 600
STEP = 4_000


class Provider:
    """Counts `share` of what we estimate, or does not say."""

    def __init__(self, share: float | None) -> None:
        self.share = share
        self.asked = 0

    def __call__(self, request: ExtractionRequest) -> int | None:
        self.asked += 1
        return None if self.share is None else self.true(request)

    def true(self, request: ExtractionRequest) -> int:
        return round((INSTRUCTIONS + estimate(render(request))) * (self.share or 1.0))


def backlog(messages: int) -> list[RoomBacklog]:
    said = (
        Said(
            agent_id="scout",
            room_id="room",
            message_id=f"m-{number:03}",
            role="user",
            author=Author(id="ana", kind="person"),
            parts=(Text(text=f"Invoice {number} is to be paid within fourteen days of its date. " * 3),),
            said_at_ms=1_767_265_200_000 + number,
        )
        for number in range(messages)
    )
    return [RoomBacklog("room", "", "", tuple(said))]


def step(provider: Provider, *, messages: int = 400) -> Planned:
    rooms = backlog(messages)
    return filled(lambda tokens: next_request(rooms, tokens), STEP - INSTRUCTIONS, STEP, provider)


def test_a_step_that_the_provider_counts_far_lower_takes_more() -> None:
    """English takes two thirds of our estimate: a third of every step would stay empty."""
    provider = Provider(0.5)

    planned = step(provider)

    assert 0.8 * STEP <= provider.true(planned.request) <= STEP
    assert len(planned.message_keys) > 1.6 * len(step(Provider(None)).message_keys)


@given(st.floats(0.05, 1.6))
def test_what_the_provider_counts_is_within_the_step(share: float) -> None:
    """Whatever the estimate is worth, half a window is half a window."""
    provider = Provider(share)

    planned = step(provider)

    assert provider.true(planned.request) <= STEP or share > 1.4
    assert provider.asked <= 2


@pytest.mark.parametrize(("share", "messages"), [(None, 400), (0.9, 400), (0.5, 3)])
def test_the_estimate_stands_where_nothing_is_to_be_gained(share: float | None, messages: int) -> None:
    """No count to be had, a step that is full enough, or a backlog that is read whole anyway."""
    by_estimate = next_request(backlog(messages), STEP - INSTRUCTIONS)

    assert step(Provider(share), messages=messages) == by_estimate


def test_nobody_is_asked_about_a_small_step() -> None:
    """A count is a request to the provider."""
    provider = Provider(0.5)

    step(provider, messages=2)

    assert provider.asked == 0
