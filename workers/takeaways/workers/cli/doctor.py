"""`takeaways doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from takeaways.workers.cli.context import open_as_it_is, read_settings
from takeaways.workers.cli.output import AsJson, console, plain, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from takeaways.workers.doctor.finding import Finding


def doctor(as_json: AsJson = False) -> None:
    """Look at Redis, the database, the model, the pools and the oldest work, and say what to do.

    It changes nothing and takes a few seconds. Exit codes: 0 all is well, or there are only warnings; 4 a
    setting cannot work; 5 something does not answer; 1 something else is bad.

    Examples: `takeaways doctor`, `takeaways doctor --json`
    """
    from takeaways.workers import telemetry
    from takeaways.workers.doctor.examine import examine
    from takeaways.workers.doctor.finding import Health, exit_code

    settings = read_settings()
    telemetry.configure("text", "ERROR", process="doctor")
    out = console()
    findings = []
    for finding in examine(settings, open_as_it_is):
        findings.append(finding)
        if not as_json:
            _say(out, finding)
    code = exit_code(findings)
    if as_json:
        print_json({"code": int(code), "findings": [asdict(finding) for finding in findings]})
    else:
        wrong = sum(finding.health not in (Health.GOOD, Health.WARNING) for finding in findings)
        warned = sum(finding.health is Health.WARNING for finding in findings)
        out.print(
            "\nAll is well." if not wrong and not warned else f"\n{wrong} to mend, {warned} to think about."
        )
    raise typer.Exit(code)


def _say(out: Console, finding: Finding) -> None:
    marks = {"good": ("ok", "green"), "warning": ("warn", "yellow")}
    mark, style = marks.get(finding.health.value, ("BAD", "red"))
    line = plain(f"{mark:<5}{finding.part:<20} {finding.found}")
    line.stylize(style, 0, len(mark))
    out.print(line, soft_wrap=True)
    if finding.advice:
        out.print(plain(f"{'':<26}→ {finding.advice}"), soft_wrap=True)
