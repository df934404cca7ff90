"""Files as they really are: cut, glued, odd, large. What is whole is read, what is not is told."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from takeaways.schemas.errors import BadInput
from takeaways.schemas.events import decode, encode
from takeaways.workers.importing import ImportedRoom, Problem, conversation_files, events_of, read
from tests.cases import case

NOW = datetime(2026, 3, 2, tzinfo=UTC)
SAMPLES = Path(__file__).parents[1] / "payloads" / "imports"


def imported(path: Path) -> tuple[list[ImportedRoom], list[Problem]]:
    problems: list[Problem] = []
    return list(read(path, agent_id="scout", report=problems.append)), problems


def contents(rooms: list[ImportedRoom]) -> list[object]:
    return [message.content for room in rooms for run in room.runs for message in run.messages]


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_record_glued_to_a_cut_one_is_read_and_the_damage_told_once() -> None:
    """A writer that was killed costs the record that it was writing, not all after it."""
    rooms, problems = imported(SAMPLES / "damaged.jsonl")

    assert contents(rooms) == ["one", "three", "four }{ inside text", "five", "six"]
    assert [(problem.line, problem.lost) for problem in problems] == [
        (2, True),
        (3, True),
        (5, True),
        (6, True),
    ]


def test_a_whole_object_inside_a_cut_record_is_not_taken_for_a_record(tmp_path: Path) -> None:
    """Half of a session record holds whole objects; none of them is something that was said."""
    whole = '{"type":"user","uuid":"u1","message":{"role":"user","content":"hi"}}'
    cut = '{"type":"assistant","uuid":"a1","message":{"role":"assistant","content":[{"type":"text"}]},"us'
    path = write(tmp_path, "session.jsonl", f"{whole}\n{cut}\n")

    rooms, problems = imported(path)

    assert contents(rooms) == ["hi"]
    assert [problem.line for problem in problems] == [2]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("empty.jsonl", ""),
        ("blank.jsonl", "\n\n  \n"),
        ("words.json", "hello"),
        ("numbers.json", "[1, 2, 3]"),
        ("deep.jsonl", '{"role":"user","content":' + "[" * 10_000 + "]" * 10_000 + "}"),
        ("digits.jsonl", '{"role":"user","content":' + "9" * 5_000 + "}"),
        ("zeros.jsonl", b"\0" * 4_096),
        ("other.json", '{"what": "no conversation"}'),
        ("cut.json", '[{"role": "user", "content": "o'),
    ],
)
def test_a_file_that_is_no_conversation_is_told_and_stops_nothing(
    tmp_path: Path, name: str, text: str | bytes
) -> None:
    """One strange file in a folder must not cost the others."""
    path = write(tmp_path, name, text)
    write(tmp_path, "good.jsonl", '{"role":"user","content":"kept"}\n')

    rooms, problems = imported(tmp_path)

    assert contents(rooms) == ["kept"]
    assert {problem.file for problem in problems} == {str(path)}


def test_the_report_names_file_and_line_and_quotes_nothing(tmp_path: Path) -> None:
    """A report may be pasted into an issue; the conversation must not go with it."""
    path = write(
        tmp_path, "a.jsonl", '{"role":"user","content":"x"}\n{"role":"user","content":"hunter2-sec\n'
    )

    _, problems = imported(path)

    assert str(problems[0]).startswith(f"{path}:2: ")
    assert "hunter2" not in str(problems[0])


def test_json_lines_in_a_file_called_json_are_read(tmp_path: Path) -> None:
    """What a file is called and what is in it differ often enough."""
    path = write(tmp_path, "log.json", '{"role":"user","content":"a"}\n{"role":"user","content":"b"}\n')

    assert contents(imported(path)[0]) == ["a", "b"]


def test_one_pretty_printed_list_in_a_file_called_jsonl_is_read(tmp_path: Path) -> None:
    """The other way round, too."""
    path = write(tmp_path, "log.jsonl", json.dumps([{"role": "user", "content": "a"}], indent=2))

    assert contents(imported(path)[0]) == ["a"]


def test_line_separators_inside_a_message_do_not_end_its_line(tmp_path: Path) -> None:
    """JSON lets U+2028 stand unescaped in a string; only a newline ends a record."""
    path = write(tmp_path, "log.jsonl", '\ufeff{"role":"user","content":"a\u2028b\u0085c"}\r\n')

    rooms, problems = imported(path)

    assert (contents(rooms), problems) == (["a\u2028b\u0085c"], [])


def test_bytes_that_are_no_utf_8_cost_the_character_and_not_the_message(tmp_path: Path) -> None:
    """An old tool that wrote Latin-1 still has something to say."""
    path = write(tmp_path, "log.jsonl", b'{"role":"user","content":"caf\xe9"}\n')

    rooms, problems = imported(path)

    assert contents(rooms) == ["caf\ufffd"]
    assert [problem.line for problem in problems] == [1]


def test_a_folder_becomes_rooms_named_for_their_paths(tmp_path: Path) -> None:
    """Two files with the same name in two folders are two rooms; hidden ones are none."""
    line = '{"role":"user","content":"a"}\n'
    for name in ("b/talk.jsonl", "a/talk.jsonl", "a/talk.ndjson"):
        write(tmp_path, name, line)
    for name in (".git/talk.jsonl", "a/.talk.jsonl", "a/readme.md"):
        write(tmp_path, name, line)

    rooms, problems = imported(tmp_path)

    assert [room.room_id for room in rooms] == ["a/talk", "a/talk.ndjson", "b/talk"]
    assert problems == []


def test_no_two_rooms_share_an_id(tmp_path: Path) -> None:
    """Two conversations under one name would be read as one, and half of their messages be lost."""
    talk = [{"role": "user", "content": "a"}]
    write(tmp_path, "a.json", json.dumps([{"id": "b", "messages": talk}, {"id": "b", "messages": talk}]))
    write(tmp_path, "a/b.json", json.dumps(talk))

    rooms, _ = imported(tmp_path)

    assert [room.room_id for room in rooms] == ["a/b", "a/b~2", "a/b~3"]


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    """A named pipe would wait for ever for somebody to write into it."""
    os.mkfifo(tmp_path / "pipe.jsonl")

    assert conversation_files(tmp_path) == ()


def test_a_path_that_is_not_there_is_the_callers_error(tmp_path: Path) -> None:
    """A typing error must not look like an empty folder."""
    with pytest.raises(BadInput, match="no file or folder"):
        imported(tmp_path / "nowhere")


def test_importing_twice_gives_the_same_rooms() -> None:
    """A second import of the same files changes nothing, so it may be repeated without a thought."""
    assert imported(SAMPLES) == imported(SAMPLES)


def test_a_conversation_that_went_on_keeps_its_old_runs_and_messages(tmp_path: Path) -> None:
    """Importing a growing log again adds what is new and leaves the rest as it was."""
    lines = [
        f'{{"type":"{role}","uuid":"{role}-{turn}","timestamp":"2026-01-01T00:0{turn}:00Z",'
        f'"message":{{"role":"{role}","content":"{turn}"}}}}\n'
        for turn in range(3)
        for role in ("user", "assistant")
    ]
    (before,), _ = imported(write(tmp_path, "s.jsonl", "".join(lines[:5])))

    (after,), _ = imported(write(tmp_path, "s.jsonl", "".join(lines)))

    assert after.runs[:2] == before.runs[:2]
    assert after.runs[2].run_id != before.runs[2].run_id
    assert after.runs[2].messages[0] == before.runs[2].messages[0]


def test_a_repeated_record_is_one_message_and_another_one_under_its_id_is_a_second(tmp_path: Path) -> None:
    """Nothing is lost because a tool numbered two messages alike, and nothing is said twice."""
    said = [{"id": "x", "role": "user", "content": text} for text in ("a", "a", "b", "b", "c")]
    path = write(tmp_path, "log.json", json.dumps(said))

    rooms, problems = imported(path)

    ids = [message.id for room in rooms for run in room.runs for message in run.messages]
    assert (ids, contents(rooms)) == (["x", "x~2", "x~3"], ["a", "b", "c"])
    assert {problem.lost for problem in problems} == {False}


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("2026-03-02T09:00:00+05:30", "2026-03-02T09:00:00+05:30"),
        ("2026-03-02 09:00:00", "2026-03-02T09:00:00+00:00"),
        (1_772_442_000, "2026-03-02T09:00:00+00:00"),
        (1_772_442_000.5, "2026-03-02T09:00:00.500000+00:00"),
        (1_772_442_000_000, "2026-03-02T09:00:00+00:00"),
        ("1772442000", "2026-03-02T09:00:00+00:00"),
        ("9:00 AM on 2 March, 2026", "2026-03-02T09:00:00+00:00"),
        ("13:00 pm on 2 March, 2026", None),
        ("9:00 am on 30 February, 2026", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("²", None),
        (1e300, None),
        (-1, "1969-12-31T23:59:59+00:00"),
        ("yesterday", None),
        ([], None),
        (True, None),
        (None, None),
    ],
)
def test_times_are_read_with_care(tmp_path: Path, written: object, read_as: str | None) -> None:
    """A time that cannot be read costs the time, never the message."""
    path = write(tmp_path, "log.json", json.dumps([{"role": "user", "content": "a", "time": written}]))

    (room,), _ = imported(path)

    found = room.runs[0].messages[0].time
    assert (found.isoformat() if found else None) == read_as


def test_a_conversation_without_times_was_said_when_its_file_was_written(tmp_path: Path) -> None:
    """Not when it is imported: importing tomorrow must not make it younger."""
    path = write(tmp_path, "log.json", '[{"role":"user","content":"a"}]')
    os.utime(path, (1_700_000_000, 1_700_000_000))

    (room,), _ = imported(path)

    assert room.runs[0].ended_at == datetime.fromtimestamp(1_700_000_000, UTC)


def test_a_long_log_and_a_long_line_take_time_in_proportion(tmp_path: Path) -> None:
    """Over 100,000 messages under one id, and two megabytes of opening braces, are read in seconds."""
    line = '{"id":"same","role":"user","content":"%d"}\n'
    long = write(tmp_path, "long.jsonl", "".join(line % number for number in range(100_001)))
    wide = write(tmp_path, "wide.jsonl", '{"role":"user","content":"a"}\n' + '{"a":' * 400_000)
    started = time.process_time()

    (room,), _ = imported(long)
    (other,), problems = imported(wide)

    assert [len(run.messages) for run in room.runs] == [100_000, 1]
    assert other.message_count == 1
    assert [problem.line for problem in problems] == [2]
    assert time.process_time() - started < 60


_WORDS = (
    "type uuid message role content messages traj history info conversation session_1 speaker text steps"
    " step_type session_id peer_id conversation_list sender message_id create_time timestamp time id"
    " tool_calls name compactMetadata subtype isMeta task_id trial system"
)
_VALUES = st.sampled_from(["user", "assistant", "system", "compact_boundary", "add_messages", "tool"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(_WORDS.split()), inner | _VALUES, max_size=6)
        | st.fixed_dictionaries({"role": _VALUES, "content": inner}, optional={"id": inner, "time": inner})
    ),
    max_leaves=25,
)


@given(values=st.lists(_JSON, max_size=6), as_lines=st.booleans())
@example(values=[{"conversation_list": []}], as_lines=False)
@example(values=[{"traj": []}], as_lines=False)
@settings(deadline=None, max_examples=300)
def test_no_json_at_all_makes_the_reader_fail(
    tmp_path_factory: pytest.TempPathFactory, values: list[object], as_lines: bool
) -> None:
    """Whatever stands in a file is either a message or told as a problem."""
    folder = tmp_path_factory.mktemp("fuzz")
    text = "\n".join(map(json.dumps, values)) if as_lines else json.dumps(values)
    path = write(folder, "file.jsonl" if as_lines else "file.json", text)

    rooms, problems = imported(path)

    assert values == [] or rooms or problems
    assert len({room.room_id for room in rooms}) == len(rooms)
    for room in rooms:
        ids = [message.id for run in room.runs for message in run.messages]
        assert len(set(ids)) == len(ids)
        for event in events_of(room, "scout", published_at=NOW):
            assert decode(encode(event)).data == event.data


def test_the_damaged_lines_of_the_case_cost_only_themselves(tmp_path: Path) -> None:
    """A killed writer glued records together; what stands after them is read, and the damage told (EX-12)."""
    path = write(tmp_path, "log.jsonl", "\n".join(case("EX-12")["room_wire"]) + "\n")

    (room,), problems = imported(path)

    said = [message.content for run in room.runs for message in run.messages]
    assert said == ["one", "three", "four }{ inside text", "five", "six"]
    assert {problem.line for problem in problems if problem.lost} >= {2, 3}
