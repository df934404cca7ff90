"""Building wire messages from what files hold: who said it, under which id, what is storable."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from takeaways.schemas.events import Author, Message
from takeaways.schemas.ids import derived, why_bad
from takeaways.schemas.text import one_line

PERSON: Final = "user"
ROLES: Final = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "tool",
    "function": "function",
}
_KINDS: Final = {"user": "person", "assistant": "agent", "system": "system", "developer": "system"}


def a_person(name: str | None = None, person_id: Any = None) -> Author:
    known = identifier(person_id if person_id not in (None, "") else name)
    return Author(id=known or PERSON, name=_shown(name), kind="person")


def the_agent(agent_id: str, name: str | None = None) -> Author:
    return Author(id=agent_id, name=_shown(name), kind="agent")


def the_system() -> Author:
    return Author(id="system", kind="system")


def a_tool(name: Any = None) -> Author:
    return Author(id=identifier(name) or "tool", kind="tool")


def by_role(role: str, agent_id: str, *, name: str | None = None, content: Any = None) -> Author:
    """Who speaks in a chat of a user with the agent. What only carries tool results was said by a tool."""
    match _KINDS.get(role, "tool"):
        case "person" if only_results(content):
            return a_tool()
        case "person":
            return a_person(name)
        case "agent":
            return the_agent(agent_id, name)
        case "system":
            return the_system()
        case _:
            return a_tool(name)


def only_results(content: Any) -> bool:
    return (
        isinstance(content, list)
        and bool(content)
        and all(isinstance(block, dict) and block.get("type") == "tool_result" for block in content)
    )


def identifier(value: Any) -> str | None:
    """The id that a file gives, as text. In place of one that breaks the rule for ids stands its digest."""
    if value is None or value == "" or isinstance(value, bool | float | dict | list):
        return None
    value = str(value)
    return derived("id", value) if why_bad(value) else value


def message(
    *,
    message_id: str,
    role: str,
    author: Author,
    time: datetime | None = None,
    **said: Any,
) -> Message:
    """Make a wire message. `role` is a value of `ROLES`, `said` what it says, in the fields of the wire."""
    return Message(
        id=message_id,
        role=role,  # type: ignore[arg-type] # the readers map what they find with ROLES
        author=author,
        time=time,
        **said,
    )


def a_picture(caption: str) -> dict[str, Any]:
    """A photo of which only a description is left."""
    return {"type": "attachment", "kind": "image", "name": caption}


def text_of(value: Any) -> str:
    """`value` where it is text, else ""."""
    return value if isinstance(value, str) else ""


def _shown(name: Any) -> str | None:
    return one_line(name)[:200] or None if isinstance(name, str) else None
