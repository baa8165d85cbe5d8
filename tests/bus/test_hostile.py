"""Clients that mean no good, or do not know what they do: over real sockets, with a neighbour beside them who gets every answer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

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

    @pytest.mark.parametrize(
        "place", ["kind", "type", "id", "key", "value", "unknown"], ids=lambda place: f"in-{place}"
    )
    def test_broken_utf8_is_an_error_wherever_it_is(self, unix_hall: Hall, place: str) -> None:
        whole = (
            b'{"kind":"<kind>command","type":"<type>Memory.Set","data":{"key":"<key>a","value":"<value>b"},'
            b'"unknown":"<unknown>","metadata":{"id":"<id>c","timestamp":1}}\n'
        )
        broken = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xc0\xaf")
        mark = f"<{place}>".encode()
        said = b"".join(re.sub(rb"<\w+>", b"", whole.replace(mark, bytes_)) for bytes_ in broken)
        with neighbour_of(unix_hall):
            heard = unix_hall.guest().exchange(said + ping("last"), "last")
        assert types_of(heard) == ["Sys.SchemaError"] * len(broken) + ["Syscall.Ping"]
        assert all("not UTF-8" in message["data"]["message"] for message in heard[:-1])

    @pytest.mark.slow
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

    @pytest.mark.slow
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

    def test_only_what_a_client_may_send_is_taken(self, hall: Hall) -> None:
        asker, forger = hall.guest(), hall.guest()
        asker.send(frame("mine", "Sleeper.Sleep", name="asker"))
        forged = [
            frame("f1", "Sleeper.Sleep", "reply", metadata={"causation": "mine"}, name="forged"),
            frame("f2", "Sys.Timeout", "error", metadata={"causation": "mine"}, message="forged"),
            frame("mine", "Sleeper.Sleep", "reply", metadata={"causation": "mine"}, name="forged"),
            frame("f4", "Sys.BootComplete", "event"),
        ]
        with neighbour_of(hall):
            heard = forger.exchange(b"".join(forged) + ping("last"), "last")
        assert types_of(heard) == [*["Sys.SchemaError"] * 3, "Sys.RoutingError", "Syscall.Ping"]
        assert {message["data"].get("path") for message in heard[:3]} == {"$.kind"}
        hall.wake()
        answer = asker.exchange(ping("end"), "end")
        assert [(message["kind"], message["data"].get("name")) for message in answer] == [
            ("reply", "asker"),
            ("reply", None),
        ]

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

    @pytest.mark.parametrize(
        ("metadata", "path"),
        [
            ({"id": "x" * 201}, "$.metadata.id"),
            ({"id": "x" * 900_000}, "$.metadata.id"),
            ({"id": ""}, "$.metadata.id"),
            ({"id": 5}, "$.metadata.id"),
            ({"id": "a", "causation": "x" * 201}, "$.metadata.causation"),
            ({"id": "a", "timestamp": "now"}, "$.metadata.timestamp"),
            ({"id": "a", "timeout": 0}, "$.metadata.timeout"),
            ({"id": "a", "timeout": 10**18}, "$.metadata.timeout"),
            ({"id": "a", "timeout": True}, "$.metadata.timeout"),
        ],
        ids=lambda value: repr(value)[:40],
    )
    def test_metadata_that_is_out_of_bounds_is_an_error_that_says_where(
        self, unix_hall: Hall, metadata: dict[str, Any], path: str
    ) -> None:
        heard = unix_hall.guest().exchange(
            frame("-", "Syscall.Ping", metadata=metadata) + ping("last"), "last"
        )
        assert types_of(heard) == ["Sys.SchemaError", "Syscall.Ping"]
        assert heard[0]["data"]["path"] == path
        assert len(json.dumps(heard[0])) < 1500, "an error does not repeat what was too long"

    @pytest.mark.parametrize("odd", ["x" * 200, "\0", "\u2028\U0001f3bb", '"\\', "{}\n", " "], ids=repr)
    def test_an_odd_id_comes_back_as_it_was(self, unix_hall: Hall, odd: str) -> None:
        guest = unix_hall.guest()
        (answer,) = guest.exchange(ping(odd), odd)
        assert answer["metadata"]["causation"] == odd


class TestNesting:
    DEEP = 100_000

    @pytest.mark.parametrize(
        ("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")], ids=["lists", "objects"]
    )
    def test_100000_levels_are_an_error_wherever_they_are(
        self, unix_hall: Hall, opening: bytes, closing: bytes
    ) -> None:
        deep = opening * self.DEEP + b"1" + closing * self.DEEP
        lines = [
            deep,
            opening * self.DEEP,
            b'{"kind":"command","type":"Memory.Set","data":{"key":"a","value":%s},"metadata":{"id":"a","timestamp":1}}'
            % deep,
            b'{"kind":"event","type":"No.Body","data":%s,"metadata":{"id":"a","timestamp":1}}' % deep,
            b'{"junk":%s,"kind":"query","type":"Syscall.Ping","metadata":{"id":"a","timestamp":1}}' % deep,
            b'{"kind":"query","type":"Syscall.Ping","metadata":{"junk":%s,"id":"a","timestamp":1}}' % deep,
        ]
        with neighbour_of(unix_hall):
            heard = unix_hall.guest().exchange(b"\n".join(lines) + b"\n" + ping("last"), "last")
        assert types_of(heard) == ["Sys.SchemaError"] * len(lines) + ["Syscall.Ping"]

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


# --- fuzzing ----------------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "kind": st.sampled_from(["command", "query", "event", "reply", "error"]) | JSON,
    "type": st.sampled_from(["Memory.Get", "Memory.Set", "Memory.List", "Timer.Cancel", "No.Body", "Sys.X"])
    | JSON,
    "data": st.fixed_dictionaries({}, optional={"key": st.text(max_size=5) | JSON, "value": JSON}) | JSON,
    "metadata": st.fixed_dictionaries(
        {}, optional={"id": st.text(max_size=5) | JSON, "timestamp": st.integers() | JSON, "causation": JSON}
    )
    | JSON,
}
ALMOST = st.fixed_dictionaries({}, optional=FIELDS).map(lambda message: json.dumps(message).encode())


@st.composite
def torn(draw: st.DrawFn) -> bytes:
    """Something that is almost a message, with some of its bytes replaced, doubled or left out."""
    line = bytearray(draw(ALMOST))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, max(0, len(line) - 1)))
        line[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=3))
    return bytes(line)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    lines=st.lists(st.binary(max_size=200) | ALMOST | torn(), max_size=8),
    cuts=st.lists(st.integers(0, 2000), max_size=4),
)
@example(lines=[b"\r", b" ", b"null", b"0", b'"', b"{", b"\0", b"\xef\xbb\xbf{}"], cuts=[1])
def test_whatever_the_bytes_what_comes_after_them_is_answered(
    unix_hall: Hall, lines: list[bytes], cuts: list[int]
) -> None:
    said = b"\n".join(lines) + b"\n" + frame("\U0001f3bb", "Memory.List", limit=1)
    guest = unix_hall.guest()
    bounds = sorted({0, len(said), *(cut for cut in cuts if cut < len(said))})
    for start, end in pairwise(bounds):
        guest.send(said[start:end])
    guest.half_close()
    heard = [json.loads(line) for line in guest.rest().splitlines()]
    guest.close()
    assert [message["metadata"].get("causation") for message in heard].count("\U0001f3bb") == 1
    assert all(set(message) == {"kind", "type", "data", "metadata"} for message in heard)
    # Each line is answered once at most: events that are sound are not answered at all.
    assert len(heard) <= said.count(b"\n")
    assert {message["kind"] for message in heard} <= {"reply", "error"}


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

    @pytest.mark.slow
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

    @pytest.mark.slow
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

    @pytest.mark.slow
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

    @pytest.mark.slow
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
