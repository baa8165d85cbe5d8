"""What waits to be sent to all clients together is bounded: clients that ask and do not read cost the node no more than its budget."""

from __future__ import annotations

import json
from contextlib import ExitStack

import pytest

from bandstand.bus import NodeConfig
from bandstand.bus.admission import SendBudget
from tests.bus.socket_clients import MEBIBYTE, Guest, Hall, HallMaker, frame, neighbour_of, ping, resident

BUDGET = 16 * MEBIBYTE
VALUE = "x" * 900_000
# How many of these one client asks for: it alone is past the budget.
ASKED = 24


@pytest.fixture(params=["unix", "tcp"])
def hall(request: pytest.FixtureRequest, halls: HallMaker) -> Hall:
    hall = halls(request.param, config=NodeConfig(max_unsent_bytes=BUDGET))
    keep(hall, "large", VALUE)
    return hall


def keep(hall: Hall, key: str, value: str) -> None:
    guest = hall.guest()
    guest.exchange(frame(key, "Memory.Set", "command", key=key, value=value), key)
    guest.close()


def ask_for_much(guest: Guest, count: int) -> None:
    guest.send(b"".join(frame(f"q{number}", "Memory.Get", key="large") for number in range(count)))


@pytest.mark.guarantee("G297")
@pytest.mark.slow
@pytest.mark.real_time(reason="buffers of sockets are the subject")
class TestBudget:
    def test_many_that_do_not_read_stay_below_the_budget(self, hall: Hall) -> None:
        before = resident()
        most = 0
        with neighbour_of(hall) as neighbour, ExitStack() as stack:
            for _ in range(40):
                guest = hall.guest(buffer=65_536)
                stack.callback(guest.vanish)
                ask_for_much(guest, ASKED)
                most = max(most, hall.figures().unsent.bytes)
            neighbour.wait_rounds(3)
            unsent = hall.figures().unsent
            assert max(most, unsent.bytes, unsent.most) <= BUDGET == unsent.limit
            assert unsent.disconnected > 0
            # Without a budget it would be 40 x 24 x 900 KB, which is 860 MB.
            assert resident() - before < 300 * MEBIBYTE
        hall.until_alone()
        assert hall.figures().unsent.bytes == 0

    def test_one_that_reads_later_gets_all_its_answers(self, hall: Hall) -> None:
        slow = hall.guest(buffer=65_536)
        count = 12
        ask_for_much(slow, count)
        # The operating system takes some megabytes itself.
        while hall.figures().unsent.bytes < 3 * len(VALUE):
            pass
        heard = [json.loads(slow.text()) for _ in range(count)]
        assert [message["metadata"]["causation"] for message in heard] == [
            f"q{number}" for number in range(count)
        ]
        assert all(message["data"]["value"] == VALUE for message in heard)
        slow.exchange(ping("still"), "still")
        assert hall.figures().unsent.disconnected == 0

    def test_past_half_of_it_one_with_anything_unsent_is_not_read_from(self, hall: Hall) -> None:
        if hall.kind == "tcp":
            pytest.skip("how much the operating system takes itself changes with time")
        keep(hall, "small", "y" * 400_000)
        slow, other = hall.guest(buffer=4096), hall.guest(buffer=4096)
        ask_for_much(slow, 12)
        while hall.figures().unsent.bytes <= BUDGET // 2:
            pass
        # What the operating system does not take of it is less than `Limits.write_high`: with a budget that is not half used, it would
        # be read from.
        other.send(frame("ask", "Memory.Get", key="small"))
        gate = hall.node._ingress  # pyright: ignore[reportPrivateUsage]  # which connections are read from is not public
        while sum(not line.is_writable for line in hall.do(lambda: list(gate.clients))) < 2:
            pass
        other.text()
        other.exchange(ping("one"), "one")
        for _ in range(12):
            slow.text()
        slow.exchange(ping("still"), "still")
        assert hall.figures().unsent.disconnected == 0


class Connection:
    """Stands in for a connection."""

    def __init__(self, unsent: SendBudget, name: str) -> None:
        self._unsent = unsent
        self.name = name
        self.unsent_bytes = 0
        self.is_slowed = self.is_dropped = False

    def write(self, size: int) -> None:
        self.unsent_bytes += size
        self._unsent.note(self, self.unsent_bytes)

    def slow_down(self) -> None:
        self.is_slowed = True

    def drop(self) -> None:
        self.is_dropped = True
        self.unsent_bytes = 0


@pytest.mark.guarantee("G297")
class TestPolicy:
    def test_half_of_it_slows_and_all_of_it_drops_the_worst(self, caplog: pytest.LogCaptureFixture) -> None:
        unsent = SendBudget(100)
        three = first, second, third = [Connection(unsent, name) for name in "abc"]
        first.write(30)
        second.write(20)
        assert [each.is_slowed for each in three] == [False, False, False]
        third.write(10)
        assert [each.is_slowed for each in three] == [True, True, True]
        second.write(40)
        assert [each.is_dropped for each in three] == [False, False, False]
        assert (unsent.bytes, unsent.disconnected) == (100, 0)
        third.write(1)
        assert [each.is_dropped for each in three] == [False, True, False]
        assert (unsent.bytes, unsent.most, unsent.disconnected) == (41, 100, 1)
        assert "b: disconnected, 60 bytes are unsent" in caplog.text

    def test_what_was_sent_meanwhile_does_not_count(self) -> None:
        unsent = SendBudget(100)
        first, second = Connection(unsent, "a"), Connection(unsent, "b")
        first.write(90)
        first.unsent_bytes = 5
        second.write(90)
        assert not first.is_dropped
        assert not second.is_dropped
        assert unsent.bytes == 95

    def test_one_that_alone_has_too_much_is_dropped(self) -> None:
        unsent = SendBudget(100)
        first, second = Connection(unsent, "a"), Connection(unsent, "b")
        second.write(50)
        first.write(101)
        assert first.is_dropped
        assert not second.is_dropped
