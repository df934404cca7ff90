"""Metrics for Prometheus: what a pool's processes did (`intake`, `jobs`), and how everything stands (`standing`).

Counters belong to a pool and are served by its intake process; `takeaways metrics` tells how the database and
Redis stand, which is the same from wherever one looks. No label holds an agent, a room or a person, and a
label's values are few. `docs/metrics.md` describes every family.
"""
