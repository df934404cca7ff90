"""Write the JSON Schema files anew: `python -m takeaways.schemas.wire`."""

from __future__ import annotations

from takeaways.schemas.wire import FOLDER, files

if __name__ == "__main__":
    for stale in FOLDER.glob("*.json"):
        stale.unlink()
    for name, content in files().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
        print(name)
