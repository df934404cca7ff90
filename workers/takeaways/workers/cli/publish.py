"""`takeaways publish run|compaction|json`: events from a shell."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeaways.workers.cli.context import read_settings
from takeaways.workers.cli.help import command
from takeaways.workers.cli.output import AsJson, print_json, print_text
from takeaways.workers.exits import Exit

if TYPE_CHECKING:
    from takeaways.producers import Producer
    from takeaways.schemas.events import Event

SOURCE = "takeaways-cli"
ROLES = ("user", "assistant", "system", "tool")

group = typer.Typer(no_args_is_help=True, help="Publish events: a run, a compaction, or JSON from stdin.")
Agent = Annotated[str, typer.Argument(help="The agent's id.")]
Room = Annotated[str, typer.Argument(help="The room's id.")]


@command(group)
def run(
    agent: Agent,
    room: Room,
    run_id: Annotated[str | None, typer.Option(help="The run's id; made up by default.")] = None,
    message: Annotated[
        list[str] | None, typer.Option("--message", "-m", help="`role: text`, in order; repeat it.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="The run failed, so it does not count.")] = False,
    user: Annotated[str | None, typer.Option(help="Who the agent worked for.")] = None,
    conversation: Annotated[str | None, typer.Option(help="The conversation's id.")] = None,
    as_json: AsJson = False,
) -> None:
    """Publish that the agent ended a run, with its new messages.

    Example:
    `takeaways publish run scout quotes -m "user: Quotes over $40k need sign-off." -m "assistant: Noted."`
    """
    import uuid

    messages = [_message(text) for text in message or ()]
    name = run_id or uuid.uuid4().hex
    with _producer() as producer:
        event_id = producer.run_completed(
            agent_id=agent,
            room=room,
            run_id=name,
            status="failed" if failed else "succeeded",
            messages=messages,
            user_id=user,
            conversation=conversation,
        )
    _published([{"event": str(event_id), "run": name}], as_json)


@command(group)
def compaction(
    agent: Agent,
    room: Room,
    conversation: Annotated[str, typer.Argument(help="The conversation's id.")],
    number: Annotated[int, typer.Argument(min=1, help="How often it was compacted by now.")],
    as_json: AsJson = False,
) -> None:
    """Publish that the platform compacted a conversation.

    Example: `takeaways publish compaction scout quotes c1 1`
    """
    with _producer() as producer:
        event_id = producer.room_compacted(
            agent_id=agent, room=room, conversation=conversation, compaction=number
        )
    _published([{"event": str(event_id)}], as_json)


@command(group, "json")
def json_(as_json: AsJson = False) -> None:
    """Publish CloudEvents in JSON from stdin, one a line.

    Each line is checked first; when one is not an event nothing is published.

    Example: `takeaways publish json < events.jsonl`
    """
    events = _read_events()
    with _producer() as producer:
        producer.publish_many(events)
    _published([{"event": event.id} for event in events], as_json)


def _read_events() -> list[Event]:
    from takeaways.schemas.errors import DeadLetterReason, UnreadableMessage
    from takeaways.schemas.events import decode

    events, broken = [], 0
    for number, line in enumerate(sys.stdin.buffer, start=1):
        if not line.strip():
            continue
        try:
            event = decode(line)
            if event.unknown_fields:
                raise UnreadableMessage(
                    DeadLetterReason.BAD_FIELD, "it has fields that this version does not know"
                )
            events.append(event)
        except UnreadableMessage as error:
            broken += 1
            typer.echo(f"takeaways: stdin:{number}: {error}", err=True)
    if broken:
        typer.echo("takeaways: nothing was published", err=True)
        raise typer.Exit(Exit.FAILED)
    return events


def _producer() -> Producer:
    from takeaways.producers import Producer
    from takeaways.schemas.errors import BadInput, Misconfigured

    try:
        # Somebody sits and waits: a server that is not there is told soon.
        return Producer(read_settings().redis_url, source=SOURCE, patience_seconds=5.0)
    except BadInput as error:
        raise Misconfigured(f"TAKEAWAYS_REDIS_URL: {error}") from None


def _message(text: str) -> dict[str, Any]:
    role, colon, content = text.partition(":")
    if not colon or role.strip() not in ROLES:
        raise typer.BadParameter(
            f"a message begins with one of {', '.join(ROLES)} and a colon", param_hint="--message"
        )
    return {"role": role.strip(), "content": content.strip()}


def _published(events: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(events)
    else:
        for event in events:
            print_text(f"published {event['event']}")
