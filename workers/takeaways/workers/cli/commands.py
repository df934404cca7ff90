"""The tree of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from takeaways.workers.cli import (
    claude_stub,
    config,
    costs,
    dead_letters,
    demo,
    doctor,
    erase,
    import_,
    jobs,
    memory_edits,
    metrics,
    migrate,
    notes,
    publish,
    ready,
    recall,
    scan,
    status,
    sync,
    up,
    work,
    worker,
)
from takeaways.workers.cli.help import help_of

_HELP = """What an agent learns in one conversation, it knows in the next.

Try [cyan]takeaways demo[/]. Then [cyan]takeaways up[/] starts a server that stays, and in a second terminal \
[cyan]takeaways import PATH --as AGENT[/] gives it conversations to learn from.

Exit codes: 0 done, 1 failed, 2 not understood, 3 nothing found, 4 misconfigured, 5 no server answers."""

application = typer.Typer(
    name="takeaways",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help=_HELP,
)

START = "Start here"
DATA = "Bring in and read"
WORK = "Work"
CARE = "Look and care"


def _add(panel: str, name: str, command: Callable[..., Any]) -> None:
    application.command(name, help=help_of(command), rich_help_panel=panel)(command)


_add(START, "demo", demo.demo)
_add(START, "up", up.up)
_add(DATA, "import", import_.import_)
application.add_typer(publish.group, name="publish", rich_help_panel=DATA)
application.add_typer(memory_edits.group, name="memory", rich_help_panel=DATA)
_add(DATA, "recall", recall.recall)
_add(DATA, "sync", sync.sync)
application.add_typer(sync.group, name="workspace", rich_help_panel=DATA)
application.add_typer(notes.group, name="notes", rich_help_panel=DATA)
_add(WORK, "worker", worker.worker)
_add(WORK, "intake", worker.intake)
_add(WORK, "extract", work.extract)
_add(WORK, "consolidate", work.consolidate)
_add(WORK, "flush", work.flush)
_add(WORK, "retry", work.retry)
_add(CARE, "status", status.status)
_add(CARE, "jobs", jobs.jobs)
_add(CARE, "costs", costs.costs)
application.add_typer(dead_letters.group, name="dead-letters", rich_help_panel=CARE)
application.add_typer(erase.group, name="erase", rich_help_panel=CARE)
_add(CARE, "doctor", doctor.doctor)
_add(CARE, "ready", ready.ready)
_add(CARE, "metrics", metrics.metrics)
application.add_typer(config.group, name="config", rich_help_panel=CARE)
_add(CARE, "scan", scan.scan)
_add(CARE, "migrate", migrate.migrate)
_add(CARE, "claude-stub", claude_stub.claude_stub)
