"""What `decide` looks at: one agent's row as a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from takeaways.schemas.queues import Kind


@dataclass(frozen=True, slots=True)
class Moment:
    """When it looks: the database's clock, the boot that counts ("" before any), and the clock that leases run by,
    in milliseconds, with the boot of the machine that it counts from."""

    now_ms: int
    boot_id: str
    lease_clock: tuple[int, str]


@dataclass(frozen=True, slots=True)
class AgentState:
    """Counts of what waits, and the timers. `lease_remaining_ms` is 0 when nobody holds the lease."""

    runs_waiting: int = 0
    unread: int = 0
    extractions_asked: int = 0
    compactions_waiting: int = 0
    candidates_waiting: int = 0
    consolidations_asked: int = 0
    last_success_ms: int | None = None
    idle_served_ms: int | None = None
    extraction_underway: bool = False
    consolidation_underway: bool = False
    consolidation_waited: bool = False
    lease_remaining_ms: int = 0
    lease_kind: Kind | None = None
    not_before_ms: int | None = None
    parked_because: str | None = None
    spent_day: int | None = None
    spent_tokens: int = 0
    extraction_retry_ms: int | None = None
    consolidation_retry_ms: int | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any], at: Moment) -> AgentState:
        """Read a row of `agents`. Runs counted under another boot than the one at that moment no longer count."""
        clock_ms, clock_boot = at.lease_clock
        held = row["owner"] is not None and row["lease_boot"] == clock_boot
        same_boot = row["boot_id"] == at.boot_id
        return cls(
            runs_waiting=row["runs_total"] - row["runs_served"] if same_boot else 0,
            unread=row["messages_total"] - row["messages_read"],
            extractions_asked=row["extractions_asked"] - row["extractions_asked_served"],
            compactions_waiting=row["compactions_total"] - row["compactions_served"],
            candidates_waiting=row["candidates_total"] - row["candidates_settled"],
            consolidations_asked=row["consolidations_asked"] - row["consolidations_asked_served"],
            last_success_ms=row["last_success_ms"],
            idle_served_ms=row["idle_served_ms"],
            extraction_underway=row["extraction_pass"] is not None,
            consolidation_underway=row["consolidation_pass"] is not None,
            consolidation_waited=row["consolidation_waited"],
            lease_remaining_ms=max(row["lease_until_ms"] - clock_ms, 0) if held else 0,
            lease_kind=Kind(row["owner_kind"]) if row["owner_kind"] else None,
            not_before_ms=row["not_before_ms"],
            parked_because=row["parked_because"],
            spent_day=row["spent_day"],
            spent_tokens=row["spent_tokens"],
            extraction_retry_ms=row["extraction_retry_ms"],
            consolidation_retry_ms=row["consolidation_retry_ms"],
        )
