"""`takeaways metrics`."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

import typer

from takeaways.workers.cli.context import open_as_it_is, read_settings
from takeaways.workers.cli.output import print_text

PORT = 9600


def metrics(
    serve: Annotated[bool, typer.Option("--serve", help="Stay, and answer Prometheus over HTTP.")] = False,
    host: Annotated[
        str | None, typer.Option(help="Where to listen; TAKEAWAYS_METRICS_HOST unless given.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Where to listen; 0: any free port.")] = PORT,
) -> None:
    """Print how the database, the streams and the queues stand, in Prometheus's format.

    Run it once for a whole deployment with `--serve`. What the processes of a pool did is served by the pool
    itself, on TAKEAWAYS_METRICS_PORT.

    Examples: `takeaways metrics`, `takeaways metrics --serve --port 9600`
    """
    from prometheus_client import CollectorRegistry, generate_latest

    from takeaways.workers import telemetry
    from takeaways.workers.metrics.collector import Standing
    from takeaways.workers.metrics.serving import served

    settings = read_settings()
    telemetry.configure(settings.log_format, settings.log_level, process="metrics")
    open_as_it_is(settings).dispose()
    collector = Standing(settings)
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        if not serve:
            print_text(generate_latest(registry).decode())
            return
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: stop.set())
        with served(registry, host or settings.metrics_host, port, said_by="--port"):
            stop.wait()
    finally:
        collector.close()
