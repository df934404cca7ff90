"""`takeaways erase agent|room|person`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeaways.workers.cli.context import read_settings
from takeaways.workers.cli.help import command
from takeaways.workers.cli.output import AsJson, console, plain, print_json

if TYPE_CHECKING:
    from takeaways.schemas.events import AgentDeleted, PersonDeleted, RoomDeleted

group = typer.Typer(
    no_args_is_help=True,
    help="Forget an agent, a room or a person: messages, lessons, memory, history, notes, folders.",
)
Agent = Annotated[str, typer.Argument(help="The agent's id.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@command(group)
def agent(agent: Agent, yes: Yes = False, as_json: AsJson = False) -> None:
    """Forget everything about an agent. One made again under the same id starts empty.

    Example: `takeaways erase agent scout --yes`
    """
    from takeaways.schemas.events import AgentDeleted

    _check("agent id", agent)
    _erase(AgentDeleted(), agent, f"everything about agent {agent}", yes, as_json)


@command(group)
def room(
    agent: Agent,
    room: Annotated[str, typer.Argument(help="The room's id.")],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Forget a room, with every line of the memory that rests on anything said in it.

    What else those lines rested on is merged again by the next consolidation.

    Example: `takeaways erase room scout quotes`
    """
    from takeaways.schemas.events import RoomDeleted, RoomRef

    _check("room id", room)
    _erase(RoomDeleted(room=RoomRef(id=room)), agent, f"room {room} of agent {agent}", yes, as_json)


@command(group)
def person(
    agent: Agent,
    person: Annotated[str, typer.Argument(help="The person's id, as events name them.")],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Forget a person: what they said, what was said in runs made for them, and what rests on it.

    What others said about them, and lines that somebody wrote by hand, stay.

    Example: `takeaways erase person scout u-17`
    """
    from takeaways.schemas.events import PersonDeleted

    _check("person id", person)
    _erase(PersonDeleted(person_id=person), agent, f"person {person}, for agent {agent}", yes, as_json)


def _erase(
    data: AgentDeleted | RoomDeleted | PersonDeleted, agent: str, what: str, yes: bool, as_json: bool
) -> None:
    from sqlalchemy import select

    from takeaways.schemas.tables import erasures
    from takeaways.workers.bootstrap import connect
    from takeaways.workers.cli.context import open_for_reading, require_known
    from takeaways.workers.erasure.erasing import go_on
    from takeaways.workers.intake.erase import erase

    settings = read_settings()
    database = open_for_reading(settings)
    try:
        with database.read() as connection:
            require_known(connection, agent)
        if not yes:
            typer.confirm(f"Forget {what}? This cannot be undone.", abort=True, err=True)
        erase(database, agent, data, policy=settings.policy)
        with connect(settings.redis_url) as redis:
            go_on(database, redis)
        with database.read() as connection:
            left = [
                dict(row)
                for row in connection.execute(
                    select(erasures)
                    .where(erasures.c.agent_id == agent)
                    .order_by(erasures.c.asked_ms.desc())
                    .limit(1)
                ).mappings()
            ]
    finally:
        database.dispose()
    _tell(what, left[0], as_json)


def _check(name: str, value: str) -> None:
    from takeaways.schemas.errors import BadInput
    from takeaways.schemas.ids import why_bad

    if problem := why_bad(value):
        raise BadInput(f"{name}: {problem}")


def _tell(what: str, erasure: dict[str, Any], as_json: bool) -> None:
    done = erasure["done_ms"] is not None
    if as_json:
        print_json({"erased": what, "done": done, **erasure["account"]})
        return
    console().print(plain(f"Forgotten: {what}."))
    for name, number in erasure["account"].items():
        if number:
            console().print(plain(f"  {name.replace('_', ' ')}: {number}"))
    if not done:
        console(stderr=True).print(
            "Something is still to be done, and the intake goes on with it: events that wait in Redis, or a "
            "server that does not answer. See `erasures` in the database."
        )
