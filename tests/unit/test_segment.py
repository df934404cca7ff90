"""Cutting a backlog into requests that fit, with nothing lost and nothing read twice."""

from __future__ import annotations

import base64
import math
import random
import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from takeaways.schemas.events import Author
from takeaways.schemas.transcripts import Part, Said, Text, ToolCall, ToolResult
from takeaways.workers.extraction.render import Caps, render
from takeaways.workers.extraction.segment import Planned, RoomBacklog, next_request, plan
from takeaways.workers.models.tokens import estimate

NOON = 1_767_265_200_000
WIDE = Caps(people=10**9, answers=10**9, agents=10**9, tools=10**9)


def said(room: str, number: int, *parts: Part | str, kind: str = "person", minute: int | None = None) -> Said:
    roles = {"person": "user", "agent": "assistant", "tool": "tool"}
    return Said(
        agent_id="agent-a",
        room_id=room,
        message_id=f"{room}-{number}",
        role=roles[kind],
        author=Author(id="agent-a" if kind == "agent" else kind, kind=kind),  # type: ignore[arg-type] # one of three
        parts=tuple(Text(text=part) if isinstance(part, str) else part for part in parts),
        said_at_ms=NOON + (number if minute is None else minute) * 60_000,
    )


def backlog(room: str, *messages: Said, title: str = "", summary: str = "") -> RoomBacklog:
    return RoomBacklog(room, title, summary, messages)


def keys(rooms: list[RoomBacklog]) -> Counter[tuple[str, str]]:
    return Counter((room.room_id, message.message_id) for room in rooms for message in room.said)


def covered(planned: list[Planned]) -> Counter[tuple[str, str]]:
    return Counter(key for one in planned for key in one.message_keys)


def shown(planned: Planned) -> list[str]:
    return [one.message_id for room in planned.request.rooms for one in room.excerpts]


def test_short_rooms_share_a_request_oldest_first() -> None:
    """One call for five short rooms costs a fifth of five calls."""
    rooms = [backlog(f"room-{n}", said(f"room-{n}", 1, "hello", minute=9 - n)) for n in range(5)]

    (planned,) = plan(rooms, 2_000)

    assert [room.room_id for room in planned.request.rooms] == [
        "room-4",
        "room-3",
        "room-2",
        "room-1",
        "room-0",
    ]
    assert [room.label for room in planned.request.rooms] == ["r1", "r2", "r3", "r4", "r5"]
    assert [one.label for room in planned.request.rooms for one in room.excerpts] == [
        "m1",
        "m2",
        "m3",
        "m4",
        "m5",
    ]


def test_a_room_that_does_not_fit_is_read_in_segments_oldest_first() -> None:
    """Every message is read, in order, also in a room of twenty times the budget."""
    room = backlog("long", *(said("long", n, f"sentence number {n} " * 5) for n in range(300)))

    planned = list(plan([room], 1_000))

    assert [key for one in planned for key in shown(one)] == [message.message_id for message in room.said]
    assert all(one.tokens <= 1_000 for one in planned)
    assert all(one.tokens > 500 for one in planned[:-1])


@st.composite
def backlogs(draw: st.DrawFn) -> tuple[list[RoomBacklog], int]:
    budget = draw(st.integers(400, 1_500))
    dice = random.Random(draw(st.integers(0, 2**32)))
    samples: list[str] = [
        "日本語の長い会話です。" * 8,
        "🧑‍🚀" * 30,
        base64.b64encode(dice.randbytes(90)).decode(),
        "quotes over forty thousand need a sign-off\n" * 4,
        "\n" * 40,
        "x=[1,2];{(" * 12,
        "",
    ]
    rooms = []
    for place in range(draw(st.integers(1, 4))):
        name = f"room-{place}"
        size, messages = budget * draw(st.sampled_from([0.1, 0.5, 1.0, 3.0, 20.0])), list[Said]()
        while size > 0:
            text = dice.choice(samples)
            number = len(messages)
            part: Part = Text(text=text)
            if dice.random() < 0.3:
                call = f"c{dice.randrange(number + 1)}"
                tools: list[Part] = [ToolCall(id=call, arguments=text), ToolResult(call_id=call, text=text)]
                part = tools[dice.randrange(2)]
            minute = dice.randrange(5_000)
            messages.append(
                said(name, number, part, kind=dice.choice(["person", "agent", "tool"]), minute=minute)
            )
            size -= estimate(text) + 30
        if dice.random() < 0.2:
            messages.append(said(name, len(messages), "giant " * 3 * budget))
        rooms.append(backlog(name, *messages, title=dice.choice(samples), summary=dice.choice(samples) * 20))
    return rooms, budget


@settings(deadline=None, max_examples=40)
@given(backlogs())
def test_every_message_is_in_exactly_one_request_and_no_request_is_over_its_budget(
    case: tuple[list[RoomBacklog], int],
) -> None:
    """The two promises of a segment: nothing is lost, and no call goes over, in any script."""
    rooms, budget = case

    planned = list(plan(rooms, budget, caps=WIDE))

    assert covered(planned) == keys(rooms)
    assert max(estimate(render(one.request)) for one in planned) <= budget
    assert all(one.tokens == estimate(render(one.request)) for one in planned)


@settings(deadline=None, max_examples=20)
@given(backlogs())
def test_the_next_request_is_the_first_of_the_plan(case: tuple[list[RoomBacklog], int]) -> None:
    """A job that commits and plans again reads the same as one that plans everything at once."""
    rooms, budget = case

    planned = list(plan(rooms, budget))

    assert next_request(rooms[::-1], budget) == planned[0]


def test_a_message_larger_than_a_request_is_cut_and_says_so() -> None:
    """One pasted file must neither stop the room nor go over the budget."""
    room = backlog("r", said("r", 1, "before"), said("r", 2, "data " * 5_000), said("r", 3, "after"))

    planned = list(plan([room], 1_000, caps=WIDE))

    assert covered(planned) == keys([room])
    giant = next(one for one in planned if "r-2" in shown(one))
    assert 900 < giant.tokens <= 1_000
    assert "more characters were left out)" in render(giant.request)


def test_a_call_stays_with_its_result_where_both_fit() -> None:
    """Half a tool call teaches nothing."""
    messages = [said("r", 0, "go", kind="person")]
    for n in range(1, 60, 2):
        messages.append(said("r", n, ToolCall(id=f"c{n}", name="run", arguments="x" * 40), kind="agent"))
        messages.append(said("r", n + 1, ToolResult(call_id=f"c{n}", text="ok " * 30), kind="tool"))
    room = backlog("r", *messages)

    planned = list(plan([room], 700))

    assert len(planned) > 5
    for one in planned:
        numbers = [int(key[2:]) for key in shown(one)]
        assert numbers[0] in (0, 1) or numbers[0] % 2 == 1
        assert numbers[-1] % 2 == 0


def test_a_question_stays_with_its_answer_where_both_fit() -> None:
    """What a person agreed to is only clear beside what was asked."""
    messages = []
    for n in range(0, 60, 2):
        messages.append(said("r", n, "is it so? " * 10))
        messages.append(said("r", n + 1, "it is so. " * 10, kind="agent"))

    planned = list(plan([backlog("r", *messages)], 900))

    assert len(planned) > 3
    assert all(int(shown(one)[0][2:]) % 2 == 0 for one in planned)


def test_a_turn_longer_than_a_request_is_split_all_the_same() -> None:
    """Keeping things together must not keep them from being read."""
    messages = [said("r", 0, "do it all")]
    messages += [
        said("r", n, ToolCall(id="c", name="run", arguments="x" * 60), kind="agent") for n in range(1, 40)
    ]

    planned = list(plan([backlog("r", *messages)], 600))

    assert covered(planned) == keys([backlog("r", *messages)])
    assert all(one.tokens > 300 for one in planned[:-1])


def test_a_short_room_does_not_leave_the_request_of_a_long_one_half_empty() -> None:
    """Each call repeats the instructions, so a request is filled at least to half while there is text."""
    short = backlog("short", said("short", 0, "hello"))
    long = backlog("long", *(said("long", n, "some words here " * 5, minute=n + 1) for n in range(200)))

    planned = list(plan([short, long], 1_000))

    assert [room.room_id for room in planned[0].request.rooms] == ["short", "long"]
    assert all(one.tokens > 500 for one in planned[:-1])


def test_messages_with_nothing_to_show_are_covered_without_a_call() -> None:
    """They must be marked read, or they would be due for ever."""
    room = backlog("r", said("r", 0, ""), said("r", 1, "   "))

    (planned,) = plan([room], 1_000)

    assert planned.request.rooms == ()
    assert covered([planned]) == keys([room])


def test_the_budget_holds_for_a_counter_that_is_no_sum_of_parts() -> None:
    """A provider's own counter may find the whole dearer than its messages; the request is then made
    smaller.
    """

    def dear(text: str) -> int:
        return len(text) // 3 + (len(text) // 200) ** 2

    room = backlog("r", *(said("r", n, "words and words " * 6) for n in range(80)))

    planned = list(plan([room], 1_000, dear))

    assert covered(planned) == keys([room])
    assert all(dear(render(one.request)) <= 1_000 for one in planned)


@pytest.mark.parametrize("scale", [1.0, 1.3])
def test_dense_text_stays_within_half_a_window_and_uses_it(scale: float) -> None:
    """CJK, joined emoji, minified code: budgets by characters / 4 were broken here (MA-09)."""

    def crude(text: str) -> int:
        beyond = sum(not character.isascii() for character in text)
        return math.ceil(scale * (beyond + (len(text) - beyond + 1) // 2))

    dense = ["日本語の長い会話です。" * 3_000, "🧑‍🚀" * 8_000, "x=[1,2];{(" * 6_000, "a b c d " * 8_000]
    rooms = [backlog(f"room-{n}", said(f"room-{n}", n, text)) for n, text in enumerate(dense)]

    planned = list(plan(rooms, 20_000, lambda text: math.ceil(scale * estimate(text)), WIDE))

    sizes = [crude(render(one.request)) for one in planned]
    assert covered(planned) == keys(rooms)
    assert max(sizes) <= 20_000
    assert all(one.tokens >= 10_000 for one in planned)


@pytest.mark.parametrize("budget", [1, 16, 100])
def test_a_budget_below_any_use_still_moves_on(budget: int) -> None:
    """A step that was halved too often must be set aside message by message, not loop."""
    rooms = [backlog("r", *(said("r", n, "words " * 50) for n in range(5)))]

    planned = list(plan(rooms, budget))

    assert covered(planned) == keys(rooms)


def test_four_times_as_many_messages_are_planned_in_about_four_times_the_time() -> None:
    """A first import of tens of thousands of messages must not spend its time on cutting."""
    parts = (Text(text="ok, then let us take the second one"),)
    people = [Author(id="ann", kind="person"), Author(id="agent-a", kind="agent")]

    def planned(count: int) -> tuple[int, float]:
        messages = tuple(
            Said("agent-a", "r", f"r-{n}", "user", people[n % 2], parts, NOON + n * 1_000)
            for n in range(count)
        )
        started = time.process_time()
        requests = sum(1 for _ in plan([RoomBacklog("r", "", "", messages)], 100_000))
        return requests, time.process_time() - started

    few, few_seconds = planned(5_000)
    many, many_seconds = planned(20_000)

    assert 2 < few < many
    assert many_seconds < 10 * few_seconds, "it would take sixteen times as long if each looked at all others"
