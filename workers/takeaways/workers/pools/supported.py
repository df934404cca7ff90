"""Which Celery pools work with which database."""

from __future__ import annotations

from takeaways.workers.settings import Settings


def why_not(settings: Settings, *, pool: str, start_method: str) -> str | None:
    """Why a worker with this pool must not start, or None."""
    if settings.uses_sqlite and pool == "prefork" and start_method == "fork":
        return (
            "SQLite does not survive a fork: children would get 'database is locked'. Use --pool threads, "
            "or TAKEAWAYS_POOL_START_METHOD=spawn, or PostgreSQL"
        )
    return None
