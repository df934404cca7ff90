"""Workers that are processes of their own, to be killed or frozen in the middle of the model's call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from takeaways.schemas.database import Database
from takeaways.schemas.queues import Kind
from takeaways.workers.schedule.policy import Policy

_ROOT = Path(__file__).parents[1]
_WORKER = textwrap.dedent(
    """
    import json, sys
    from takeaways.schemas.database import Database
    from takeaways.schemas.queues import Kind
    from takeaways.workers.jobs.run import run_job
    from takeaways.workers.leases import Heartbeat
    from takeaways.workers.schedule.policy import Policy
    from takeaways.workers.testing import ScriptedModel
    from tests.pipeline import Services

    class Slow(ScriptedModel):
        def extract(self, request, call):
            print("calling", flush=True)
            return super().extract(request, call)

        def consolidate(self, request, call):
            print("calling", flush=True)
            return super().consolidate(request, call)

    url, agent_id, kind, delay_seconds, policy, beat_seconds = sys.argv[1:]
    database, policy = Database.open(url), Policy(**json.loads(policy))
    heartbeat = Heartbeat(database, lease_seconds=float(beat_seconds))
    model = Slow(delay_seconds=float(delay_seconds))
    services = Services(database, policy, model, heartbeat, owner="victim")
    print(run_job(Kind(kind), agent_id, services).outcome, flush=True)
    """
)


@contextmanager
def victim(
    database: Database,
    agent_id: str,
    *,
    delay_seconds: float,
    kind: Kind = Kind.EXTRACTION,
    policy: Policy | None = None,
    beats: bool = True,
) -> Iterator[subprocess.Popen[str]]:
    """One job for an agent in a process of its own, which waits for its model by now. It dies with the block.

    One that is to be frozen renews no lease (`beats`): frozen in the middle of that it would hold its locks.
    """
    url = database.engine.url.render_as_string(hide_password=False)
    policy = policy or Policy(lease_seconds=1.5)
    wanted = json.dumps(asdict(policy))
    beat_seconds = policy.lease_seconds if beats else 600.0
    path = os.pathsep.join([str(_ROOT), *sys.path])
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            _WORKER,
            url,
            agent_id,
            kind.value,
            str(delay_seconds),
            wanted,
            str(beat_seconds),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    try:
        while "calling" not in process.stdout.readline():
            assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
