"""A node in a process of its own, as seen from outside: its doors, its memory, its descriptors, what it says on standard error, and how it ends."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from tests.bus.crowd import frame

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0
"""Seconds within which it must have done whatever it does, on the busiest machine."""

# What nobody expects of a node, whatever its clients do.
ESCAPED = re.compile(
    r"Exception in callback|never retrieved|never awaited|Fatal Python error|the node has failed|ResourceWarning|Unhandled exception"
)


class NodeProcess:
    """A node that a module of the tests serves: it is run as `python -m MODULE FOLDER`, and listens in that folder.

    Args:
        module: which.
        folder: where it is to listen; what it says on standard error is there, too.
        is_strict: whether Python is to look more closely, which takes time and memory.

    Attributes:
        path: its Unix socket.
        port: its TCP port; 0 if it has none.
    """

    def __init__(self, module: str, folder: Path, *, is_strict: bool = True) -> None:
        self.path = str(folder / "bus.sock")
        self._said = folder / "stderr.txt"
        options = ["-X", "dev", "-W", "ignore::DeprecationWarning"] if is_strict else []
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, *options, "-m", module, str(folder)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
            )
        assert self._process.stdout is not None
        self._out: IO[bytes] = self._process.stdout
        boot = self._read_boot()
        adapters: list[str] = boot["data"]["adapters"]
        ports = [name.rpartition(":")[2] for name in adapters if name.startswith("tcp:")]
        self.port = int(ports[0]) if ports else 0

    def _read_boot(self) -> dict[str, Any]:
        line = self._out.readline() if select.select([self._out], [], [], PATIENCE)[0] else b""
        boot: dict[str, Any] = json.loads(line or b'{"kind":"error"}')
        if boot["kind"] == "error":
            self.kill()
            raise AssertionError(f"the node did not start: {line!r}\n{self.said}")
        return boot

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def said(self) -> str:
        """All it has said on standard error."""
        return self._said.read_text("utf-8", "replace")

    def resident(self) -> int:
        """The bytes of memory that it holds now."""
        pages = Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """How many it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def connect(self, *, by_tcp: bool = False) -> socket.socket:
        """A connection, on which everything has its time."""
        if by_tcp:
            return socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(PATIENCE)
            connection.connect(self.path)
        except OSError:
            connection.close()
            raise
        return connection

    def ask(self, type_name: str, name: str = "ask") -> dict[str, Any]:
        """The data of the reply to a query, asked by a client that comes for it alone."""
        with self.connect() as connection:
            connection.sendall(frame(name, type_name))
            with connection.makefile("rb") as answers:
                answer: dict[str, Any] = json.loads(answers.readline())
        assert answer["kind"] == "reply", answer
        data: dict[str, Any] = answer["data"]
        return data

    def stop(self) -> int:
        """Have it stop in good order; its exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return -1
        finally:
            self.kill()

    def kill(self) -> None:
        """End it, if it has not ended."""
        self._process.kill()
        self._process.wait(PATIENCE)
        self._out.close()

    def complaints(self) -> list[str]:
        """The lines of standard error that nobody expects, whatever its clients do."""
        lines = self.said.splitlines()
        return [
            "\n".join(lines[number : number + 12])
            for number, line in enumerate(lines)
            if ESCAPED.search(line)
        ]


def balance_of(requests: dict[str, Any]) -> int:
    """How many requests the books of a node do not account for."""
    failed: dict[str, int] = requests["failed"]
    ended: int = requests["answered"] + sum(failed.values()) + requests["abandoned"] + requests["withdrawn"]
    admitted: int = requests["admitted"]
    return admitted - ended - int(requests["inFlight"])
