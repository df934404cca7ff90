"""`takeaways up`."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated

import typer

from takeaways.workers.cli.context import read_settings
from takeaways.workers.cli.output import AsJson, console, plain, print_json
from takeaways.workers.exits import Exit

if TYPE_CHECKING:
    from takeaways.workers.local.server import LocalServer
    from takeaways.workers.settings import Settings

PORT = 6379


def up(
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Where Valkey listens; another one if it is in use.")
    ] = PORT,
    as_json: AsJson = False,
) -> None:
    """Run a server on this machine until Ctrl-C: Valkey, the database and both pools.

    Nothing needs to be installed or configured. Commands in another terminal find it by themselves. Every
    start is a new boot: runs counted toward an extraction start at zero, messages are kept. Ctrl-C drains:
    running jobs end first; a second one does not wait for them.

    Examples: `takeaways up`, `TAKEAWAYS_HOME=/srv/takeaways takeaways up --port 7000`
    """
    from takeaways.workers.local.server import LocalServer, announce, only_one

    settings = read_settings()
    stop = (signal.SIGINT, signal.SIGTERM)
    with only_one(settings.home) as file:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, stop)
        server = LocalServer(settings, port=port).start()
        try:
            announce(file, server.settings)
            _say_where(server.settings, as_json)
            why = _wait(server)
        finally:
            clean = _stop(server, before)
    if why is not None:
        typer.echo(f"takeaways: {why}, so the server was stopped", err=True)
        raise typer.Exit(Exit.FAILED)
    raise typer.Exit(Exit.DONE if clean else Exit.FAILED)


def _wait(server: LocalServer) -> str | None:
    """Until a signal comes; or returns what has died."""
    while signal.sigtimedwait((signal.SIGINT, signal.SIGTERM), 1.0) is None:
        if (why := server.died()) is not None:
            return why
    console(stderr=True).print("\nDraining: running jobs end first. Ctrl-C again does not wait.")
    return None


def _stop(server: LocalServer, before: set[int | signal.Signals]) -> bool:
    def hurry(*_signal: object) -> None:
        server.hurry()

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, hurry)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return server.stop()


def _say_where(settings: Settings, as_json: bool) -> None:
    from takeaways.workers.settings import address

    where = {
        "redis": address(settings.redis_url),
        "database": address(settings.database),
        "model": settings.model,
        "home": str(settings.home),
    }
    if as_json:
        print_json(where)
        return
    out = console()
    out.print("[bold]Takeaways is up.[/] Ctrl-C stops it.\n")
    for name, value in where.items():
        out.print(f"  {name:<9}", plain(value), sep="")
    out.print(
        "\nIn another terminal:\n"
        "  takeaways import PATH --as AGENT     learn from conversations in files\n"
        '  takeaways publish run AGENT ROOM -m "user: …" -m "assistant: …"\n'
        "  takeaways status                     what each agent waits for\n"
        "  takeaways memory show AGENT          what it knows\n"
        "\nOn several machines, in containers, on Kubernetes: docs/deployment.md\n"
    )
