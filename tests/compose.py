"""docker-compose.yml as compose reads it, and its services as plain processes of this machine.

What compose would do with images, networks and volumes is translated: a command finds our programs instead of an
image's, a host's name becomes an address of this machine, and a mounted path the file or folder behind it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
import yaml

ROOT: Final = Path(__file__).parents[1]
FILE: Final = ROOT / "docker-compose.yml"
SECRETS: Final = ROOT / "deploy" / "secrets.sh"
IMAGE_PATHS: Final = {"/etc/takeaways/flowerconfig.py": ROOT / "deploy" / "flower" / "flowerconfig.py"}
"""What the image holds besides our packages, and the file of the project that it is a copy of."""
ENTRYPOINTS: Final = {"prom/prometheus": ("prometheus",)}
"""What an image runs by itself, with the command of the file as its arguments."""

_VARIABLE: Final = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:[-?])([^}]*))?\})")
_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0}
Document = Mapping[str, Any]


class MissingVariable(Exception):
    """Compose stops here, and says what the file says."""


def read(variables: Mapping[str, str]) -> Document:
    """The file with anchors merged and variables put in. Raises `MissingVariable` as compose would stop."""
    document: Document = _filled(yaml.safe_load(FILE.read_text("utf-8")), variables)
    return document


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(one, variables) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, variables) for one in value]
    if not isinstance(value, str):
        return value

    def fill(found: re.Match[str]) -> str:
        dollar, name, operator, rest = found.groups()
        if dollar:
            return "$"
        if given := variables.get(name):
            return given
        if operator == ":?":
            raise MissingVariable(f"{name}: {rest}")
        return rest or ""

    return _VARIABLE.sub(fill, value)


def variables_of(text: str) -> dict[str, str | None]:
    """Every variable that a compose file names, with its default; None where it must be given."""
    found = {}
    for _, name, operator, rest in _VARIABLE.findall(text):
        if name:
            found[name] = None if operator == ":?" else rest
    return found


def seconds(duration: str) -> float:
    """A duration as compose writes it: `5m30s`."""
    parts = re.findall(r"(\d+)([hms])", duration)
    assert "".join(number + unit for number, unit in parts) == duration, duration
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


def made_secrets(folder: Path) -> dict[str, str]:
    """What deploy/secrets.sh writes into an empty folder, as variables."""
    subprocess.run(["sh", str(SECRETS), str(folder)], check=True)
    lines = (folder / ".env").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


@dataclass
class Processes:
    """The services of the file as processes. `settings` stand for takeaways.env.

    `known` says what words of the file are on this machine: addresses, and programs that are not on the path.
    """

    folder: Path
    document: Document = field(repr=False)
    known: dict[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, service: str, *more: str, name: str = "", **environment: str) -> subprocess.Popen[bytes]:
        """Start a service under a name (its own, unless it is one more replica); `more` goes behind its command."""
        name = name or service
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*self.command(service), *more],
                env=self.environment(service, **environment),
                cwd=self._own(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self.running[name]

    def run(self, service: str, *argv: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`docker compose run SERVICE ARGV`: to its end. Without `argv` the service's own command."""
        return subprocess.run(
            self.command(service, *argv),
            env=self.environment(service, **environment),
            cwd=self._own(service),
            capture_output=True,
            text=True,
            timeout=60,
        )

    def healthy(self, service: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the service's own health check."""
        kind, *argv = self._service(service)["healthcheck"]["test"]
        assert kind == "CMD", f"{service} is checked by {kind}"
        return self.run(service, *argv, **environment)

    def stop(self, *names: str, timeout_seconds: float) -> dict[str, int]:
        """SIGTERM to all of them at once, and their exit codes."""
        stopping = {name: self.running.pop(name) for name in names}
        for process in stopping.values():
            process.terminate()
        return {name: process.wait(timeout_seconds) for name, process in stopping.items()}

    def kill(self) -> None:
        """End whatever still runs."""
        for process in self.running.values():
            family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            process.wait()
            for child in family:
                if child.is_running():
                    child.kill()
        self.running.clear()

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def command(self, service: str, *argv: str) -> list[str]:
        described = self._service(service)
        image = described["image"].partition(":")[0]
        entrypoint = described.get("entrypoint", ENTRYPOINTS.get(image, ()))
        words = [*entrypoint, *(argv or described["command"])]
        found = [self._translated(service, word) for word in words]
        program = Path(sys.executable).with_name(found[0])
        return [str(program) if program.exists() else found[0], *found[1:]]

    def environment(self, service: str, **more: str) -> dict[str, str]:
        """What the process gets: nothing of ours that this machine sets, and the service's settings last."""
        described = self._service(service)
        # Measuring coverage in a dozen more processes costs more than it tells: other tests run the same code.
        left_out = ("TAKEAWAYS_", "FLOWER_", "PROMETHEUS_", "ANTHROPIC_", "COVERAGE_")
        kept = {
            name: value for name, value in os.environ.items() if not name.lstrip("_").startswith(left_out)
        }
        own = {
            name: self._translated(service, value) for name, value in described.get("environment", {}).items()
        }
        settings = self.settings if "env_file" in described else {}
        home = {"TAKEAWAYS_HOME": str(self._own(service)), "TAKEAWAYS_LOG_FORMAT": "json"}
        return {**kept, "PYTHONPATH": str(ROOT), **home, **settings, **own, **more}

    def _service(self, name: str) -> dict[str, Any]:
        described: dict[str, Any] = self.document["services"][name]
        return described

    def _own(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _translated(self, service: str, text: str) -> str:
        paths = {inside: str(here) for inside, here in self._paths(service).items()}
        # In one pass, for what is put in may hold what is looked for. Of paths only whole ones.
        looked_for = rf"{_either(self.known)}|(?<![\w/]){_either(paths)}(?![\w-])"
        return re.sub(looked_for, lambda found: {**paths, **self.known}[found[0]], text)

    def _paths(self, service: str) -> dict[str, Path]:
        described = self._service(service)
        mounts = [volume.split(":") for volume in described.get("volumes", ())]
        paths = {
            inside: (ROOT / source if source.startswith(".") else self._own(f"{service}-{source}"))
            for source, inside, *_ in mounts
        }
        for inside in (mount.partition(":")[0] for mount in described["tmpfs"]):
            paths[inside] = self._own(f"{service}{inside.replace('/', '-')}")
        if described["image"].startswith("takeaways:"):
            paths |= IMAGE_PATHS
        return paths


def _either(words: Mapping[str, Any]) -> str:
    """An expression for any of these words, of which some may begin with others."""
    return f"(?:{'|'.join(re.escape(word) for word in sorted(words, key=len, reverse=True))})"
