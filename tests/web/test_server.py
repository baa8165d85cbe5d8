"""`WebActors` in a real server: start, health, graceful stop, and the end of the process when the root supervisor gives up."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 40  # seconds to wait for what must come

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_time(reason="a real server"),
    pytest.mark.timeout(120),
]


class ServedShop:
    """uvicorn with the shop, in a process of its own."""

    def __init__(self, *options: str, **environment: str) -> None:
        # The server inherits a socket that listens already, so requests need not be repeated until it does.
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(100)
        self.port = listener.getsockname()[1]
        command = [sys.executable, "-m", "uvicorn", "tests.web.served_shop:app", "--log-level", "info"]
        self.process = subprocess.Popen(
            [*command, "--fd", str(listener.fileno()), *options],
            cwd=ROOT,
            env={**os.environ, **environment},
            pass_fds=[listener.fileno()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            # A group of its own, so that the test can kill the workers too.
            start_new_session=True,
        )
        listener.close()

    def ask(self, method: str, path: str) -> tuple[int, Any]:
        connection = self.connect()
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ended(self) -> tuple[int, str]:
        """Wait for the process to end. Return its exit code and what it has logged."""
        _, log = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, log

    def stopped(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def read_until(self, text: str, count: int) -> str:
        """Read the log until a text has appeared a number of times."""
        assert self.process.stderr is not None
        lines: list[str] = []
        while count:
            line = self.process.stderr.readline()
            assert line, f"the server has ended: {''.join(lines)}"
            lines.append(line)
            count -= text in line
        return "".join(lines)

    def give_up(self) -> None:
        """Crash the stock twice, which is more often than its supervisor allows."""
        assert self.ask("POST", "/crash")[0] == 200
        assert self.ask("POST", "/crash")[0] == 200


@contextmanager
def serve(*options: str, **environment: str) -> Generator[ServedShop]:
    shop = ServedShop(*options, **environment)
    try:
        yield shop
    finally:
        with suppress(ProcessLookupError):
            os.killpg(shop.process.pid, signal.SIGKILL)
        shop.process.communicate()


@pytest.fixture(params=["uvloop", "asyncio"])
def event_loop_option(request: pytest.FixtureRequest) -> tuple[str, str]:
    return ("--loop", request.param)


@pytest.mark.guarantee("G342")
def test_the_server_is_healthy_and_drains_at_its_end(event_loop_option: tuple[str, str]) -> None:
    with serve(*event_loop_option) as shop:
        assert shop.ask("GET", "/health") == (
            200,
            {"status": "ok", "actors": 2, "restarts": 0, "error": None},
        )
        assert shop.ask("POST", "/crash")[0] == 200
        assert shop.ask("GET", "/count")[1]["count"] == 0
        assert shop.ask("GET", "/health")[1]["restarts"] == 1
        assert shop.ask("POST", "/deliver/200")[0] == 200
        code, log = shop.stopped()
    assert code in {0, -signal.SIGTERM}, log
    assert "shop: stopped with 200" in log


@pytest.mark.guarantee("G343")
def test_the_process_ends_with_1_when_the_root_supervisor_gives_up(
    event_loop_option: tuple[str, str],
) -> None:
    with serve(*event_loop_option) as shop:
        shop.give_up()
        code, log = shop.ended()
    assert code == 1, log
    assert "the process ends with exit code 1" in log
    assert "RestartLimitError" in log
    # The server has stopped as on SIGTERM.
    assert "Waiting for application shutdown" in log


@pytest.mark.guarantee("G343")
def test_a_root_supervisor_that_shuts_down_ends_the_process_too() -> None:
    with serve() as shop:
        assert shop.ask("POST", "/close")[0] == 200
        code, log = shop.ended()
    assert code == 1, log
    assert "supervisor 'shop' has ended while the server runs" in log


@pytest.mark.guarantee("G343")
def test_an_open_response_does_not_hold_up_the_end_for_long() -> None:
    with serve(SHOP_STOP_TIMEOUT="0.5") as shop:
        connection = shop.connect()
        connection.request("GET", "/forever")
        assert connection.getresponse().readline() == b"first\n"
        shop.give_up()
        code, log = shop.ended()
        connection.close()
    assert code == 1, log


@pytest.mark.guarantee("G342")
def test_a_child_that_does_not_start_fails_the_start_of_the_server() -> None:
    with serve(SHOP_FAILS_TO_START="1") as shop:
        code, log = shop.ended()
    assert code == 3, log
    assert "no stock today" in log


@pytest.mark.once
@pytest.mark.guarantee("G343")
def test_uvicorn_replaces_a_worker_whose_root_supervisor_gave_up() -> None:
    with serve("--workers", "2") as shop:
        shop.read_until("Application startup complete", 2)
        # Of three requests, two go to the same worker. The third may meet it while it ends: then its answer is an error page,
        # or there is none.
        for _ in range(3):
            with suppress(OSError, http.client.HTTPException, json.JSONDecodeError):
                shop.ask("POST", "/crash")
        log = shop.read_until("Application startup complete", 1)
        assert "Child process" in log
        assert "the process ends with exit code 1" in log
