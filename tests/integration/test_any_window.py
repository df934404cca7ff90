"""Rooms of any size in any script, through the real client and a real server: every step holds its budget."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.schemas.tables import quarantines
from takeaways.workers.jobs.outcomes import Outcome
from takeaways.workers.jobs.run import run_job
from takeaways.workers.models.anthropic import AnthropicModel, Connection
from takeaways.workers.models.requests import ExtractionRequest
from takeaways.workers.testing import ScriptedModel
from takeaways.workers.testing.claude import ClaudeServer
from takeaways.workers.testing.claude.material import read_material
from tests.pipeline import Pipeline, pipeline

SMALL, LARGE = 32_000, 128_000
MODEL = "claude-haiku-5-5"
STARTED = datetime(2026, 3, 2, 9, tzinfo=UTC)
SCRIPTS = (
    "The quote needs a sign-off by Dana before it goes out. ",
    "日本語の長い会話です。",
    "🧑‍🚀👩‍👩‍👧‍👦",
    "x=[1,2];{(a)=>b?c:d};",
    BYTES := "aGVsbG8gd29ybGQgdGhpcyBpcyBiYXNlNjQ",
    "Длинный разговор о складе. ",
)


@contextmanager
def with_window(database: Database, redis_url: str, window: int) -> Iterator[tuple[Pipeline, ClaudeServer]]:
    """The pipeline on Claude, as far as anybody can tell: one lesson for each message."""
    with ClaudeServer(window=window, answers=ScriptedModel()) as server:
        connection = Connection(base_url=server.url, api_key="stand-in")
        try:
            model = AnthropicModel(MODEL, connection=connection)
            with pipeline(database, redis_url, model) as system:
                yield system, server
        finally:
            connection.close()


def rooms_of(seed: int, times_the_window: float) -> dict[str, list[str]]:
    """Some rooms that take about so many small windows in all. Each message has a first and a last word."""
    rng = random.Random(seed)
    left = int(times_the_window * SMALL * 2)  # characters, of about half a token
    rooms: dict[str, list[str]] = {f"room-{number}": [] for number in range(rng.randint(1, 4))}
    number = 0
    while left > 0:
        script = rng.choice(SCRIPTS)
        characters = min(left, rng.choice((20, 200, 2_000, 4_000, 8_000, 3 * SMALL)))
        text = (script * (characters // len(script) + 1))[:characters]
        rooms[rng.choice(list(rooms))].append(f"first-{number}. {text}\nlast-{number}.")
        number += 1
        # Bytes that are written as text are read as a word about them.
        left -= 200 if script == BYTES else characters + 200
    return {room: texts for room, texts in rooms.items() if texts}


def publish(system: Pipeline, agent: str, rooms: dict[str, list[str]]) -> None:
    for room, texts in rooms.items():
        for number, text in enumerate(texts):
            system.producer.run_completed(
                agent_id=agent,
                room=room,
                run_id=f"{room}-{number}",
                status="succeeded",
                ended_at=STARTED + timedelta(minutes=number),
                messages=[{"role": "user", "content": text}],
            )
    system.take_in()


def extract_all(system: Pipeline, agent: str) -> None:
    system.flush([agent])
    while system.unread(agent) and system.decision(agent).next is Kind.EXTRACTION:
        assert run_job(Kind.EXTRACTION, agent, system.services).outcome is not Outcome.FAILED


def shown(server: ClaudeServer) -> list[tuple[str, bool]]:
    """(first word, whether what is missing of it is told) of every message in a request that was answered."""
    found = []
    for request in server.messages:
        material = read_material(request.text)
        if (
            request.status != 200
            or request.stop_reason != "end_turn"
            or not isinstance(material, ExtractionRequest)
        ):
            continue
        for room in material.rooms:
            for excerpt in room.excerpts:
                text = excerpt.text()
                first = text.split(".")[0]
                whole = f"last-{first.removeprefix('first-')}." in text
                found.append((first, whole or any(span.cut_chars > 0 for span in excerpt.spans)))
    return found


@pytest.mark.timeout(240)
@pytest.mark.parametrize("times", [0.1, 0.9, 4.0, 20.0])
@given(seed=st.integers(0, 10**6))
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_request_stays_within_half_the_window_and_every_message_is_read_once(
    sqlite_database: Database, redis_url: str, times: float, seed: int
) -> None:
    """A tenth of a window or twenty of them, one giant message or a thousand short ones, in any script: nothing is
    sent that is too large by the provider's own count, nothing is left out unsaid, nothing is read twice.
    """
    agent = f"agent-{seed}-{times}"
    rooms = rooms_of(seed, times)
    said = {text.split(".")[0] for texts in rooms.values() for text in texts}

    with with_window(sqlite_database, redis_url, SMALL) as (system, server):
        publish(system, agent, rooms)
        extract_all(system, agent)

        answered = [request for request in server.messages if request.status == 200]
        assert max(request.input_tokens for request in answered) <= SMALL // 2
        assert len(answered) > times
        read = shown(server)
        assert Counter(first for first, _ in read) == Counter(said)
        assert all(told for _, told in read)
        assert not system.unread(agent)
        assert not [row for row in system.rows(quarantines) if row["agent_id"] == agent]


def test_what_fits_leads_to_the_same_lessons_under_every_window(
    sqlite_database: Database, redis_url: str
) -> None:
    """A smaller model costs more calls, not more forgetting."""
    rooms = rooms_of(7, 4.0)
    lessons = {}

    for window in (SMALL, LARGE):
        with with_window(sqlite_database, redis_url, window) as (system, server):
            agent = f"agent-{window}"
            publish(system, agent, rooms)
            extract_all(system, agent)
            lessons[window] = system.lessons(agent)
            calls = len([one for one in server.messages if "=== room " in one.text])
            assert calls > (1 if window == SMALL else 0)

    assert len(lessons[SMALL]) == sum(map(len, rooms.values()))
    assert lessons[SMALL] == lessons[LARGE]


def test_a_summary_rests_on_the_one_before_and_on_what_is_new(
    sqlite_database: Database, redis_url: str
) -> None:
    """Sending a room's old messages again for its summary would make long rooms dearer with every run."""
    with with_window(sqlite_database, redis_url, LARGE) as (system, server):
        for part in ("early", "late"):
            publish(system, "scout", {"r": [f"{part}-{number} is a fact." for number in range(2)]})
            for number in range(2):
                system.producer.run_completed(
                    agent_id="scout",
                    room="r",
                    run_id=f"{part}-{number}",
                    status="succeeded",
                    ended_at=STARTED + timedelta(hours=1),
                    messages=[{"role": "user", "content": f"the {part} port is {number}"}],
                )
            system.take_in()
            extract_all(system, "scout")

        first, second = (one.text for one in server.messages if "=== room " in one.text)
        assert "summary so far:" not in first
        assert "the early port" in first
        assert "summary so far:\n| 4 lessons so far" in second
        assert "the early port" not in second
        assert "the late port" in second


def test_short_rooms_share_a_call(sqlite_database: Database, redis_url: str) -> None:
    """The instructions are sent once for all of them."""
    with with_window(sqlite_database, redis_url, LARGE) as (system, server):
        publish(system, "scout", {f"room-{number}": [f"Fact {number} holds."] for number in range(12)})
        extract_all(system, "scout")

        [request] = [one for one in server.messages if "=== room " in one.text]
        assert request.text.count("=== end of room ") == 12
        assert len(system.lessons("scout")) == 12
