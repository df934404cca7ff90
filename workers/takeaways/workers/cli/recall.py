"""`takeaways recall`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from takeaways.workers.cli.context import open_for_reading, read_settings
from takeaways.workers.cli.output import AsJson, console, plain, print_json, print_text
from takeaways.workers.exits import Exit


def recall(
    agent: Annotated[str, typer.Argument(help="The agent's id.")],
    room: Annotated[str, typer.Argument(help="The room that the conversation is in.")],
    conversation: Annotated[str, typer.Option(help="The conversation that begins.")] = "default",
    compaction: Annotated[int | None, typer.Option(min=0, help="How often it was compacted.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Also write agent-memory/ into this workspace.", file_okay=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the note that a conversation begins with, and pin it for the conversation's life.

    Examples: `takeaways recall scout new-deal --conversation c1`,
    `takeaways recall scout new-deal --folder ~/workspaces/scout`
    """
    from takeaways.recall import NoteStatus, Recall, write_folder

    database = open_for_reading(read_settings())
    try:
        with Recall(database) as reader:
            note = reader.note(agent, room, conversation, compaction)
        written = write_folder(database, agent, folder) if folder is not None else None
    finally:
        database.dispose()
    if as_json:
        shown: dict[str, Any] = {
            "agent": agent,
            "room": room,
            "conversation": conversation,
            "status": note.status,
            "revision": note.revision,
            "note": note.text,
        }
        if written is not None:
            shown["folder"] = {"path": str(written.folder), "outcome": written.outcome}
        print_json(shown)
    else:
        if note.text is not None:
            print_text(note.text)
        if written is not None:
            console(stderr=True).print(plain(f"{written.folder}: {written.outcome}"))
    if note.status is NoteStatus.UNAVAILABLE:
        typer.echo(f"takeaways: no note: {note.detail}", err=True)
        raise typer.Exit(Exit.UNAVAILABLE)
    if note.text is None:
        typer.echo(
            f"takeaways: {agent} has no memory yet, so its conversations begin without a note", err=True
        )
        raise typer.Exit(Exit.NOTHING_FOUND)
