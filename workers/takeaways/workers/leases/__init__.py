"""One job per agent at a time: a lease in the agent's row, with its epoch as the fence.

`claim` takes it, `Heartbeat` renews it, `fence` checks it in every transaction of the job, `release`
gives it back. Claim, heartbeat and release lock the row first and update it then: an update that waited
for a lock would otherwise write an instant that has already passed.
"""

from __future__ import annotations

from takeaways.workers.leases.claim import Claimed, NotClaimed, claim
from takeaways.workers.leases.fence import fenced
from takeaways.workers.leases.heartbeat import Heartbeat
from takeaways.workers.leases.hold_off import hold_off
from takeaways.workers.leases.lease import Lease, Pass
from takeaways.workers.leases.release import release

__all__ = ["Claimed", "Heartbeat", "Lease", "NotClaimed", "Pass", "claim", "fenced", "hold_off", "release"]
