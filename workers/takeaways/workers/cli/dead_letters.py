"""`takeaways dead-letters list|show|retry|discard`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeaways.schemas.errors import DeadLetterReason
from takeaways.workers.cli.context import open_for_reading, read_settings
from takeaways.workers.cli.help import command
from takeaways.workers.cli.output import AsJson, console, iso, moment, plain, print_json, print_text, table
from takeaways.workers.exits import Exit

if TYPE_CHECKING:
    from takeaways.schemas.database import Database

group = typer.Typer(
    no_args_is_help=True, help="See and settle events that could not be taken in. They are kept whole."
)
Letter = Annotated[str, typer.Argument(metavar="ID", help="A dead letter's id, as `list` shows it.")]
Letters = Annotated[list[str] | None, typer.Argument(metavar="ID…", help="Ids, as `list` shows them.")]
Reason = Annotated[
    DeadLetterReason | None, typer.Option(help="All open ones that were set aside for this, in place of ids.")
]


@command(group, "list")
def list_(
    limit: Annotated[int, typer.Option(min=1, help="How many, oldest first.")] = 100,
    reason: Annotated[DeadLetterReason | None, typer.Option(help="Only those set aside for this.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the open ones, oldest first.

    Example: `takeaways dead-letters list --reason bad_field`
    """
    from dataclasses import asdict

    from takeaways.workers.intake.deadletters import list_open

    database = open_for_reading(read_settings())
    try:
        found = list_open(database, limit=limit, reason=reason)
    finally:
        database.dispose()
    if as_json:
        print_json([{**asdict(letter), "at": iso(letter.at_ms)} for letter in found])
        return
    if not found:
        console().print("No open dead letters.")
        return
    shown = table("id", "since", "reason", "agent", "what is wrong", "bytes", right=("bytes",))
    for letter in found:
        shown.add_row(
            letter.id,
            moment(letter.at_ms),
            letter.reason,
            plain(letter.agent_id),
            plain(letter.detail),
            f"{letter.size_bytes:,}",
        )
    console().print(shown)


@command(group)
def show(letter_id: Letter, as_json: AsJson = False) -> None:
    """Show one with the text that was published, secrets in it masked.

    It may hold what people said: mind where you paste it.

    Example: `takeaways dead-letters show d:0123…`
    """
    from takeaways.schemas.secrets import mask
    from takeaways.workers.intake import deadletters

    database = open_for_reading(read_settings())
    try:
        letter = deadletters.show(database, letter_id)
    finally:
        database.dispose()
    raw = mask(letter.raw.decode("utf-8", "backslashreplace"))
    if as_json:
        facts: dict[str, Any] = {
            name: getattr(letter, name)
            for name in ("stream", "entry_id", "reason", "detail", "source", "event_id", "agent_id", "state")
        }
        print_json({"id": letter_id, **facts, "at": iso(letter.at_ms), "raw": raw})
        return
    out = console()
    out.print(plain(f"{letter.reason}: {letter.detail}"), style="bold")
    out.print(plain(f"{letter.stream} {letter.entry_id}, {moment(letter.at_ms)}, {letter.state}"))
    names = {"event": letter.event_id, "source": letter.source, "agent": letter.agent_id}
    if known := ", ".join(f"{what} {name}" for what, name in names.items() if name is not None):
        out.print(plain(known))
    print_text(raw)


@command(group)
def retry(letter_ids: Letters = None, reason: Reason = None, as_json: AsJson = False) -> None:
    """Publish them again, byte for byte, for instance to newer workers.

    Examples: `takeaways dead-letters retry d:0123…`, `takeaways dead-letters retry --reason unknown_version`
    """
    from takeaways.workers.bootstrap import connect
    from takeaways.workers.intake import deadletters

    settings = read_settings()
    database, redis = open_for_reading(settings), connect(settings.redis_url)
    try:
        meant = _meant(database, letter_ids, reason)
        done = _each(meant, lambda one: {"entry": deadletters.retry(database, redis, one)})
    finally:
        redis.close()
        database.dispose()
    _report(done, "published again", as_json)


@command(group)
def discard(letter_ids: Letters = None, reason: Reason = None, as_json: AsJson = False) -> None:
    """Settle them without publishing.

    Examples: `takeaways dead-letters discard d:0123…`, `takeaways dead-letters discard --reason not_json`
    """
    from takeaways.workers.intake import deadletters

    def settle(letter_id: str) -> dict[str, Any]:
        deadletters.discard(database, letter_id)
        return {}

    database = open_for_reading(read_settings())
    try:
        done = _each(_meant(database, letter_ids, reason), settle)
    finally:
        database.dispose()
    _report(done, "discarded", as_json)


def _meant(database: Database, letter_ids: list[str] | None, reason: DeadLetterReason | None) -> list[str]:
    from takeaways.workers.intake.deadletters import list_open

    if bool(letter_ids) == (reason is not None):
        raise typer.BadParameter("name ids, or a reason with --reason")
    if reason is None:
        return letter_ids or []
    return [letter.id for letter in list_open(database, limit=None, reason=reason)]


def _each(letter_ids: list[str], action: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
    """One that cannot be settled does not stop the next."""
    from takeaways.schemas.errors import BadInput

    done = []
    for letter_id in letter_ids:
        try:
            done.append({"id": letter_id, "done": True, **action(letter_id)})
        except BadInput as error:
            done.append({"id": letter_id, "done": False, "why": str(error)})
    return done


def _report(done: list[dict[str, Any]], what: str, as_json: bool) -> None:
    if as_json:
        print_json(done)
    for one in done:
        if not one["done"]:
            typer.echo(f"takeaways: {one['why']}", err=True)
        elif not as_json:
            print_text(f"{one['id']} {what}")
    if not all(one["done"] for one in done):
        raise typer.Exit(Exit.NOTHING_FOUND)
