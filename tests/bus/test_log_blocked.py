"""A node whose output nobody reads goes on: it serves its clients, stops when it is told to, and says what was dropped."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

pytestmark = [
    pytest.mark.guarantee("G284"),
    pytest.mark.real_time(reason="a real node, with real pipes"),
    pytest.mark.slow,
]

PATIENCE = 60
CRASHES = 400

MODULE = """
import sys
from bandstand.bus import Capability, Command, Query, RestartLimits

class Crash(Command[None], type="Frail.Crash"):
    'Crash.'
    text: str = ""

class Shout(Command[None], type="Frail.Shout"):
    'Print much.'
    size: int

class Frail(Capability):
    'Crashes.'

    restarts = RestartLimits(max_restarts=100_000, period=60, backoff=None)

    def crash(self, msg: Crash) -> None:
        raise ValueError(msg.text * 100)

    def shout(self, msg: Shout) -> None:
        for _ in range(msg.size):
            print("x" * 999)
            print("y" * 999, file=sys.stderr)
"""


class Line:
    """A client of the simplest kind."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(PATIENCE)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rwb")
        self._count = 0

    def ask(self, kind: str, type_name: str, **data: Any) -> Any:
        self._count += 1
        metadata = {"id": f"{id(self)}-{self._count}", "timestamp": 0}
        self._file.write(
            json.dumps({"kind": kind, "type": type_name, "data": data, "metadata": metadata}).encode() + b"\n"
        )
        self._file.flush()
        return json.loads(self._file.readline())

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def served(folder: Path, *options: str) -> Generator[tuple[subprocess.Popen[bytes], Path]]:
    """A node, and where it listens; nothing reads what it says after it has started."""
    (folder / "frail.py").write_text(MODULE)
    path = folder / "bus.sock"
    with subprocess.Popen(
        [sys.executable, "-m", "bandstand", "serve", "frail", "--unix", str(path), *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}:{os.environ.get('PYTHONPATH', '')}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as node:
        try:
            assert node.stdout is not None
            assert json.loads(node.stdout.readline())["type"] == "Sys.BootComplete"
            yield node, path
        finally:
            node.kill()


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["for people", "json"])
def test_crashes_and_prints_do_not_stop_it(tmp_path: Path, options: tuple[str, ...]) -> None:
    with served(tmp_path, *options) as (node, path):
        with Line(path) as one, Line(path) as other:
            for number in range(CRASHES):
                answer = one.ask("command", "Frail.Crash", text=str(number))
                assert answer["type"] == "Sys.ActorCrash"
            assert other.ask("query", "Syscall.Ping")["kind"] == "reply"
            # More than waits for a reader.
            assert one.ask("command", "Frail.Shout", size=1_000)["kind"] == "reply"
            assert other.ask("query", "Syscall.Ping")["kind"] == "reply"
        node.send_signal(signal.SIGTERM)
        assert node.wait(PATIENCE) == 0


def test_what_was_dropped_is_said_as_soon_as_somebody_reads(tmp_path: Path) -> None:
    with served(tmp_path, "--json") as (node, path), Line(path) as line:
        assert node.stderr is not None
        line.ask("command", "Frail.Shout", size=1_000)
        dropped = shown = 0
        while shown + dropped < 2_000:
            said = node.stderr.readline().decode()
            if found := re.match(r"bandstand: (\d+) lines of output were dropped here", said):
                dropped += int(found[1])
            else:
                assert len(said) == 1000
                shown += 1
        assert dropped > 0
        line.ask("command", "Frail.Shout", size=1)
        assert node.stderr.readline() == b"x" * 999 + b"\n"
        node.terminate()
        assert node.wait(PATIENCE) == 0
