"""`takeaways ready`: a health check by command, for containers."""

from __future__ import annotations

import socket

import typer

from takeaways.workers.cli.context import read_settings
from takeaways.workers.cli.output import AsJson, print_json, print_text
from takeaways.workers.cli.worker import Pool
from takeaways.workers.exits import Exit


def ready(pool: Pool, as_json: AsJson = False) -> None:
    """Say whether a pool works on this host, for health checks.

    It does when its Celery worker answers through the broker and its intake reads the stream. Exits 0 when it is
    ready, 1 when it is not, 5 when Redis does not answer.

    Example: `takeaways ready extraction`
    """
    from kombu.exceptions import OperationalError

    from takeaways.workers.bootstrap import connect
    from takeaways.workers.pools.readiness import missing
    from takeaways.workers.settings import address

    settings = read_settings()
    redis = connect(settings.redis_url, socket_timeout=5)
    try:
        found = missing(settings, redis, pool, host=socket.gethostname())
    except OperationalError:
        typer.echo(f"takeaways: the broker does not answer at {address(settings.broker)}", err=True)
        raise typer.Exit(Exit.UNAVAILABLE) from None
    finally:
        redis.close()
    if as_json:
        print_json({"pool": pool, "ready": not found, "missing": found})
    elif found:
        typer.echo(f"takeaways: {'; '.join(found)}", err=True)
    else:
        print_text(f"the {pool} pool is ready")
    if found:
        raise typer.Exit(Exit.FAILED)
