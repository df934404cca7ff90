"""Flower for Takeaways: `celery -A takeaways.workers.app flower --conf=deploy/flower/flowerconfig.py`.

It shows pools and running tasks. What an agent waits for, and what became of its jobs, is in the database:
`takeaways status`. Flower's own variables (`FLOWER_PORT`, …) go before what is set here.

| variable | meaning |
| --- | --- |
| `FLOWER_BASIC_AUTH` | `user:password`, several with commas; it does not start without one |
| `FLOWER_BASIC_AUTH_FILE` | a file with the same, for secrets that are mounted |
| `FLOWER_ADDRESS`, `FLOWER_PORT` | where it listens: 127.0.0.1 and 5555 |
| `FLOWER_URL_PREFIX` | the path in front of its pages: flower |
| `FLOWER_DB` | the file that keeps the tasks over a restart: flower.db in the working folder |
| `FLOWER_READ_ONLY` | `false` lets pages and API stop workers and send tasks |
"""

import functools
import os
import re
import sys
from pathlib import Path

from flower.utils import strtobool
from flower.views.monitor import Metrics
from tornado.web import authenticated


def _set(name, default):
    return os.environ.get(f"FLOWER_{name}") or default


def _passwords():
    text = _set("BASIC_AUTH", "")
    if not text and (file := _set("BASIC_AUTH_FILE", "")):
        text = Path(file).read_text("utf-8")
    found = [one.strip() for one in text.replace("\n", ",").split(",") if one.strip()]
    if not found or not all(one.partition(":")[2] for one in found):
        sys.exit("flower: set FLOWER_BASIC_AUTH=user:password, or FLOWER_BASIC_AUTH_FILE")
    return found


address = _set("ADDRESS", "127.0.0.1")
port = int(_set("PORT", "5555"))
url_prefix = _set("URL_PREFIX", "flower").strip("/")
basic_auth = _passwords()
read_only = bool(strtobool(_set("READ_ONLY", "true")))

# Events are not stored anywhere else: what came while Flower was down it never shows.
persistent = True
db = _set("DB", "flower.db")
state_save_interval = 5_000
max_tasks = int(_set("MAX_TASKS", "10000"))
# A killed worker says no goodbye.
purge_offline_workers = 600

tasks_columns = "name,kwargs,state,result,received,runtime,worker,uuid"
# Seconds; a job lasts a slice of about a minute, and a call to the model more.
task_runtime_metric_buckets = [0.25, 1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0]


def format_task(task):
    """Show an ending in its words, without the quotes and names of Python around them."""
    shown = task.result or task.exception or ""
    raised = re.search(r"(?:SetAside|JobFailed|Waits)\((['\"])(.*)\1", shown)
    task.result = raised[2] if raised else shown.strip("'\"")
    return task


# Flower answers /metrics without a password. Prometheus can send one: `basic_auth` in its configuration.
if not getattr(Metrics.get, "is_private", False):
    Metrics.get = functools.wraps(Metrics.get)(authenticated(Metrics.get))
    Metrics.get.is_private = True
