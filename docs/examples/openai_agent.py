"""An agent loop on the openai SDK that remembers: notes at the head, tools in the middle, an event at the end."""

from __future__ import annotations

import uuid
from typing import Any, Literal

from openai import OpenAI

from takeaways.producers import Producer
from takeaways.recall import Recall, Toolbox, as_typed, at_head_openai
from takeaways.recall.standing import StandingNotes

SYSTEM = "You are Scout, who helps a sales team with quotes. Answer briefly."


class Conversation:
    """One conversation of an agent in a room. `say` is one run: a person says something, the agent answers."""

    def __init__(
        self,
        client: OpenAI,
        recall: Recall,
        notes: StandingNotes,
        producer: Producer,
        *,
        agent_id: str,
        room: str,
        conversation: str,
        user_id: str,
        model: str = "claude-sonnet-5-5",
    ) -> None:
        self._client, self._producer, self._model = client, producer, model
        self._about: dict[str, Any] = {"agent_id": agent_id, "room": room, "conversation": conversation}
        self._user_id = user_id
        # The same bytes whenever this conversation goes on, in this process or another.
        self._head = (
            recall.note(agent_id, room, conversation),
            notes.snapshot(agent_id, room, conversation, user_id=user_id),
        )
        self._tools = Toolbox([*recall.tools(agent_id), *notes.tools(agent_id, user_id=user_id)])
        self._messages: list[dict[str, Any]] = []

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
        tools: Any = self._tools.for_openai()
        while True:
            messages: Any = [
                {"role": "system", "content": SYSTEM},
                *at_head_openai(self._messages, *self._head),
            ]
            response = self._client.chat.completions.create(model=self._model, messages=messages, tools=tools)
            message = response.choices[0].message
            self._messages.append(message.model_dump(exclude_none=True))
            results = self._tools.answer_openai(message, turn_id=run_id)
            if not results:
                return message.content or ""
            self._messages += results
