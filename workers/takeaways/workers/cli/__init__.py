"""The command line. `main` is what `takeaways` runs; each group of commands is a module.

Commands import what they need when they run, so that `takeaways --help` is quick.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code. An expected failure is one line on stderr."""
    from takeaways.workers.cli.commands import application
    from takeaways.workers.cli.failures import explain

    try:
        application(arguments, prog_name="takeaways")
    except Exception as error:
        explained = explain(error)
        if explained is None:
            raise
        code, line = explained
        print(f"takeaways: {line}", file=sys.stderr)
        sys.exit(code)
