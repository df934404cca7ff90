"""Every shape of file that `takeaways import` knows, on small files of our own."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from takeaways.schemas.events import Message
from takeaways.workers.importing import ImportedRoom, Problem, read

SAMPLES = Path(__file__).parents[1] / "payloads" / "imports"
UNDATED = datetime(2026, 1, 1, tzinfo=UTC)


def rooms_of(name: str) -> tuple[list[ImportedRoom], list[Problem]]:
    problems: list[Problem] = []
    return list(read(SAMPLES / name, agent_id="scout", report=problems.append, undated=UNDATED)), problems


def one_room(name: str) -> ImportedRoom:
    (room,), problems = rooms_of(name)
    assert [problem for problem in problems if problem.lost] == []
    return room


def said(room: ImportedRoom) -> list[Message]:
    return [message for run in room.runs for message in run.messages]


def speakers(room: ImportedRoom) -> list[tuple[str, str]]:
    return [(message.author.kind, message.author.id) for message in said(room) if message.author]


def test_a_claude_code_session_keeps_its_ids_and_tells_people_from_the_platform() -> None:
    """What Claude Code inserts by itself must never be remembered as the user's wish."""
    room = one_room("claude_code.jsonl")

    assert [(message.id, message.author and message.author.kind) for message in said(room)] == [
        ("u-1", "person"),
        ("a-1", "agent"),
        ("a-2", "agent"),
        ("r-1", "tool"),
        ("a-3", "agent"),
        ("c-1", "system"),
        ("m-1", "system"),
        ("u-2", "person"),
        ("k-1", "agent"),
        ("k-2", "agent"),
        ("a-4", "agent"),
    ]
    assert room.title == "Moving to pnpm"


def test_a_compaction_in_a_session_ends_a_run_and_is_told_with_its_last_message() -> None:
    """The next conversation gets a new note, and the one before it keeps its own."""
    room = one_room("claude_code.jsonl")

    assert [(run.compaction, run.status) for run in room.runs] == [(0, "succeeded"), (1, "succeeded")]
    (compaction,) = room.compactions
    assert (compaction.compaction, compaction.last_message_id) == (1, "a-3")
    assert (compaction.trigger, compaction.tokens_before) == ("auto", 151_000)
    assert room.conversation_id == "s-9"


def test_an_openai_list_is_one_run_for_each_turn_of_the_user() -> None:
    """Five turns of a user are five runs of the agent, as they were when they happened."""
    room = one_room("openai_messages.json")

    assert [len(run.messages) for run in room.runs] == [5, 2, 1]
    assert [run.status for run in room.runs] == ["succeeded", "succeeded", "failed"]
    assert speakers(room) == [
        ("system", "system"),
        ("person", "user"),
        ("agent", "scout"),
        ("tool", "book"),
        ("agent", "scout"),
        ("person", "mira"),
        ("agent", "scout"),
        ("person", "user"),
    ]


def test_a_list_without_times_keeps_the_order_of_the_file() -> None:
    """Messages that were all said 'at the same time' must not be shuffled."""
    room = one_room("openai_messages.json")

    assert [message.position for message in said(room)] == list(range(8))
    assert {run.ended_at for run in room.runs} == {UNDATED}
    assert {message.time for message in said(room)} == {None}


def test_a_jsonl_file_of_messages_is_one_room() -> None:
    """A log of chat messages is a conversation, not one for each line."""
    assert [message.content for message in said(one_room("openai_lines.jsonl"))] == ["one", "two"]


def test_an_anthropic_conversation_brings_its_system_prompt_times_and_title() -> None:
    """The offset of who spoke is kept: 'tomorrow' depends on it."""
    room = one_room("anthropic_conversation.json")

    assert room.title == "Release notes"
    assert [kind for kind, _ in speakers(room)] == ["system", "person", "agent", "tool", "agent"]
    times = [message.time.isoformat() for message in said(room) if message.time]
    assert times[0] == "2026-01-05T10:00:00+01:00"


def test_conversations_in_one_file_are_rooms_named_by_id_or_place() -> None:
    """A data set of conversations is not one long conversation."""
    rooms, _ = rooms_of("conversations.jsonl")

    assert [room.room_id for room in rooms] == ["conversations/first", "conversations/2"]


def test_each_task_and_trial_of_tau_bench_is_a_room() -> None:
    """Two trials of one task are two conversations."""
    rooms, _ = rooms_of("tau_bench.json")

    assert [room.room_id for room in rooms] == ["tau_bench/task-4", "tau_bench/task-4-trial-1"]
    assert [room.message_count for room in rooms] == [5, 2]


def test_what_tools_printed_into_the_users_turn_is_not_the_users_word() -> None:
    """In SWE-agent's older form every observation stands under the role 'user'."""
    room = one_room("swe_agent.traj")

    assert [kind for kind, _ in speakers(room)] == ["system", "system", "person", "agent", "tool", "agent"]
    assert [(len(run.messages), run.status) for run in room.runs] == [(6, "succeeded")]


def test_each_session_of_locomo_is_a_room_in_the_order_of_its_number_with_its_spoken_time() -> None:
    """Midnight is twelve, session 10 comes after 2, and a photo leaves its description."""
    rooms, problems = rooms_of("locomo.json")

    assert [room.room_id for room in rooms] == [f"locomo/session_{number}" for number in (1, 2, 10)]
    assert [room.runs[0].ended_at.isoformat() for room in rooms] == [
        "2024-05-08T00:05:00+00:00",
        "2024-06-01T09:00:00+00:00",
        "2024-06-21T13:30:00+00:00",
    ]
    assert speakers(rooms[0]) == [("person", "Nadia"), ("person", "Tom")]
    assert said(rooms[0])[1].content[1] == {
        "type": "attachment",
        "kind": "image",
        "name": "a photo of a red kayak",
    }
    assert [(problem.lost, problem.why) for problem in problems] == [
        (False, "times without an offset were taken as UTC")
    ]


def test_each_session_of_longmemeval_is_a_room_and_the_questions_are_none() -> None:
    """A question put to the memory later is no part of the history."""
    rooms, _ = rooms_of("longmemeval.json")

    assert [(room.room_id, room.message_count) for room in rooms] == [
        ("longmemeval/s1", 2),
        ("longmemeval/s2", 1),
    ]


def test_a_day_of_a_team_chat_is_a_run_and_people_keep_their_names() -> None:
    """Who said it stays with what was said; two messages under one id are both kept."""
    room = one_room("team_chat.json")

    assert [[message.id for message in run.messages] for run in room.runs] == [["m1", "m2"], ["m2~2"]]
    assert speakers(room) == [("person", "u1"), ("agent", "scout"), ("person", "u2")]
    assert [message.author.name for message in said(room) if message.author] == ["Ines", "Scout", "Jo"]
