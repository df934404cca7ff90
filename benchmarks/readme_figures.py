"""Put the figures of the last `make quality` into the README, between its two markers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
BEGIN: Final = "<!-- figures of `make quality`, written by `make readme-figures` -->"
END: Final = "<!-- end of figures -->"


def table(rows: list[dict[str, Any]]) -> str:
    """The figures as a Markdown table, ours first, each memory on one line with all its sizes."""
    sizes = sorted({row["size_tokens"] for row in rows})
    names = list(dict.fromkeys(row["name"] for row in rows))
    found = {(row["name"], row["size_tokens"]): row for row in rows}
    lines = [
        f"| memory | {' | '.join(f'{size:,} tokens' for size in sizes)} |",
        "| --- |" + " --- |" * len(sizes),
    ]
    for name in names:
        cells = [f"{found[name, size]['supported']:.3f}" if (name, size) in found else "" for size in sizes]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Rewrite the README. Exits 1 with the next step where `make quality` has not run."""
    figures, readme = ROOT / "build" / "quality.json", ROOT / "README.md"
    if not figures.exists():
        print(f"{figures.relative_to(ROOT)} is not there; run `make quality` first", file=sys.stderr)
        return 1
    text = readme.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    readme.write_text(
        f"{before}{BEGIN}\n\n{table(json.loads(figures.read_text('utf-8'))['rows'])}\n\n{END}{after}", "utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
