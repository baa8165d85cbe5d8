"""Clients that mean no good, or do not know what they do: over real sockets, with a neighbour beside them who gets every answer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from tests.bus.socket_clients import (
    MEBIBYTE,
    Guest,
    Hall,
    HallMaker,
    descriptors,
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


@pytest.fixture
def unix_hall(halls: HallMaker) -> Iterator[Hall]:
    """For what has nothing to do with the kind of socket."""
    yield from checked(halls("unix"))


def checked(hall: Hall) -> Iterator[Hall]:
    """Whatever is done: nobody fails."""
    yield hall
    hall.wake()
    assert hall.until_quiet().crashes == 0


def types_of(heard: list[dict[str, Any]]) -> list[str]:
    return [message["type"] for message in heard]


# --- what is no message -----------------------------------------------------------------------------------------------------


class TestWhatIsNoMessage:
    def test_random_bytes_are_errors_and_nothing_else(self, hall: Hall) -> None:
        noise = Random(7).randbytes(MEBIBYTE)
        with neighbour_of(hall):
            heard = hall.guest().exchange(noise + b"\n" + ping("last"), "last")
        assert set(types_of(heard[:-1])) == {"Sys.SchemaError"}
        lines = [line for line in noise.split(b"\n") if line.strip()]
        assert len(heard) == len(lines) + 1

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

    def test_a_message_of_100_megabytes_costs_no_memory(self, unix_hall: Hall) -> None:
        guest, chunk = unix_hall.guest(), b'"' + b"x" * 1021 + b'",'
        with neighbour_of(unix_hall):
            before = resident()
            guest.send(b'{"kind":"command","type":"Memory.Set","data":{"key":"a","value":[')
            for _ in range(100):
                guest.send(chunk * 1024)
            heard = guest.exchange(
                b'0]},"metadata":{"id":"big","timestamp":1}}\n' + frame("last", "Memory.Get", key="a"), "last"
            )
            assert resident() - before < BOUND
        assert types_of(heard) == ["Sys.SchemaError", "Memory.Get"]
        assert heard[-1]["data"] == {"value": None, "found": False}

    def test_the_same_id_on_two_connections_is_no_way_to_read_what_was_answered_to_another(
        self, hall: Hall
    ) -> None:
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

    @pytest.mark.parametrize("odd", ["x" * 200, "\0", "\u2028\U0001f3bb", '"\\', "{}\n", " "], ids=repr)
    def test_an_odd_id_comes_back_as_it_was(self, unix_hall: Hall, odd: str) -> None:
        guest = unix_hall.guest()
        (answer,) = guest.exchange(ping(odd), odd)
        assert answer["metadata"]["causation"] == odd


class TestNesting:
    def test_no_depth_crashes_a_capability(self, unix_hall: Hall) -> None:
        """What is taken in can be kept, told to others, logged and read back; what is too deep for that is not taken in."""
        guest = unix_hall.guest()
        guest.exchange(frame("sub", "Syscall.Subscribe", "command", types=["*"]), "sub")
        for depth in range(4, 1100, 8):
            deep = b"[" * depth + b"]" * depth
            heard = guest.exchange(
                b'{"kind":"command","type":"Memory.Set","data":{"key":"a","value":%s},"metadata":{"id":"s%d","timestamp":1}}\n'
                b'{"kind":"event","type":"No.Body","data":%s,"metadata":{"id":"e","timestamp":1}}\n'
                % (deep, depth, deep)
                + frame(f"g{depth}", "Memory.Get", key="a"),
                f"g{depth}",
            )
            # Another capability may answer before the first one: it is asked afterwards.
            heard += guest.exchange(frame("r", "Syscall.Recent", limit=4), "r")
            answers = {message["metadata"].get("causation"): message["type"] for message in heard}
            # Of what is far too deep, not even the id can be made out.
            assert answers.get(f"s{depth}", answers.get(None)) in {"Memory.Set", "Sys.SchemaError"}, depth
            assert (answers[f"g{depth}"], answers["r"]) == ("Memory.Get", "Syscall.Recent"), depth


# --- half lines, slow ones, many ------------------------------------------------------------------------------------------------


class TestSlowAndMany:
    def test_slow_speakers_are_answered_in_the_end(self, hall: Hall) -> None:
        guests = [hall.guest() for _ in range(50)]
        lines = [ping(f"slow-{number}") for number in range(50)]
        with neighbour_of(hall) as neighbour:
            for place in range(max(map(len, lines))):
                for guest, line in zip(guests, lines, strict=True):
                    guest.send(line[place : place + 1])
                if place % 20 == 0:
                    neighbour.wait_rounds(1)
        assert [guest.answers(1) for guest in guests] == [[f"slow-{number}"] for number in range(50)]

    def test_two_thousand_at_once_are_all_answered(self, hall: Hall) -> None:
        count = 2000
        with descriptors(2 * count + 200) as is_allowed, ExitStack() as stack:
            if not is_allowed:
                pytest.skip("this machine allows too few descriptors")
            connections = [stack.enter_context(hall.connect()) for _ in range(count)]
            with neighbour_of(hall):
                for number, connection in enumerate(connections):
                    connection.sendall(ping(f"p{number}"))
                for number, connection in enumerate(connections):
                    if number % 2:
                        # Half of them go without having listened.
                        connection.close()
                        continue
                    with connection.makefile("rb") as answers:
                        answer = json.loads(answers.readline())
                    assert answer["metadata"]["causation"] == f"p{number}"
        hall.until_alone()
        stats = hall.until_quiet()
        assert stats.failures == 0


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

    def test_many_that_never_read_harm_nobody(self, unix_hall: Hall) -> None:
        lines = [ping(f"q{number}") for number in range(3_000)]
        guests = [unix_hall.guest(buffer=65_536) for _ in range(20)]
        with neighbour_of(unix_hall) as neighbour:
            before = resident()
            for guest in guests:
                flood(unix_hall, guest, lines)
            neighbour.wait_rounds(5)
            assert resident() - before < BOUND
            for guest in guests:
                guest.vanish()
        unix_hall.until_alone()

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
