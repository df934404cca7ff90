"""Three agent loops, on the anthropic SDK, the openai SDK and neither, each living the story of the design.

A rule is said in one room. It is extracted, consolidated, and known in a room where it was never said. And the
agent keeps a standing note about the person it works for. (`docs/examples/` has the loops.)
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from anthropic import Anthropic
from openai import OpenAI

from docs.examples import anthropic_agent, openai_agent, plain_agent
from takeaways.recall import Reach, Recall
from takeaways.recall.standing import StandingNotes, Target
from takeaways.schemas.database import Database
from takeaways.schemas.tables import messages
from takeaways.workers.models.offline import OfflineModel
from takeaways.workers.testing.claude import ClaudeServer, Request, Scripted, ToolUse, script
from tests.pipeline import Pipeline, pipeline

RULE = "From now on, every quote over $40k needs sign-off by Dana before it goes out."
PREFERENCE = "I like prices in euros."
ADD = {"action": "add", "content": "Likes prices in euros", "target": "user"}


def everything_said(request: Request) -> str:
    """Instructions, notes and messages of a request, as one text."""
    return json.dumps(request.body, ensure_ascii=False)


def as_a_model_would(request: Request) -> Scripted:
    """Scout's model: it heeds what its context says, and saves a preference when it hears one."""
    last = json.dumps(request.body["messages"][-1], ensure_ascii=False)
    told = everything_said(request)
    if "Entry added" in last:
        return Scripted(text="Noted.")
    if PREFERENCE in last:
        if "tools" in request.body:
            return script.calling(ToolUse("memory", ADD))
        return Scripted(text="TOOL " + json.dumps({"name": "memory", "arguments": ADD}))
    if "60 seats" in last:
        sign_off = "I ask Dana for sign-off first" if "$40k" in told else "The quote is out"
        return Scripted(text=f"{sign_off}. {'58,000 EUR' if 'euros' in told else '$63,000'}.")
    return Scripted(text="Understood.")


@pytest.fixture
def server() -> Iterator[ClaudeServer]:
    with ClaudeServer(rule=as_a_model_would) as running:
        yield running


@pytest.fixture
def system(sqlite_database: Database, redis_url: str) -> Iterator[Pipeline]:
    with pipeline(sqlite_database, redis_url, OfflineModel()) as made:
        yield made


Begin = Callable[[str, str], Any]


def on_anthropic(server: ClaudeServer) -> tuple[Any, Any]:
    return anthropic_agent.Conversation, Anthropic(base_url=server.url, api_key="stand-in")


def on_openai(server: ClaudeServer) -> tuple[Any, Any]:
    return openai_agent.Conversation, OpenAI(base_url=f"{server.url}/v1", api_key="stand-in")


def on_nothing(server: ClaudeServer) -> tuple[Any, Any]:
    def complete(system: str, conversation: str) -> str:
        body = {
            "model": "claude-sonnet-5-5",
            "max_tokens": 1_000,
            "system": system,
            "messages": [{"role": "user", "content": conversation}],
        }
        headers = {"x-api-key": "stand-in", "anthropic-version": "2023-06-01"}
        request = urllib.request.Request(f"{server.url}/v1/messages", json.dumps(body).encode(), headers)  # noqa: S310
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - our own server
            return str(json.load(answer)["content"][0]["text"])

    return plain_agent.Conversation, complete


@pytest.fixture(params=[on_anthropic, on_openai, on_nothing], ids=["anthropic", "openai", "plain"])
def begin(request: pytest.FixtureRequest, server: ClaudeServer, system: Pipeline) -> Iterator[Begin]:
    """Begins a conversation of Scout with Dana in a room."""
    conversation, model = request.param(server)
    recall = Recall(system.database, reach=Reach.TOOLS, timeout_seconds=20)
    notes = StandingNotes(system.database, memory=True, user=True, snapshot_seconds=20)

    def begun(room: str, name: str) -> Any:
        return conversation(
            model,
            recall,
            notes,
            system.producer,
            agent_id="scout",
            room=room,
            conversation=name,
            user_id="dana",
        )

    yield begun
    if hasattr(model, "close"):
        model.close()


def test_a_rule_crosses_rooms_and_a_preference_stays(
    begin: Begin, system: Pipeline, server: ClaudeServer
) -> None:
    """Converse, publish, recall in another room, keep notes: the same few lines on every SDK."""
    first = begin("quotes", "c1")
    for words in (RULE, "Thanks.", "What is next?", "And then?"):
        assert first.say(words) == "Understood."
    assert first.say(PREFERENCE) == "Noted."
    system.take_in()
    system.work()
    system.flush(["scout"])

    answer = begin("new-deal", "c2").say("Send ACME a quote for 60 seats.")

    assert answer == "I ask Dana for sign-off first. 58,000 EUR."
    notes = StandingNotes(system.database, user=True)
    assert notes.view(Target.USER, "dana").entries == ("Likes prices in euros",)
    [note_and_question] = [one for one in server.messages if "60 seats" in everything_said(one)]
    told = everything_said(note_and_question)
    assert told.index("<agent-memory") < told.index("<standing-notes>") < told.index("60 seats")
    assert RULE not in told.partition("<agent-memory")[0]


def test_what_was_remembered_is_not_published_again(begin: Begin, system: Pipeline) -> None:
    """A note that came back as an event would be learned again, and again (EX-16)."""
    conversation = begin("quotes", "c1")
    for _ in range(5):
        conversation.say(RULE)
    system.take_in()
    system.work()
    system.flush(["scout"])

    begin("new-deal", "c2").say("Send ACME a quote for 60 seats.")
    system.take_in()

    assert len(system.unread("scout")) == 2
    assert not any("<agent-memory" in str(row["parts"]) for row in system.rows(messages))


def test_a_running_conversation_sends_the_same_beginning_each_time(
    begin: Begin, server: ClaudeServer, system: Pipeline
) -> None:
    """Whatever is learned or noted meanwhile, the prompt's cached beginning stays."""
    conversation = begin("quotes", "c1")
    conversation.say(PREFERENCE)

    conversation.say("What is next?")

    bodies = [one.body for one in server.messages]
    beginning = json.dumps(bodies[0]["messages"]).rstrip('"}]')
    assert len(bodies) == 3
    assert all(json.dumps(body["messages"]).startswith(beginning) for body in bodies)
    assert len({json.dumps([body.get("system"), body.get("tools")]) for body in bodies}) == 1
