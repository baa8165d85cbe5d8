"""The example that closes in good order, as a real process with real signals and real guests."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 30

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.real_time(reason="a process, with signals and sockets"),
]


class Bar:
    """The program, running."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "examples/closing_time.py", *options],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self.port = int(self.until("open on port").rpartition(" ")[2])

    def until(self, word: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if word in line:
                return self.said[-1]
        raise AssertionError(f"it never said {word!r}: {self.said}, {self.process.communicate()}")

    def order(self, what: str) -> socket.socket:
        guest = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        guest.sendall(f"{what}\n".encode())
        self.until(f"order: {what}")
        return guest

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> tuple[int, str]:
        out, errors = self.process.communicate(timeout=PATIENCE)
        self.said += out.splitlines()
        return self.process.returncode, errors


@contextmanager
def bar(*options: str) -> Generator[Bar]:
    running = Bar(*options)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.communicate()


def answer(guest: socket.socket) -> str:
    with guest, guest.makefile("r") as lines:
        return lines.readline().strip()


@pytest.mark.guarantee("G262", "G265")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_guests_who_are_in_are_served_and_nobody_else_comes_in(number: signal.Signals) -> None:
    with bar("--cook-ms", "200") as running:
        guests = [running.order(what) for what in ("tea", "coffee", "cake")]
        running.signal(number)
        running.until("door: shut, 3 guests inside")
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", running.port), timeout=PATIENCE)
        assert [answer(guest) for guest in guests] == ["one tea", "one coffee", "one cake"]
        code, errors = running.end()
        assert code == 0, errors
        assert "till: 13 paid" in running.said, "what the cooks sent was handled before the till has ended"
        assert running.said.index("till: 13 paid") < running.said.index("lights out")
        assert f"shutdown ({number.name}): clean" in "\n".join(running.said)


@pytest.mark.guarantee("G263", "G264")
def test_a_cook_who_sleeps_is_killed_when_the_time_is_up() -> None:
    with bar("--deadline-ms", "800") as running:
        sleeper = running.order("sleep")
        began = monotonic()
        running.signal(signal.SIGTERM)
        assert answer(sleeper) == "sorry: TargetEndedError"
        code, errors = running.end()
        assert code == 1
        report = "\n".join(running.said)
        assert "not clean" in report
        assert "kill: complete" in report
        assert "bob" in report.partition("kill: complete")[2]
        assert "lights out" in report
        assert monotonic() - began < 800 / 1000 + PATIENCE / 2
        assert "had not ended in time" in errors


@pytest.mark.guarantee("G265")
def test_a_second_ctrl_c_waits_for_nobody() -> None:
    with bar("--deadline-ms", "3600000") as running:
        sleeper = running.order("sleep")
        running.signal(signal.SIGTERM)
        running.until("door: shut")
        running.signal(signal.SIGINT)
        assert answer(sleeper) == "sorry: TargetEndedError"
        assert running.end()[0] == 1
        assert "hurried" in "\n".join(running.said)
