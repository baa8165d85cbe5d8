"""Clients that leave before their answer, over real sockets: the answer is abandoned, kept as a dead letter, and counted as such."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from tests.bus.socket_clients import Hall, HallMaker, frame, ping

pytestmark = [
    pytest.mark.guarantee("G298"),
    pytest.mark.slow,
    pytest.mark.real_time(reason="what the operating system says of a client that is gone is the subject"),
]

# A client in a process of its own: it asks, says that it has, and waits.
ASKING = """
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendall(sys.argv[2].encode())
print("asked", flush=True)
{then}
"""


@pytest.fixture
def hall(halls: HallMaker) -> Hall:
    return halls("unix")


def sleep(name: str) -> bytes:
    return frame(name, "Sleeper.Sleep", name=name)


def letters(hall: Hall) -> list[tuple[str, str]]:
    guest = hall.guest()
    page: dict[str, Any] = guest.exchange(frame("letters", "Dead.List"), "letters")[-1]["data"]
    guest.close()
    return [(letter["id"], letter["reason"]) for letter in page["letters"]]


def until_asked(hall: Hall, count: int) -> None:
    while hall.books().in_flight < count:
        pass


def check_abandoned(hall: Hall, *names: str) -> None:
    hall.wake()
    # The books balance: what is abandoned is not answered, too.
    assert hall.until_quiet().abandoned == len(names)
    assert sorted(letters(hall)) == sorted((name, "abandoned") for name in names)


class TestThoseWhoLeave:
    def test_by_closing(self, hall: Hall) -> None:
        guest = hall.guest()
        guest.send(sleep("a") + sleep("b"))
        until_asked(hall, 2)
        guest.close()
        check_abandoned(hall, "a", "b")

    def test_by_closing_at_once(self, hall: Hall) -> None:
        guest = hall.guest()
        guest.send(b"".join(sleep(f"q{number}") for number in range(100)))
        guest.close()
        # All that it has asked for is done, though no more than a few are taken in at a time.
        hall.wake()
        hall.until_alone()
        assert hall.until_quiet().abandoned == 100

    def test_by_being_killed(self, hall: Hall) -> None:
        path = str(hall.directory / "bus.sock")
        asking = ASKING.format(then="connection.recv(1)")
        with subprocess.Popen(
            [sys.executable, "-c", asking, path, sleep("a").decode()], stdout=subprocess.PIPE
        ) as client:
            assert client.stdout is not None
            assert client.stdout.readline() == b"asked\n"
            until_asked(hall, 1)
            client.send_signal(signal.SIGKILL)
        check_abandoned(hall, "a")

    @pytest.mark.parametrize("has_unread", [False, True], ids=["reset", "closed with an answer unread"])
    def test_over_tcp_by_a_reset(self, halls: HallMaker, has_unread: bool) -> None:
        hall = halls("tcp")
        guest = hall.guest()
        guest.send((ping("first") if has_unread else b"") + sleep("a"))
        until_asked(hall, 1)
        if has_unread:
            assert guest.connection is not None
            # Closing it now is a reset.
            while not guest.connection.recv(1, socket.MSG_PEEK):
                pass
            guest.close()
        else:
            guest.vanish()
        hall.until_alone()
        check_abandoned(hall, "a")


class TestThoseWhoStay:
    def test_one_that_comes_back_gets_its_answer(self, hall: Hall) -> None:
        guest = hall.guest()
        guest.send(sleep("a"))
        until_asked(hall, 1)
        guest.close()
        check_abandoned(hall, "a")
        again = hall.guest()
        assert again.exchange(sleep("a"), "a")[-1]["data"] == {"name": "a"}
        again.exchange(ping("p"), "p")
        assert letters(hall) == []
