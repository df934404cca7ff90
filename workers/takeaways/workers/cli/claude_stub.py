"""`takeaways claude-stub`."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated, Final

import typer

from takeaways.workers.exits import Exit

if TYPE_CHECKING:
    from takeaways.workers.testing.claude import Request

_STOPS: Final = (signal.SIGINT, signal.SIGTERM)


def claude_stub(
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port on 127.0.0.1; 0: any free one.")] = 0,
    window: Annotated[int | None, typer.Option(min=1_000, help="Window of its models, in tokens.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="A model to serve; may be repeated.")] = None,
    faults: Annotated[
        str, typer.Option(help="What happens to the first requests, with commas between.")
    ] = "",
    latency: Annotated[float, typer.Option(min=0, help="Seconds before every answer.")] = 0.0,
) -> None:
    """Run a stand-in for Claude's API on this machine, to try things out without a key.

    It checks requests, counts tokens and its prompt cache, streams, and answers what Takeaways asks by the rules of
    the offline model. A fault that it does not know makes it list all that it does. Ends with Ctrl-C.

    Examples: `takeaways claude-stub --port 8123`, `takeaways claude-stub --faults overloaded,rate-limited,ok,reset`
    """
    from takeaways.workers.testing.claude import ClaudeServer, Scripted, Served, script

    names = [name.strip() for name in faults.split(",") if name.strip()]
    if unknown := [name for name in names if name not in script.FAULTS]:
        typer.echo(f"takeaways: --faults: {unknown[0]!r} is not one of {', '.join(script.FAULTS)}", err=True)
        raise typer.Exit(Exit.USAGE)
    try:
        server = ClaudeServer(
            port=port,
            window=window,
            models=[Served(name) for name in model] if model else None,
            script=[script.FAULTS[name]() for name in names],
            always=Scripted(delay_seconds=latency),
            heard=lambda request: typer.echo(_line(request)),
        )
    except OSError as error:
        typer.echo(f"takeaways: port {port} cannot be used: {error.strerror}; try another --port", err=True)
        raise typer.Exit(Exit.FAILED) from error
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)  # before the threads: they inherit it
    with server:
        exports = {**server.environment, "TAKEAWAYS_MODEL": next(iter(server.models))}
        typer.echo(f"A stand-in for Claude answers at {server.url}. In another terminal:\n")
        typer.echo("".join(f"  export {name}={value}\n" for name, value in exports.items()))
        signal.sigwait(_STOPS)


def _line(request: Request) -> str:
    spent = f"{request.input_tokens:,} in, {request.output_tokens:,} out" if request.input_tokens else ""
    left = "the client left" if request.client_left else ""
    known = [str(request.status or "-"), request.path, request.id, spent, request.stop_reason, left]
    return "  ".join(filter(None, known))
