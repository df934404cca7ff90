"""Reading and searching the memory with tools, notes at the head of a conversation, and the asyncio twins."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic import Anthropic

from takeaways.recall import (
    AsyncRecall,
    AsyncStandingNotes,
    AsyncToolbox,
    NoteStatus,
    Reach,
    Recall,
    Toolbox,
    as_typed,
    at_head_anthropic,
    at_head_openai,
    at_head_text,
    write_folder_async,
)
from takeaways.recall.note import Note
from takeaways.recall.standing import MemoryStore, StandingNotes, Target
from takeaways.schemas.database import Database
from takeaways.schemas.errors import BadInput
from takeaways.workers.testing.claude import ClaudeServer
from tests.memories import forget, memory, remember, room, section
from tests.wrappers import ATTEMPTS, tags

LEARNED = memory(
    section(
        "Deployments",
        "Staging is deployed from the branch develop.",
        "Production deploys need a green pipeline and two reviews.",
        gist="How releases reach the machines.",
    ),
    section("Quotes", "Quotes over $40k need sign-off from finance.", "ACME pays in euros."),
    section("日本", "本番環境の障害は山田さんに連絡する。", "Straße und Café liegen in Zürich."),
    section("Asia", "รหัสเซิร์ฟเวอร์อยู่ที่ตู้สีแดง", "गोदाम की चाबी रवि के पास है", "बैठक सोमवार को होती है"),
)


@pytest.fixture
def recall(database: Database) -> Recall:
    remember(database, "a", LEARNED)
    room(
        database, "a", "standup", title="Standup", summary="We moved the launch to May.\n\nBen is on holiday."
    )
    return Recall(database, timeout_seconds=30)


def found(recall: Recall, question: str) -> list[str]:
    return [hit["text"] for hit in recall.search_memory("a", question)["hits"]]


# --- search -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("deploying staging", "Staging is deployed from the branch develop."),
        ("who reviews production deployments?", "Production deploys need a green pipeline and two reviews."),
        ("QUOTE", "Quotes over $40k need sign-off from finance."),
        ("$40k", "Quotes over $40k need sign-off from finance."),
        ("sign off", "Quotes over $40k need sign-off from finance."),
        ("euro", "ACME pays in euros."),
        ("障害", "本番環境の障害は山田さんに連絡する。"),
        ("strasse cafe zurich", "Straße und Café liegen in Zürich."),
        ("ｅｕｒｏｓ", "ACME pays in euros."),
        ("when is the launch", "We moved the launch to May."),
        ("holidays", "Ben is on holiday."),
        ("本番の障害は誰に連絡しますか", "本番環境の障害は山田さんに連絡する。"),
        ("ตู้", "รหัสเซิร์ฟเวอร์อยู่ที่ตู้สีแดง"),
        ("เซิร์ฟเวอร์อยู่ที่ไหน", "รหัสเซิร์ฟเวอร์อยู่ที่ตู้สีแดง"),
        ("चाबी किसके पास है", "गोदाम की चाबी रवि के पास है"),
        ("सोमवार", "बैठक सोमवार को होती है"),
    ],
)
def test_search_finds_words_in_any_form_and_script(recall: Recall, question: str, first: str) -> None:
    """The same question finds the same line on both databases."""
    assert found(recall, question)[0] == first


@pytest.mark.parametrize(
    "question",
    [
        "障山",
        "nothing of the kind",
        "'; DROP TABLE agents; --",
        '" OR *',
        "NEAR(",
        "a:b",
        "\0",
        "(((",
        "& | !",
        "",
    ],
)
def test_a_question_is_words_and_nothing_else(recall: Recall, question: str) -> None:
    """No syntax of a database reaches it, and what is not there is not found."""
    answer = recall.search_memory("a", question)

    assert (answer["ok"], answer["hits"]) == (True, [])


def test_hits_say_where_they_are_from(recall: Recall) -> None:
    """The model can go on with `read_memory`."""
    [line, *_] = recall.search_memory("a", "finance")["hits"]
    [paragraph] = recall.search_memory("a", "launch")["hits"]

    assert (line["topic"], line["said"]) == ("Quotes", "2026-03-01 12:00 UTC")
    assert paragraph["room"] == "standup"


def test_only_the_current_memory_of_this_agent_is_searched(database: Database, recall: Recall) -> None:
    """What was replaced or erased, or is another agent's, is not found."""
    remember(database, "b", memory(section("Secrets", "The launch of b is in June.")))
    remember(database, "a", memory(section("Quotes", "Quotes need no sign-off any more.")))

    assert found(recall, "finance euros June") == []
    assert found(recall, "sign-off") == ["Quotes need no sign-off any more."]
    forget(database, "a")
    assert found(recall, "sign-off launch") == []


def test_a_limit_is_kept(recall: Recall, database: Database) -> None:
    """However large the memory is."""
    remember(database, "a", memory(section("Log", *(f"entry {number} of the log" for number in range(500)))))

    assert len(recall.search_memory("a", "entry")["hits"]) == 10
    assert len(recall.search_memory("a", "entry", limit=10_000)["hits"]) == 50


# --- reading ------------------------------------------------------------------------------------


def test_the_whole_memory_is_read_page_by_page(recall: Recall, database: Database) -> None:
    """A large memory does not fill the window at once, and no line is lost between pages."""
    lines = [f"Fact {number} about the system that we look after." for number in range(1_000)]
    remember(database, "a", memory(section("Facts", *lines)))
    pages = recall.read_memory("a")["pages"]

    text = "".join(recall.read_memory("a", page=number)["text"] for number in range(1, pages + 1))

    assert pages > 2
    assert [line for line in text.splitlines() if line.startswith("- ")] == [f"- {line}" for line in lines]
    assert recall.read_memory("a", page=99)["page"] == pages


def test_one_topic_or_one_room_is_read(recall: Recall) -> None:
    """By title, a part of it, or the room's id."""
    assert "## Quotes" in recall.read_memory("a", topic="quotes")["text"]
    assert "## Deployments" in recall.read_memory("a", topic="## Deploy")["text"]
    assert "launch to May" in recall.read_memory("a", room="standup")["text"]


def test_what_is_not_there_is_told_with_what_is(recall: Recall) -> None:
    """The model picks another title instead of guessing."""
    answer = recall.read_memory("a", topic="billing")

    assert (answer["ok"], answer["rooms"]) == (False, ["standup"])
    assert answer["topics"] == ["Deployments", "Quotes", "日本", "Asia"]


def test_a_topic_is_read_by_the_title_that_was_shown(database: Database) -> None:
    """Titles are escaped where they are shown, and what a model copied from there was not found."""
    titles = ["1. Deploys", "Ops <prod> & co", "- of a list", "C#", "Größe"]
    remember(
        database, "a", memory(*(section(title, f"Said of {place}.") for place, title in enumerate(titles)))
    )
    recall = Recall(database, timeout_seconds=30)

    shown = recall.read_memory("a", topic="none of them")["topics"]
    hits = recall.search_memory("a", "said")["hits"]

    for place, title in enumerate(titles):
        for topic in (title, shown[place], f"## {title.upper()} ", title.replace(" ", "  ")):
            assert f"- Said of {place}." in recall.read_memory("a", topic=topic)["text"]
    assert {hit["topic"] for hit in hits} == set(shown)


def test_an_agent_of_whose_memory_nothing_is_left_is_told_so(database: Database) -> None:
    """After an erasure a note that says "what you remember" and then nothing only puzzles."""
    remember(database, "a", memory(section("Dana", "Dana likes tea.")))
    remember(database, "a", memory())
    recall = Recall(database, timeout_seconds=30)

    note, answer = recall.note("a", "r", "c"), recall.read_memory("a")

    assert (note.text, note.status, note.revision) == (None, NoteStatus.NO_MEMORY_YET, 2)
    assert (answer["ok"], answer["text"], answer["message"]) == (True, "", "You remember nothing any more.")


def test_a_newborn_agent_reads_that_it_has_learned_nothing(database: Database) -> None:
    """Not an error: it goes on without."""
    recall = Recall(database, timeout_seconds=30)

    assert recall.read_memory("newborn") == {
        "ok": True,
        "revision": 0,
        "text": "",
        "message": "You have learned nothing yet.",
    }
    assert recall.search_memory("newborn", "x")["hits"] == []


def test_without_a_database_the_tools_say_so_in_time() -> None:
    """A chat goes on without its memory."""
    with Recall("postgresql://nobody@127.0.0.1:1/none", timeout_seconds=2) as recall:
        for answer in (recall.read_memory("a"), recall.search_memory("a", "x")):
            assert (answer["ok"], "cannot be reached" in answer["error"]) == (False, True)
        with pytest.raises(BadInput, match="agent_id"):
            recall.read_memory("")


# --- tools --------------------------------------------------------------------------------------


def test_calls_of_the_messages_api_are_answered(recall: Recall) -> None:
    """Blocks of the SDK and plain dicts; calls of other tools are left to others."""
    tools = Toolbox(recall.tools("a"))
    content: list[Any] = [
        {"type": "text", "text": "I look."},
        SimpleNamespace(type="tool_use", id="t1", name="search_memory", input={"query": "euros"}),
        {"type": "tool_use", "id": "t2", "name": "read_memory", "input": {"topic": "nothing"}},
        {"type": "tool_use", "id": "t3", "name": "send_mail", "input": {}},
    ]

    first, second = tools.answer_anthropic(content)

    assert (first["type"], first["tool_use_id"], first["is_error"]) == ("tool_result", "t1", False)
    assert json.loads(first["content"])["hits"][0]["text"] == "ACME pays in euros."
    assert (second["tool_use_id"], second["is_error"]) == ("t2", True)


def test_calls_of_chat_completions_are_answered(recall: Recall) -> None:
    """Their arguments are JSON in a string, broken at times."""
    tools = Toolbox(recall.tools("a"))
    calls = [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "search_memory", "arguments": '{"query": "euros"}'},
        },
        {"id": "c2", "type": "function", "function": {"name": "search_memory", "arguments": "{broken"}},
        {"id": "c3", "type": "function", "function": {"name": "read_memory", "arguments": ""}},
    ]

    answers = tools.answer_openai({"role": "assistant", "content": None, "tool_calls": calls})

    assert [(one["role"], one["tool_call_id"]) for one in answers] == [("tool", f"c{n}") for n in (1, 2, 3)]
    assert [json.loads(one["content"])["ok"] for one in answers] == [True, False, True]
    assert tools.answer_openai({"role": "assistant", "content": "no calls"}) == []


def test_definitions_fit_both_providers(recall: Recall) -> None:
    """(T9)"""
    notes = StandingNotes(MemoryStore(), memory=True, user=True)
    tools = Toolbox([*recall.tools("a"), *notes.tools("a", user_id="dana")])

    names = ["read_memory", "search_memory", "memory"]
    assert [one["name"] for one in tools.for_anthropic()] == names
    assert [one["function"]["name"] for one in tools.for_openai()] == names
    json.dumps([tools.for_anthropic(), tools.for_openai()])
    with pytest.raises(BadInput, match="no tool 'other'"):
        tools.call("other", {})


def test_a_repeated_tool_call_of_a_provider_has_one_effect() -> None:
    """The id of the call is what tells a repeat."""
    notes = StandingNotes(MemoryStore(), memory=True)
    tools = Toolbox(notes.tools("a"))
    call = {"type": "tool_use", "id": "t1", "name": "memory", "input": {"action": "add", "content": "x"}}

    assert tools.answer_anthropic([call]) == tools.answer_anthropic([call])
    assert notes.view(Target.MEMORY, "a").version == 1


def test_ids_of_calls_that_begin_anew_in_every_turn_are_told_apart() -> None:
    """Some providers number the calls of each conversation from 0: the second one's note was refused for a week."""
    notes = StandingNotes(MemoryStore(), memory=True)
    tools = Toolbox(notes.tools("a"))

    for turn in ("run-1", "run-1", "run-2", "r" * 255, "s" * 255):
        call = {"id": "functions.memory:0", "name": "memory", "type": "tool_use", "input": {"content": turn}}
        (answer,) = tools.answer_anthropic([call], turn_id=turn)
        assert not answer["is_error"]

    view = notes.view(Target.MEMORY, "a")
    assert view.entries == ("run-1", "run-2", "r" * 255, "s" * 255)
    assert [one.call_id for one in notes.history(Target.MEMORY, "a")][-1] == "run-1/functions.memory:0"


# --- the place of notes -------------------------------------------------------------------------

NOTE = Note("the note", NoteStatus.GIVEN, 1)
NONE = Note(None, NoteStatus.NO_MEMORY_YET, 0)


def test_notes_stand_at_the_head_of_the_first_user_message() -> None:
    """Before what was said there, in every shape of content."""
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": "More"},
    ]

    placed = at_head_anthropic(messages, NOTE, NONE)

    assert placed[0]["content"] == [{"type": "text", "text": "the note"}, {"type": "text", "text": "Hello"}]
    assert placed[1:] == messages[1:]
    assert messages[0]["content"] == "Hello"
    assert at_head_anthropic(placed, NOTE) == placed


@pytest.mark.parametrize(
    ("content", "types"),
    [
        ("", ["text"]),
        (None, ["text"]),
        ([{"type": "image"}], ["text", "image"]),
        (
            [{"type": "tool_result", "tool_use_id": "t", "content": "x"}, {"type": "text", "text": "go on"}],
            ["tool_result", "text", "text"],
        ),
    ],
)
def test_the_message_with_notes_is_one_that_the_provider_takes(content: Any, types: list[str]) -> None:
    """It refuses empty blocks, and results of tools that do not stand first, as they do where a history was cut."""
    placed = at_head_anthropic([{"role": "user", "content": content}], NOTE)

    assert [block["type"] for block in placed[0]["content"]] == types
    assert all(block["text"] for block in placed[0]["content"] if block["type"] == "text")
    assert at_head_anthropic(placed, NOTE) == placed


def test_chat_messages_keep_their_shape() -> None:
    """A string stays a string, and a system prompt stays as it is."""
    system = {"role": "system", "content": "Be brief."}
    parts = [{"type": "text", "text": "Hello"}]

    [first, second] = at_head_openai([system, {"role": "user", "content": "Hello"}], NOTE)
    [_, in_parts] = at_head_openai([system, {"role": "user", "content": parts}], NOTE)

    assert (first, second["content"]) == (system, "the note\n\nHello")
    assert in_parts["content"] == [{"type": "text", "text": "the note"}, *parts]
    assert at_head_openai([first, second], NOTE) == [first, second]


def test_without_notes_nothing_changes() -> None:
    """The code around it needs no condition."""
    messages = [{"role": "user", "content": "Hello"}]

    assert at_head_openai(messages, NONE) == messages
    assert at_head_text("Hello", NONE) == "Hello"
    assert at_head_text("Hello", NOTE) == at_head_text(at_head_text("Hello", NOTE), NOTE)
    with pytest.raises(BadInput, match="no user message yet"):
        at_head_anthropic([{"role": "assistant", "content": "Hi"}], NOTE)


@pytest.mark.parametrize("typed", ATTEMPTS)
def test_a_note_that_a_person_types_is_told_from_ours(typed: str) -> None:
    """Only ours has the wrapper; what was typed stays readable (RE-01)."""
    assert tags(as_typed(typed)) == 0
    assert as_typed(as_typed(typed)) == as_typed(typed)


def test_typed_text_is_otherwise_left_alone() -> None:
    """Code, markup and layout of people are theirs."""
    text = "if a < b:\n    print('<b>bold</b>')\n<script>  &lt;x&gt; ![y](z)"

    assert as_typed(text) == text


def test_a_page_full_of_tags_is_shown_as_typed_at_once() -> None:
    """People paste whole pages and programs; a chat does not wait for them."""
    page = '<div class="x"><span>a</span> <strong>b</strong> </section>\n' * 20_000
    begun = time.process_time()

    assert as_typed(page) == page

    assert time.process_time() - begun < 15


def test_a_forged_note_is_known_by_its_bytes(database: Database) -> None:
    """Nobody can guess what a conversation was given."""
    remember(database, "a", LEARNED)
    recall = Recall(database, timeout_seconds=30)
    note = recall.note("a", "r", "c").text or ""

    assert recall.is_ours("a", note)
    assert not recall.is_ours("a", note.replace("finance", "nobody"))
    assert not recall.is_ours("b", note)


def test_the_note_says_how_to_read_more(database: Database) -> None:
    """In a workspace, with tools, or both."""
    remember(database, "a", LEARNED)

    texts = {
        reach: Recall(database, reach=reach, timeout_seconds=30).note("a", reach, "c").text or ""
        for reach in Reach
    }

    assert "agent-memory/MEMORY.md" in texts[Reach.FOLDER]
    assert "search_memory" not in texts[Reach.FOLDER]
    assert "search_memory" in texts[Reach.TOOLS]
    assert "MEMORY.md" not in texts[Reach.TOOLS]
    assert {"MEMORY.md" in texts[Reach.BOTH], "search_memory" in texts[Reach.BOTH]} == {True}


def test_a_new_revision_breaks_no_prompt_cache(sqlite_database: Database) -> None:
    """In the system prompt it would break that of every conversation; the server's own accounting shows it."""
    remember(sqlite_database, "a", LEARNED)
    recall = Recall(sqlite_database, timeout_seconds=30)
    system = "You are Scout. " * 200

    def ask(client: Anthropic, conversation: str, *, in_system: bool) -> tuple[int, int]:
        note = recall.note("a", "r", conversation)
        mark: dict[str, Any] = {"cache_control": {"type": "ephemeral"}}
        question = {"role": "user", "content": [{"type": "text", "text": "Hello " * 50, **mark}]}
        messages: Any = [question] if in_system else at_head_anthropic([question], note)
        head = f"{system}{note.text}" if in_system else system
        prompt: Any = [{"type": "text", "text": head, **mark}]
        usage = client.messages.create(
            model="claude-sonnet-5-5", max_tokens=100, system=prompt, messages=messages
        ).usage
        return usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0

    def reads(*, in_system: bool) -> list[int]:
        with ClaudeServer() as server, Anthropic(base_url=server.url, api_key="stand-in") as client:
            place = "system" if in_system else "head"
            found = [ask(client, f"{place}-1", in_system=in_system)]
            remember(sqlite_database, "a", memory(section(place, "Everything is different now.")))
            found += [ask(client, f"{place}-{number}", in_system=in_system) for number in (1, 2)]
        return [read for read, _ in found]

    first, running, new = reads(in_system=False)
    _, _, new_in_system = reads(in_system=True)

    assert first == 0
    assert running > new >= 1_500  # all of it; and for the new conversation the system prompt
    assert new_in_system == 0


# --- asyncio ------------------------------------------------------------------------------------


def test_everything_has_an_asyncio_twin(sqlite_database: Database, tmp_path: Path) -> None:
    """The same calls, awaited, with the same results; many at once."""
    remember(sqlite_database, "a", LEARNED)

    async def chat() -> None:
        async with (
            AsyncRecall(sqlite_database, timeout_seconds=30) as recall,
            AsyncStandingNotes(
                sqlite_database, memory=True, timeout_seconds=30, snapshot_seconds=30
            ) as notes,
        ):
            tools = AsyncToolbox([*recall.tools("a"), *notes.tools("a")])
            texts = await asyncio.gather(*(recall.note("a", "r", "c") for _ in range(20)))
            assert len({note.text for note in texts}) == 1
            assert await recall.is_ours("a", texts[0].text or "")
            assert (await recall.read_memory("a", topic="quotes"))["ok"]
            assert (await recall.search_memory("a", "euros"))["hits"]

            await notes.call({"action": "add", "content": "one"}, agent_id="a")
            [result] = await tools.answer_anthropic(
                [{"type": "tool_use", "id": "t", "name": "memory", "input": {"content": "two"}}]
            )
            assert not result["is_error"]
            function = {"name": "search_memory", "arguments": '{"query": "euros"}'}
            [message] = await tools.answer_openai({"tool_calls": [{"id": "c", "function": function}]})
            assert json.loads(message["content"])["ok"]
            assert (await tools.call("memory", {"content": "two"}))["code"] == "unchanged"
            assert len(tools.for_anthropic()) == len(tools.for_openai()) == 3
            assert "- two" in ((await notes.snapshot("a", "r", "c")).text or "")
            assert (await notes.undo(Target.MEMORY, "a", 1)).entries == ("one",)
            assert await notes.export(Target.MEMORY, "a") == "- one\n"
            assert (await notes.import_(Target.MEMORY, "a", "- three")).entries == ("three",)
            await notes.redact(Target.MEMORY, "a", 2)
            assert len(await notes.history(Target.MEMORY, "a")) == 4
            await notes.erase(Target.MEMORY, "a")
            assert (await notes.view(Target.MEMORY, "a")).entries == ()
            assert (await write_folder_async(sqlite_database, "a", tmp_path)).outcome == "written"

    asyncio.run(chat())


def test_a_silent_database_does_not_hold_up_an_event_loop() -> None:
    """Other chats go on while one waits for its note."""

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/none"

        async def chat() -> tuple[Note, int]:
            async with AsyncRecall(url, timeout_seconds=1) as recall:
                asked = asyncio.create_task(recall.note("a", "r", "c"))
                ticks = 0
                while not asked.done():
                    await asyncio.sleep(0.01)
                    ticks += 1
                return await asked, ticks

        note, ticks = asyncio.run(chat())

    assert note.status is NoteStatus.UNAVAILABLE
    assert ticks > 2
