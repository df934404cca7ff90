"""`takeaways worker` and `takeaways intake`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated, Literal

import typer

from takeaways.schemas.queues import Kind
from takeaways.workers.cli.context import read_settings
from takeaways.workers.exits import Exit

Pool = Annotated[Kind, typer.Argument(help="Which kind of job.")]


def worker(
    pool: Pool,
    concurrency: Annotated[int | None, typer.Option(min=1, help="Jobs at once.")] = None,
    pool_kind: Annotated[
        Literal["threads", "prefork", "solo"] | None, typer.Option("--pool", help="Celery's pool.")
    ] = None,
    migrated: Annotated[bool, typer.Option("--migrated", hidden=True)] = False,
) -> None:
    """Run a pool: a Celery worker and, beside it, the intake of its stream.

    The extraction pool takes in runs, the consolidation pool compactions. Run both, on as many machines as
    you like. SIGTERM drains: running jobs end, nothing new starts.

    Examples: `takeaways worker extraction`, `takeaways worker consolidation --concurrency 50`
    """
    from takeaways.workers import telemetry
    from takeaways.workers.metrics.folder import shared_folder
    from takeaways.workers.pools.supervisor import children_of, supervise
    from takeaways.workers.pools.supported import why_not

    settings = read_settings(concurrency=concurrency, pool=pool_kind)
    if why := why_not(settings, pool=settings.pool, start_method=settings.pool_start_method):
        typer.echo(f"takeaways: {why}", err=True)
        raise typer.Exit(Exit.MISCONFIGURED)
    telemetry.configure(settings.log_format, settings.log_level, pool=pool.value, process="supervisor")
    if not migrated:
        from takeaways.workers.bootstrap import migrated_database

        migrated_database(settings).dispose()
    with shared_folder() as variables:
        code = supervise(
            children_of(pool, settings),
            environment={**settings.environment(), **variables},
            grace_seconds=settings.drain_seconds,
        )
    raise typer.Exit(code)


def intake(pool: Pool) -> None:
    """Take in one pool's stream, without a Celery worker. `takeaways worker` starts it by itself.

    Example: `takeaways intake extraction` beside `celery -A takeaways.workers.app worker -Q extraction`
    """
    from takeaways.workers import telemetry
    from takeaways.workers.bootstrap import build, queue_length
    from takeaways.workers.intake.process import IntakeProcess
    from takeaways.workers.metrics.intake import taken_in
    from takeaways.workers.metrics.serving import pool_registry, port_of, served

    settings = read_settings()
    telemetry.configure(settings.log_format, settings.log_level, pool=pool.value, process="intake")
    services = build(settings)
    process = IntakeProcess(
        database=services.database,
        redis_url=settings.redis_url,
        hints=services.hints,
        policy=services.policy,
        kinds=[pool],
        queue_length=queue_length(settings),
        observe=taken_in,
    )
    try:
        with ExitStack() as stack:
            if settings.metrics:
                port = port_of(pool, settings)
                stack.enter_context(
                    served(pool_registry(), settings.metrics_host, port, said_by="TAKEAWAYS_METRICS_PORT")
                )
            code = process.run()
        raise typer.Exit(code)
    finally:
        services.close()
