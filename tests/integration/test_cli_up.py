"""A server on one machine, and importing with and without one. Real processes, each in a home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.waiting import wait_until

TIMEOUT_SECONDS = 120.0
pytestmark = pytest.mark.timeout(300)  # a whole server starts, on a machine that may be busy
TOLD = [
    {"role": "user", "content": "From now on, quotes over $40k always need sign-off from the finance lead."},
    {"role": "assistant", "content": "Understood. I will ask the finance lead before such a quote goes out."},
]

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Nothing of the machine's settings, and a home that is gone after the test."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TAKEAWAYS_")}
    return {**clean, "TAKEAWAYS_HOME": str(tmp_path / "home")}


@pytest.fixture
def command(environment: dict[str, str]) -> Command:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "takeaways.workers.cli", *arguments]
        return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)

    return run


@pytest.fixture
def up(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    server = subprocess.Popen(
        [sys.executable, "-m", "takeaways.workers.cli", "up", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield server
    if server.poll() is None:
        server.kill()
        server.wait()
    if server.stdout is not None:
        server.stdout.close()


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    file = tmp_path / "quotes.json"
    file.write_text(json.dumps(TOLD), "utf-8")
    return file


def announced(server: subprocess.Popen[str]) -> dict[str, Any]:
    """What `up --json` prints when it is up."""
    assert server.stdout is not None
    lines = []
    for line in server.stdout:
        lines.append(line)
        if line == "}\n":
            break
    where: dict[str, Any] = json.loads("".join(lines))
    return where


def test_import_needs_no_server_and_may_be_repeated(command: Command, conversation: Path) -> None:
    """One command turns a file into a memory; doing it again changes nothing."""
    first = command("import", str(conversation), "--as", "scout", "--json")
    shown = command("memory", "show", "scout")
    again = command("import", str(conversation), "--as", "scout", "--json")

    assert first.returncode == 0, first.stderr
    told = json.loads(first.stdout)
    assert (told["messages"], told["records_lost"], told["dead_letters"]) == (2, 0, 0)
    assert told["learned"]["messages_read"] == 2
    assert "$40k" in shown.stdout
    assert json.loads(again.stdout)["learned"]["messages_read"] == 0
    assert command("memory", "show", "scout").stdout == shown.stdout


def test_bad_records_are_named_and_do_not_stop_the_rest(command: Command, tmp_path: Path) -> None:
    """A torn file costs the torn record, and the person is told where it is."""
    lines = [json.dumps(TOLD[0]), '{"role": "user", "content": "torn', json.dumps(TOLD[1])]
    (tmp_path / "quotes.jsonl").write_text("\n".join(lines), "utf-8")

    ran = command("import", str(tmp_path / "quotes.jsonl"), "--as", "scout")

    assert "2 messages imported" in ran.stdout
    assert "quotes.jsonl:2" in ran.stderr
    assert "torn" not in ran.stderr


def test_a_server_serves_the_commands_of_another_terminal(
    up: subprocess.Popen[str], command: Command, conversation: Path
) -> None:
    """`up` here, `import` there, nothing configured; Ctrl-C ends it cleanly and leaves no process."""
    where = announced(up)
    family = psutil.Process(up.pid).children(recursive=True)

    imported = command("import", str(conversation), "--as", "scout", "--json")
    status = json.loads(command("status", "--json").stdout)
    second = command("up")
    up.send_signal(signal.SIGINT)

    assert imported.returncode == 0, imported.stderr
    assert json.loads(imported.stdout)["messages"] == 2
    assert status["redis"] == where["redis"]
    assert status["agents"][0]["revision"] == 1
    assert second.returncode == 4, "two servers with one home would fight over it"
    assert up.wait(TIMEOUT_SECONDS) == 0
    wait_until(lambda: not any(process.is_running() for process in family))


def test_a_killed_server_leaves_no_process_behind(up: subprocess.Popen[str], command: Command) -> None:
    """kill -9 on `up` takes Valkey, pools and intakes with it, and the next `up` finds nothing in its way."""
    announced(up)
    wait_until(lambda: len(psutil.Process(up.pid).children(recursive=True)) >= 7, timeout_seconds=60)
    family = psutil.Process(up.pid).children(recursive=True)

    up.kill()

    _, alive = psutil.wait_procs(family, timeout=TIMEOUT_SECONDS)
    assert alive == []
    status = json.loads(command("status", "--json").stdout)
    assert status["redis"] == "redis://127.0.0.1:6379/0", "nobody is found who is gone"
