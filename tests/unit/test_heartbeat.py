"""When a heartbeat that makes no progress is a reason to end its process."""

from __future__ import annotations

import pytest

from takeaways.workers.leases.heartbeat import silence_seconds


@pytest.mark.parametrize(("lease_seconds", "most_seconds"), [(60.0, 120.0), (10.0, 20.0), (2.0, 20.0)])
def test_a_slow_disk_is_no_reason_to_end_a_worker(lease_seconds: float, most_seconds: float) -> None:
    """On a busy machine a renewal takes seconds; a worker that ends over it makes the machine busier still."""
    assert silence_seconds(lease_seconds) == most_seconds
