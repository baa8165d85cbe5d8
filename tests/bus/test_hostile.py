"""Clients that mean no good, or do not know what they do: over real sockets, with a neighbour beside them who gets every answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.bus.socket_clients import (
    MEBIBYTE,
    Guest,
    Hall,
    HallMaker,
    frame,
    neighbour_of,
    ping,
    resident,
)

pytestmark = [
    pytest.mark.spec("C17"),
    pytest.mark.guarantee("G85"),
    pytest.mark.slow,
    pytest.mark.real_time(reason="a node that stops looks every few milliseconds whether all is done"),
]

BOUND = 50 * MEBIBYTE
"""What hostility may cost in memory, whatever is sent: the longest line, some buffers, and the allocator's raggedness."""
IS_THOROUGH = os.environ.get("BANDSTAND_TEST_PROFILE") == "thorough"
KINDS = ("unix", "tcp")


@pytest.fixture(params=KINDS)
def hall(request: pytest.FixtureRequest, halls: HallMaker) -> Iterator[Hall]:
    yield from checked(halls(request.param, connections=4096))


def checked(hall: Hall) -> Iterator[Hall]:
    """Whatever is done: nobody fails."""
    yield hall
    hall.wake()
    assert hall.until_quiet().crashes == 0


def types_of(heard: list[dict[str, Any]]) -> list[str]:
    return [message["type"] for message in heard]


# --- what is no message -----------------------------------------------------------------------------------------------------


class TestWhatIsNoMessage:
    def test_a_line_of_100_megabytes_costs_no_memory(self, hall: Hall) -> None:
        guest, chunk = hall.guest(), b"x" * MEBIBYTE
        with neighbour_of(hall) as neighbour:
            before = resident()
            most = 0
            for count in range(100):
                guest.send(chunk)
                most = max(most, resident())
                if count % 25 == 0:
                    neighbour.wait_rounds(1)
            heard = guest.exchange(b"\n" + ping("last"), "last")
        assert types_of(heard) == ["Sys.SchemaError", "Syscall.Ping"]
        assert "longer than the limit" in heard[0]["data"]["message"]
        assert most - before < BOUND

    def test_an_id_of_another_client_does_not_give_its_answer(self, hall: Hall) -> None:
        one, other, third = hall.guest(), hall.guest(), hall.guest()
        one.send(frame("same", "Sleeper.Sleep", name="one"))
        one.exchange(ping("there"), "there")
        # Who does not know what was asked does not get the answer.
        assert (
            other.exchange(frame("same", "Sleeper.Sleep", name="other"), "same")[0]["type"] == "Sys.Conflict"
        )
        third.send(frame("same", "Sleeper.Sleep", name="one"))
        third.exchange(ping("there too"), "there too")
        hall.wake()
        assert (one.line()["data"], third.line()["data"]) == ({"name": "one"}, {"name": "one"})


# --- half lines, slow ones, many ------------------------------------------------------------------------------------------------


# --- those who do not read --------------------------------------------------------------------------------------------------------


def flood(hall: Hall, guest: Guest, lines: list[bytes]) -> tuple[int, bytes]:
    """Have a guest say as much of this as is taken, without ever listening.

    Returns:
        How many whole lines were taken, and the rest of the one after them.
    """
    said = b"".join(lines)
    sent = refused = 0
    while sent < len(said) and refused < 5:
        taken = guest.offer(said[sent : sent + 65_536])
        sent += taken
        refused = 0 if taken else refused + 1
        if not taken:
            hall.settle()
    whole = said.count(b"\n", 0, sent)
    return whole, said[sent : said.index(b"\n", sent) + 1] if sent < len(said) else b""


@pytest.mark.spec("C30")
@pytest.mark.guarantee("G81", "G82")
class TestThoseWhoDoNotRead:
    COUNT = 1_000_000 if IS_THOROUGH else 100_000

    def test_one_that_never_reads_is_not_read_from(self, hall: Hall) -> None:
        guest = hall.guest(buffer=65_536)
        guest.exchange(frame("keep", "Memory.Set", "command", key="long", value="x" * 1000), "keep")
        line = frame("q<number>", "Memory.Get", key="long")
        lines = [line.replace(b"<number>", b"%d" % number) for number in range(self.COUNT)]
        with neighbour_of(hall) as neighbour:
            before = resident()
            whole, rest = flood(hall, guest, lines)
            neighbour.wait_rounds(5)
            assert resident() - before < BOUND
            assert whole < self.COUNT, "all was taken, though nothing was read"
            assert hall.books().admitted < self.COUNT
            # Nothing of what was taken is lost. The last goes to the same capability: only then its answer comes last.
            heard = guest.exchange(rest + frame("last", "Memory.Get", key="long"), "last")
        assert [message["metadata"]["causation"] for message in heard] == [
            *(f"q{number}" for number in range(whole + 1)),
            "last",
        ]

    def test_a_listener_that_never_reads_is_told_what_it_missed(self, hall: Hall) -> None:
        listener, speaker = hall.guest(buffer=65_536), hall.guest()
        listener.exchange(frame("sub", "Syscall.Subscribe", "command", types=["Talk.*"]), "sub")
        said = 5_000
        text = "x" * 2000
        with neighbour_of(hall):
            before = resident()
            events = [frame(f"e{number}", "Talk.Said", "event", text=text) for number in range(said)]
            speaker.exchange(b"".join(events) + ping("last"), "last")
            assert resident() - before < BOUND
        assert hall.books().lagged > 0
        heard = listener.exchange(ping("end"), "end")[:-1]
        got = [message for message in heard if message["type"] == "Talk.Said"]
        missed = sum(message["data"]["missed"] for message in heard if message["type"] == "Sys.Lagged")
        assert len(got) + missed == said
        numbers = [int(message["metadata"]["id"][1:]) for message in got]
        assert numbers == sorted(set(numbers))


# --- those who leave --------------------------------------------------------------------------------------------------------------


class TestThoseWhoLeave:
    def test_one_that_vanishes_in_the_middle_of_a_pipeline_is_booked(self, hall: Hall) -> None:
        with neighbour_of(hall):
            for turn in range(30):
                guest = hall.guest()
                lines = b"".join(
                    frame(f"q{number}", "Memory.Set", "command", key=f"k{number}", value="x" * 500)
                    for number in range(200)
                )
                # In the middle of a line, of an answer, or before anything was looked at.
                guest.send(lines[: len(lines) * (turn + 1) // 31])
                if turn % 3 == 0:
                    guest.line()
                guest.vanish()
            for _ in range(20):
                guest = hall.guest()
                guest.send(frame("q", "Sleeper.Sleep", name="gone"))
                guest.vanish()
        if hall.kind == "tcp":
            hall.until_alone()
        # At the other end of a Unix socket, one that has gone looks like one that only has nothing more to say.
        hall.wake()
        hall.until_alone()
        stats = hall.until_quiet()
        assert stats.failures == 0
        if hall.kind == "tcp":
            assert stats.abandoned > 0
