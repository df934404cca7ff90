"""Alert rules and dashboard: they ask for metrics that exist, fire when they should, and lead to the runbook."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

from takeaways.schemas.database import Database
from takeaways.workers.metrics import intake, jobs
from takeaways.workers.metrics.collector import Standing
from takeaways.workers.settings import Settings

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "dashboard.json"
ALERTS = re.findall(r"- alert: (\w+)", RULES.read_text("utf-8"))
EXPRESSIONS = [found.replace("''", "'") for found in re.findall(r"expr: '(.+)'\n", RULES.read_text("utf-8"))]

# Series as promtool has them, an hour in steps of a minute: `a+bx60` begins at a and grows by b.
QUIET = {
    'takeaways_up{part="database"}': "1x120",
    'takeaways_agents_due{kind="extraction",reason="runs"}': "3x120",
    'takeaways_agents_due_oldest_seconds{kind="extraction"}': "4x120",
    'takeaways_agents_held{why="parked"}': "0x120",
    'takeaways_leases{kind="extraction",state="expired"}': "1x120",
    "takeaways_sweep_late_seconds": "1x120",
    'takeaways_dead_letters_open{reason="not_json"}': "0x120",
    'takeaways_quarantines_open{kind="extraction"}': "2x120",
    "takeaways_erasures_open": "0x120",
    'takeaways_stream_lag{stream="s"}': "5x120",
    'takeaways_stream_pending{stream="s"}': "5x120",
    'takeaways_stream_oldest_seconds{stream="s"}': "1x120",
    'takeaways_stream_length{stream="s"}': "10x120",
    'takeaways_stream_consumers{stream="s"}': "2x120",
    'takeaways_queue_length{queue="extraction"}': "40x120",
    'takeaways_redis_memory_bytes{what="used"}': "100x120",
    'takeaways_redis_memory_bytes{what="most"}': "0x120",
    'takeaways_jobs_total{kind="extraction",outcome="remembered"}': "0+60x120",
    'takeaways_jobs_total{kind="extraction",outcome="failed"}': "0+0x120",
    'takeaways_jobs_total{kind="extraction",outcome="fenced_off"}': "0+0x120",
    'takeaways_events_total{stream="s",outcome="dead_letter"}': "0+0x120",
    'takeaways_model_cost_dollars_total{kind="extraction",model="m"}': "0+0.05x120",
    'takeaways_consolidation_lines_ratio_bucket{le="0.5"}': "0+0x120",
    "takeaways_consolidation_lines_ratio_count": "0+2x120",
    'up{job="takeaways-extraction",instance="a"}': "1x120",
}
# What differs from the quiet hours where each alert should fire.
TROUBLE: dict[str, dict[str, str]] = {
    "TakeawaysMetricsMissing": {'takeaways_up{part="database"}': "_x120"},
    "TakeawaysPartAway": {'takeaways_up{part="database"}': "0x120"},
    "TakeawaysPoolNotScraped": {'up{job="takeaways-extraction",instance="a"}': "0x120"},
    "TakeawaysNobodyTakesIn": {'takeaways_stream_consumers{stream="s"}': "0x120"},
    "TakeawaysEventsOld": {'takeaways_stream_oldest_seconds{stream="s"}': "400x120"},
    "TakeawaysStreamLong": {'takeaways_stream_length{stream="s"}': "600000x120"},
    "TakeawaysRedisNearlyFull": {'takeaways_redis_memory_bytes{what="most"}': "110x120"},
    "TakeawaysEventsRefused": {'takeaways_events_total{stream="s",outcome="dead_letter"}': "0+5x120"},
    "TakeawaysDeadLettersOpen": {'takeaways_dead_letters_open{reason="not_json"}': "1x120"},
    "TakeawaysAgentsWait": {'takeaways_agents_due_oldest_seconds{kind="extraction"}': "1000x120"},
    "TakeawaysBacklogGrows": {'takeaways_agents_due{kind="extraction",reason="runs"}': "600+5x120"},
    "TakeawaysSweepLate": {"takeaways_sweep_late_seconds": "300x120"},
    "TakeawaysLeasesExpired": {'takeaways_leases{kind="extraction",state="expired"}': "9x120"},
    "TakeawaysJobsFencedOff": {'takeaways_jobs_total{kind="extraction",outcome="fenced_off"}': "0+1x120"},
    "TakeawaysJobsFail": {'takeaways_jobs_total{kind="extraction",outcome="failed"}': "0+30x120"},
    "TakeawaysSetAside": {'takeaways_jobs_set_aside_total{kind="extraction"}': "0+1x120"},
    "TakeawaysQuarantinesOpen": {'takeaways_quarantines_open{kind="extraction"}': "30x120"},
    "TakeawaysAgentsParked": {'takeaways_agents_held{why="parked"}': "2x120"},
    "TakeawaysModelErrors": {
        'takeaways_model_errors_total{kind="extraction",model="m",outcome="overloaded"}': "0+5x120"
    },
    "TakeawaysModelPaused": {'takeaways_model_paused_seconds{model="m"}': "900x120"},
    "TakeawaysCostSpike": {
        'takeaways_model_cost_dollars_total{kind="extraction",model="m"}': "0+0.01x60 0.6+1x60"
    },
    "TakeawaysMemoryShrinks": {'takeaways_consolidation_lines_ratio_bucket{le="0.5"}': "0+1x120"},
    "TakeawaysQueueLong": {'takeaways_queue_length{queue="extraction"}': "990x120"},
    "TakeawaysErasuresOpen": {"takeaways_erasures_open": "1x120"},
}


def metrics_that_exist(database: Database, redis_url: str) -> set[str]:
    registry = CollectorRegistry()
    collector = Standing(Settings.from_env(redis_url=redis_url, database_url=str(database.engine.url)))
    registry.register(collector)
    text = generate_latest(registry).decode() + generate_latest(REGISTRY).decode()
    collector.close()
    # Importing them has registered their families.
    assert jobs.ENDED is not intake.EVENTS
    names = set()
    for name, kind in re.findall(r"^# TYPE (takeaways_\w+) (\w+)$", text, re.MULTILINE):
        if name.endswith("_created"):  # when a counter began; not served by a pool
            continue
        names |= {f"{name}_{part}" for part in ("bucket", "count", "sum")} if kind == "histogram" else {name}
    return names


def test_rules_and_dashboard_ask_for_metrics_that_exist(sqlite_database: Database, redis_url: str) -> None:
    """An alert on a metric that was renamed never fires, and nobody notices."""
    dashboard: dict[str, Any] = json.loads(DASHBOARD.read_text("utf-8"))
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]

    asked = {name for text in (*EXPRESSIONS, *shown) for name in re.findall(r"takeaways_\w+", text)}

    assert len(shown) > 20
    assert len(EXPRESSIONS) == len(ALERTS)
    assert sorted(asked - metrics_that_exist(sqlite_database, redis_url)) == []


def test_every_metric_is_described(sqlite_database: Database, redis_url: str) -> None:
    """Whoever builds a panel finds what each family means and which labels it has."""
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    described = set(re.findall(r"^\| `(takeaways_\w+)`", page, re.MULTILINE))

    families = {
        re.sub(r"_(bucket|count|sum)$", "", name) for name in metrics_that_exist(sqlite_database, redis_url)
    }
    assert sorted(families - described) == []
    assert sorted(described - families) == []


def promtool(*arguments: str) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool: Debian's package `prometheus` has one")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_and_the_configuration_are_well_formed() -> None:
    """Prometheus starts with them."""
    promtool("check", "rules", str(RULES))
    promtool("check", "config", "--syntax-only", str(RULES.with_name("prometheus.yml")))


def test_each_alert_fires_in_its_trouble_and_none_without(tmp_path: Path) -> None:
    """A rule that never fires is worse than none, and one that always does is switched off."""
    assert sorted(TROUBLE) == sorted(ALERTS)
    cases: list[tuple[str, dict[str, str], str | None]] = [("quiet", QUIET, None)]
    cases += [(name, {**QUIET, **changes}, name) for name, changes in TROUBLE.items()]
    tests: list[dict[str, Any]] = []
    for case, series, fires in cases:
        tests.append(
            {
                "name": case,
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                # ALERTS is what Prometheus itself writes down: it needs none of the texts.
                "promql_expr_test": [
                    {
                        "expr": f'count by (alertname) (ALERTS{{alertstate="firing",alertname=~"{fires or ".+"}"}})',
                        "eval_time": "115m",
                        "exp_samples": [{"labels": f'{{alertname="{fires}"}}', "value": 1}] if fires else [],
                    }
                ],
            }
        )
    file = tmp_path / "alerts_test.json"
    file.write_text(
        json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}), "utf-8"
    )

    promtool("test", "rules", str(file))
