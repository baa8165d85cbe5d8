"""The ticket office as an example: a real server, real requests, a bug in the middle, an end in good order."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SEATS = 40

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.real_time(reason="a real server"),
    pytest.mark.timeout(60),
]


class Server:
    """A server that listens, in a process of its own."""

    def __init__(self, **environment: str) -> None:
        # A socket of ours, which it inherits: nobody has to wait for it to listen.
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(200)
        self.port = listener.getsockname()[1]
        command = [sys.executable, "-m", "uvicorn", "examples.fastapi.app:app", "--log-level", "warning"]
        options = ["--fd", str(listener.fileno()), "--timeout-graceful-shutdown", "1"]
        self.process = subprocess.Popen(
            [*command, *options],
            cwd=ROOT,
            env={**os.environ, **environment},
            pass_fds=[listener.fileno()],
            stderr=subprocess.PIPE,
            text=True,
        )
        listener.close()

    def ask(self, method: str, path: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def end(self) -> str:
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=20)
        assert self.process.returncode in {0, -signal.SIGTERM}, errors
        return errors


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(SEATS=str(SEATS), HOLD_MS="60000")
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


def test_no_seat_is_sold_twice_though_the_office_stumbles(server: Server) -> None:
    with ThreadPoolExecutor(16) as threads:
        first = list(threads.map(server.ask, ["POST"] * (SEATS // 2), ["/tickets"] * (SEATS // 2)))
        assert server.ask("POST", "/stumble")[0] == 202
        rest = list(threads.map(server.ask, ["POST"] * SEATS, ["/tickets"] * SEATS))
    answers = Counter(status for status, _ in first + rest)
    assert answers == {201: SEATS, 409: SEATS // 2}
    seats = [body["seat"] for status, body in first + rest if status == 201]
    assert sorted(seats) == list(range(1, SEATS + 1))
    assert server.ask("GET", "/free") == (200, {"free": 0})
    assert "supervisor 'theatre' restarts child 'office'" in server.end()


def test_whoever_listens_hears_of_changes(server: Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", "/changes")
    answer = connection.getresponse()
    assert answer.readline() == b": listening\n"
    for _ in range(3):
        server.ask("POST", "/tickets")
    heard: list[Any] = []
    while len(heard) < 3:
        line = answer.readline()
        if line.startswith(b"data: "):
            heard.append(json.loads(line.removeprefix(b"data: ")))
    assert [(each["what"], each["ticket"]["seat"], each["free"]) for each in heard] == [
        ("held", seat, SEATS - seat) for seat in (1, 2, 3)
    ]
    connection.close()
    server.end()
