"""A node in a process of its own, seen from outside: its sockets, memory, descriptors, standard error and exit code."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from tests.bus.socket_clients import frame

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30.0
"""Seconds in which anything must be done, on the busiest machine."""

# What must not appear on the standard error of a node, whatever its clients do.
ESCAPED = re.compile(
    r"Exception in callback|never retrieved|never awaited|Fatal Python error|the node has failed|ResourceWarning|Unhandled exception"
)


class NodeProcess:
    """A node that `python -m MODULE FOLDER ...` serves, with a socket in that folder.

    Args:
        module: the module.
        folder: where its socket and its standard error are.
        *more: further arguments of the module.
        is_strict: whether Python runs in its development mode, which takes time and memory.

    Attributes:
        path: its Unix socket.
        port: its TCP port; 0 if it has none.
    """

    def __init__(self, module: str, folder: Path, *more: str, is_strict: bool = True) -> None:
        self.path = str(folder / "bus.sock")
        self._said = folder / "stderr.txt"
        options = ["-X", "dev", "-W", "ignore::DeprecationWarning"] if is_strict else []
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, *options, "-m", module, str(folder), *more],
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
        """Its standard error."""
        return self._said.read_text("utf-8", "replace")

    def resident(self) -> int:
        """Return the bytes of memory that it holds."""
        pages = Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """Return how many descriptors it has open."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def connect(self, *, by_tcp: bool = False) -> socket.socket:
        """Return a connection with a timeout."""
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
        """Ask a query on a connection of its own; return the data of the reply."""
        with self.connect() as connection:
            connection.sendall(frame(name, type_name))
            with connection.makefile("rb") as answers:
                answer: dict[str, Any] = json.loads(answers.readline())
        assert answer["kind"] == "reply", answer
        data: dict[str, Any] = answer["data"]
        return data

    def check_idle(self, descriptors: int) -> list[str]:
        """Wait until all clients have gone and as few descriptors are open as before; return what is wrong with its counters.

        Of the clients, the question itself is connected, and its request is in flight.
        """
        end = time.monotonic() + PATIENCE
        while True:
            stats = self.ask("Syscall.Stats")
            requests: dict[str, Any] = stats["requests"]
            wrong: list[str] = []
            if stats["clients"] != 1 or requests["inFlight"] != 1:
                wrong.append(f"all clients have gone, and the node says {stats}")
            if (count := self.descriptors()) > descriptors:
                wrong.append(f"{count} descriptors are open; there were {descriptors}")
            if not wrong or time.monotonic() > end:
                break
            time.sleep(0.02)
        ended = sum(requests[name] for name in ("answered", "abandoned", "withdrawn"))
        lost = requests["admitted"] - ended - sum(requests["failed"].values()) - requests["inFlight"]
        if lost:
            wrong.append(f"the counters do not account for {lost} requests: {requests}")
        return wrong

    def stop(self) -> int:
        """Stop it with SIGTERM; return its exit code."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return -1
        finally:
            self.kill()

    def kill(self) -> None:
        """End it if it has not ended."""
        self._process.kill()
        self._process.wait(PATIENCE)
        self._out.close()

    def complaints(self) -> list[str]:
        """Return the lines of its standard error that must not be there."""
        lines = self.said.splitlines()
        return [
            "\n".join(lines[number : number + 12])
            for number, line in enumerate(lines)
            if ESCAPED.search(line)
        ]
