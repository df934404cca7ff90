"""Serving metrics over HTTP: a pool's from its intake process, the standing from `takeaways metrics --serve`.

They have no password: the default address is this machine's own. Whoever binds wider keeps the port inside.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import structlog
from prometheus_client import REGISTRY, CollectorRegistry, start_http_server

from takeaways.schemas.queues import Kind
from takeaways.workers.metrics.folder import VARIABLE, Shared
from takeaways.workers.settings import Settings

log = structlog.get_logger(__name__)

AGAIN_SECONDS: Final = 15.0


def port_of(kind: Kind, settings: Settings) -> int:
    """Extraction on the port that is set, consolidation on the next; 0 is any free one for both."""
    return settings.metrics_port and settings.metrics_port + list(Kind).index(kind)


def pool_registry() -> CollectorRegistry:
    """What this process counts, together with those that share its folder."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return REGISTRY
    registry = CollectorRegistry()
    registry.register(Shared(Path(folder)))
    return registry


@contextlib.contextmanager
def served(registry: CollectorRegistry, host: str, port: int, *, said_by: str) -> Iterator[None]:
    """Serve while the block runs. A port that is in use is tried again: the one before may still drain.

    `said_by` is the option or the variable by which another port may be said.
    """
    stop = threading.Event()
    thread = threading.Thread(
        target=_serve, args=(registry, host, port, said_by, stop), name="metrics", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5.0)


def _serve(registry: CollectorRegistry, host: str, port: int, said_by: str, stop: threading.Event) -> None:
    told = False
    while not stop.is_set():
        try:
            server, _ = start_http_server(port, host, registry)
        except OSError as error:
            if not told:
                log.warning(
                    f"metrics are not served yet; {said_by} may name another port",
                    address=f"{host}:{port}",
                    error=error.strerror,
                )
            told = True
            stop.wait(AGAIN_SECONDS)
        else:
            log.info("metrics are served", url=f"http://{host}:{server.server_port}/metrics")
            stop.wait()
            server.shutdown()
            server.server_close()
