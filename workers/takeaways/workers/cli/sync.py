"""`takeaways sync` and `takeaways workspace`: `agent-memory/` in the workspaces of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from takeaways.workers.cli.context import open_for_reading, read_settings
from takeaways.workers.cli.help import command
from takeaways.workers.cli.output import AsJson, console, iso, moment, plain, print_json, table
from takeaways.workers.exits import Exit

if TYPE_CHECKING:
    from takeaways.recall.workspaces import Synced, Workspaces

group = typer.Typer(
    no_args_is_help=True, help="Name the folders in which an agent's memory is kept up to date."
)
Machine = Annotated[
    str | None, typer.Option(help="The name of this machine; its host name unless said. Containers need one.")
]


def sync(
    agents: Annotated[list[str] | None, typer.Argument(help="Only these agents.", show_default=False)] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.05, help="Seconds between two looks, with --watch.")] = 1.0,
    check_every: Annotated[
        float, typer.Option(min=1, help="Seconds between two searches for edits by hand.")
    ] = 60.0,
    machine: Machine = None,
    as_json: AsJson = False,
) -> None:
    """Bring `agent-memory/` up to date in the workspaces of this machine: once, or for as long as it runs.

    Run it where the workspaces are. A folder that was changed by hand shows the memory again, and you are told.

    Examples: `takeaways sync`, `takeaways sync --watch`, `takeaways sync scout --json`
    """
    with _opened(machine) as workspaces:
        if watch:
            _watch(workspaces, agents, every, check_every, as_json)
            return
        results = workspaces.sync(agents)
    if as_json:
        print_json([_as_json(synced) for synced in results])
    else:
        for synced in results:
            console().print(plain(_line(synced)), soft_wrap=True)
        if not results:
            typer.echo(
                "takeaways: no workspace is registered here; `takeaways workspace add AGENT FOLDER` does it",
                err=True,
            )
            raise typer.Exit(Exit.NOTHING_FOUND)
    if any(synced.outcome == "failed" for synced in results):
        raise typer.Exit(Exit.FAILED)


@command(group)
def add(
    agent: Annotated[str, typer.Argument(help="The agent's id.")],
    folder: Annotated[Path, typer.Argument(help="The workspace, on this machine.", file_okay=False)],
    machine: Machine = None,
    as_json: AsJson = False,
) -> None:
    """Keep an agent's memory in a folder of this machine; written at once.

    Example: `takeaways workspace add scout ~/workspaces/scout`
    """
    with _opened(machine) as workspaces:
        added = workspaces.register(agent, folder)
        for synced in workspaces.sync([agent]):
            if synced.path != added.path:
                continue
            if as_json:
                print_json(_as_json(synced))
            else:
                console().print(plain(_line(synced)), soft_wrap=True)


@command(group)
def remove(
    folder: Annotated[Path, typer.Argument(help="The workspace.", file_okay=False)],
    machine: Machine = None,
    as_json: AsJson = False,
) -> None:
    """Forget a workspace, and take `agent-memory/` out of it.

    Example: `takeaways workspace remove ~/workspaces/scout`
    """
    with _opened(machine) as workspaces:
        if not workspaces.unregister(folder):
            typer.echo(f"takeaways: {folder} is no workspace of this machine", err=True)
            raise typer.Exit(Exit.NOTHING_FOUND)
    if as_json:
        print_json({"path": str(folder.absolute()), "removed": True})
    else:
        console(stderr=True).print(plain(f"{folder} is kept up to date no longer"), soft_wrap=True)


@command(group, "list")
def list_(machine: Machine = None, as_json: AsJson = False) -> None:
    """List the workspaces of this machine, and how each was last brought up to date.

    Example: `takeaways workspace list`
    """
    with _opened(machine) as workspaces:
        found = workspaces.listed()
    if as_json:
        print_json(
            [
                {
                    "agent": one.agent_id,
                    "path": one.path,
                    "outcome": one.outcome,
                    "detail": one.detail,
                    "checked": iso(one.checked_ms),
                    "edited": iso(one.edited_ms),
                }
                for one in found
            ]
        )
        return
    if not found:
        console().print("No workspace is registered on this machine.")
        return
    shown = table("agent", "workspace", "last", "when", "edited by hand")
    for one in found:
        last = f"{one.outcome}: {one.detail}" if one.detail else one.outcome
        shown.add_row(
            plain(one.agent_id), plain(one.path), plain(last), moment(one.checked_ms), moment(one.edited_ms)
        )
    console().print(shown)


@contextmanager
def _opened(machine: str | None) -> Iterator[Workspaces]:
    from takeaways.recall.workspaces import Workspaces

    database = open_for_reading(read_settings())
    try:
        yield Workspaces(database, machine=machine)
    finally:
        database.dispose()


def _watch(
    workspaces: Workspaces, agents: list[str] | None, every: float, check_every: float, as_json: bool
) -> None:
    import json
    import signal
    import threading

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())

    def report(synced: Synced) -> None:
        line = json.dumps(_as_json(synced), ensure_ascii=False) if as_json else _line(synced)
        typer.echo(line)

    typer.echo(
        f"takeaways: keeping {len(workspaces.listed())} workspaces of {workspaces.machine} up to date; Ctrl-C ends it",
        err=True,
    )
    workspaces.watch(stop, agent_ids=agents, every_seconds=every, check_seconds=check_every, report=report)


def _line(synced: Synced) -> str:
    revision = f" (revision {synced.revision})" if synced.revision else ""
    edited = "; it had been changed by hand" if synced.edited else ""
    detail = f": {synced.detail}" if synced.detail else ""
    return f"{synced.path}: {synced.outcome}{revision}{edited}{detail}"


def _as_json(synced: Synced) -> dict[str, Any]:
    return {
        "agent": synced.agent_id,
        "path": synced.path,
        "outcome": synced.outcome,
        "revision": synced.revision,
        "edited_by_hand": synced.edited,
        "detail": synced.detail or None,
    }
