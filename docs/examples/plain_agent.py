"""An agent loop without any SDK: the model is a function from text to text, and calls tools with a line of JSON."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any, Literal

from takeaways.producers import Producer
from takeaways.recall import Recall, Toolbox, as_typed, at_head_text
from takeaways.recall.standing import StandingNotes

SYSTEM = (
    "You are Scout, who helps a sales team with quotes. Answer briefly. To call a tool answer with nothing but "
    'one line: TOOL {"name": …, "arguments": {…}}. Your tools: '
)
CALL = "TOOL "

Complete = Callable[[str, str], str]
"""The model: system prompt and conversation in, answer out."""


class Conversation:
    """One conversation of an agent in a room. `say` is one run: a person says something, the agent answers."""

    def __init__(
        self,
        complete: Complete,
        recall: Recall,
        notes: StandingNotes,
        producer: Producer,
        *,
        agent_id: str,
        room: str,
        conversation: str,
        user_id: str,
    ) -> None:
        self._complete, self._producer = complete, producer
        self._about: dict[str, Any] = {"agent_id": agent_id, "room": room, "conversation": conversation}
        self._user_id = user_id
        # The same bytes whenever this conversation goes on, in this process or another.
        self._head = (
            recall.note(agent_id, room, conversation),
            notes.snapshot(agent_id, room, conversation, user_id=user_id),
        )
        self._tools = Toolbox([*recall.tools(agent_id), *notes.tools(agent_id, user_id=user_id)])
        self._messages: list[dict[str, str]] = []

    def say(self, text: str) -> str:
        """Answer a person, and publish the run, however it ended."""
        run_id = f"run-{uuid.uuid4()}"
        first = len(self._messages)
        self._messages.append({"role": "user", "content": as_typed(text)})
        status: Literal["succeeded", "failed"] = "failed"
        try:
            answer = self._answered(run_id)
            status = "succeeded"
            return answer
        finally:
            # The messages as they were said, without the notes: what is remembered is not said again.
            self._producer.run_completed(
                **self._about,
                run_id=run_id,
                status=status,
                user_id=self._user_id,
                messages=self._messages[first:],
            )

    def _answered(self, run_id: str) -> str:
        system = SYSTEM + json.dumps(self._tools.for_anthropic())
        while True:
            conversation = "\n".join(f"{one['role']}: {one['content']}" for one in self._messages)
            answer = self._complete(system, at_head_text(conversation, *self._head))
            self._messages.append({"role": "assistant", "content": answer})
            if not answer.startswith(CALL):
                return answer
            self._messages.append({"role": "tool", "content": self._called(answer, run_id)})

    def _called(self, answer: str, run_id: str) -> str:
        try:
            call = json.loads(answer.removeprefix(CALL))
            result = self._tools.call(call["name"], call["arguments"], turn_id=run_id)
        except (ValueError, LookupError, TypeError) as error:
            result = {"ok": False, "error": f"the call cannot be read: {type(error).__name__}"}
        return json.dumps(result, ensure_ascii=False)
