"""What every adapter keeps to, whatever it runs over: one class of tests, and each adapter passes it."""

from __future__ import annotations

import errno
import json
import os
import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from bandstand.bus.adapters import listener
from bandstand.errors import InvalidArgumentError
from tests.bus.adapters import KINDS, PATIENCE, Venue, VenueMaker, open_descriptors, request

pytestmark = pytest.mark.spec("C17")


@pytest.fixture
def make(kind: str, venues: VenueMaker) -> Iterator[Callable[..., Venue]]:
    with ExitStack() as stack:

        def make(**limits: Any) -> Venue:
            return stack.enter_context(venues(kind, **limits))

        yield make


@pytest.mark.parametrize("kind", KINDS)
class TestEveryAdapter:
    # --- talking ------------------------------------------------------------------------------------------------------

    def test_a_request_is_answered_on_its_own_line(self, make: Callable[..., Venue]) -> None:
        client = make().client()
        client.send(request(1, data={"text": "hello"}))
        assert client.line() == {
            "kind": "reply",
            "type": "Echo.Say",
            "data": {"text": "hello"},
            "metadata": {"id": "a-q1", "timestamp": 0, "causation": "q1"},
        }

    def test_what_a_web_page_posts_is_not_carried_out(self, make: Callable[..., Venue]) -> None:
        venue = make()
        client = venue.client()
        client.send(b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + request(1))
        refusal = client.line()
        assert "not a web server" in json.dumps(refusal)
        assert venue.desk.admitted == []

    def test_answers_come_in_the_order_in_which_they_are_given(self, make: Callable[..., Venue]) -> None:
        venue = make()
        venue.desk.is_holding = True
        client = venue.client()
        client.send(b"".join(request(number) for number in range(20)))
        venue.until(lambda: len(venue.desk.held) == 20)
        venue.do(lambda: venue.desk.release(backwards=True))
        assert client.answers(20) == [f"q{number}" for number in reversed(range(20))]

    def test_other_ends_of_line_and_blank_lines_do_no_harm(self, make: Callable[..., Venue]) -> None:
        venue = make()
        client = venue.client()
        client.send(b"\n\r\n  \n" + request(1).replace(b"\n", b"\r\n") + b"\n\t\n" + request(2))
        assert client.answers(2) == ["q1", "q2"]
        assert venue.desk.refused == []

    # --- what is no message -------------------------------------------------------------------------------------------

    @pytest.mark.spec("C10")
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (b"hello", "malformed"),
            (b"{}", "missing required field"),
            (
                b'{"kind":"command","type":"A.B","data":{"x":"\xff\xfe"},"metadata":{"id":"1","timestamp":0}}',
                "UTF-8",
            ),
            (b'{"kind":"command","type":"\xc3\x28","metadata":{"id":"1","timestamp":0}}', "UTF-8"),
            (b'{"data":' + b"[" * 100_000 + b"}", "nested too deeply"),
            (b'{"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
            (b"\x00" * 50, "malformed"),
        ],
        ids=[
            *("words", "nothing in it", "data no UTF-8", "type no UTF-8", "open nesting", "closed nesting"),
            "zeros",
        ],
    )
    def test_an_invalid_line_is_answered(self, make: Callable[..., Venue], line: bytes, said: str) -> None:
        client = make().client()
        client.send(line + b"\n" + request(1))
        answers = [client.line(), client.line()]
        assert answers[0]["type"] == "Sys.SchemaError"
        assert said in answers[0]["data"]["message"]
        assert answers[1]["metadata"]["causation"] == "q1"

    def test_a_line_that_is_too_long_gets_one_error_and_is_skipped(self, make: Callable[..., Venue]) -> None:
        client = make(line_bytes=1000).client()
        client.send(request(1) + b"x" * 5_000_000 + b"\n" + request(2) + b"y" * 1001 + b"\n" + request(3))
        lines = [client.line() for _ in range(5)]
        assert [line["kind"] for line in lines] == ["reply", "error", "reply", "error", "reply"]
        assert "longer than the limit of 1000 bytes" in lines[1]["data"]["message"]

    # --- back-pressure ------------------------------------------------------------------------------------------------

    def test_a_line_that_has_just_the_limit_is_read(self, make: Callable[..., Venue]) -> None:
        line = request(1, data={"text": "x" * 500})
        client = make(line_bytes=len(line) - 1).client()
        client.send(line + request(2, data={"text": "x" * 501}) + request(3))
        assert [client.line()["kind"] for _ in range(3)] == ["reply", "error", "reply"]

    @pytest.mark.spec("C30")
    def test_no_more_requests_are_taken_in_than_the_window_allows(self, make: Callable[..., Venue]) -> None:
        venue = make(window=4)
        desk = venue.desk
        desk.is_holding = True
        client = venue.client()
        client.send(b"".join(request(number) for number in range(20)))
        for taken in range(4, 21, 2):
            venue.until(lambda taken=taken: len(desk.admitted) == taken)  # type: ignore[misc]  # mypy knows no lambda with a default
            venue.settle()
            assert len(desk.admitted) == taken
            venue.do(lambda: desk.release(2))
        venue.do(desk.release)
        assert client.answers(20) == [f"q{number}" for number in range(20)]

    @pytest.mark.spec("C30")
    def test_what_the_node_has_no_room_for_is_handed_in_again(self, make: Callable[..., Venue]) -> None:
        venue = make()
        desk = venue.desk
        desk.is_full = True
        client = venue.client()
        client.send(request(0, kind="event") + b"".join(request(number) for number in range(1, 10)))
        venue.until(lambda: desk.turned_away)
        venue.settle()
        assert desk.turned_away == 1
        venue.do(desk.make_room)
        assert client.answers(9) == [f"q{number}" for number in range(1, 10)]
        assert [frame.metadata.id for frame in desk.admitted] == [f"q{number}" for number in range(10)]

    @pytest.mark.slow
    @pytest.mark.spec("C30")
    def test_a_client_that_takes_no_answers_is_not_read_from(self, make: Callable[..., Venue]) -> None:
        venue = make(write_high=10_000)
        desk = venue.desk
        client = venue.client()
        block = request(7, data="x" * 2000) * 20
        pending = memoryview(b"")
        while not venue.do(lambda: [each for each in desk.lines if not each.is_writable]):
            pending = pending or memoryview(block)
            pending = pending[client.offer(bytes(pending)) :]
        venue.settle()
        taken = len(desk.admitted)
        while client.offer(b"\n" * 100_000):
            pass
        venue.settle()
        assert len(desk.admitted) == taken
        assert not venue.do(lambda: venue.adapter.is_flushed)
        # It changes its mind.
        assert client.answers(taken) == ["q7"] * taken
        venue.until(lambda: desk.drained_count)
        venue.until(lambda: venue.adapter.is_flushed)

    @pytest.mark.slow
    def test_invalid_lines_of_a_client_that_does_not_read(self, make: Callable[..., Venue]) -> None:
        venue = make(write_high=10_000)
        client = venue.client()
        block = b"x\n" * 50_000
        while not venue.do(lambda: [each for each in venue.desk.lines if not each.is_writable]):
            client.offer(block)
        while client.offer(block):
            pass
        venue.settle()
        # What the operating system holds for it, and not what it has sent.
        assert len(venue.desk.refused) < 50_000

    # --- ends -----------------------------------------------------------------------------------------------------------

    def test_a_half_closed_client_gets_its_answers(self, make: Callable[..., Venue]) -> None:
        venue = make(window=3)
        venue.desk.is_holding = True
        client = venue.client()
        # The last line has no end.
        client.send(b"".join(request(number) for number in range(10)).rstrip(b"\n"))
        client.half_close()
        for _ in range(10):
            venue.until(lambda: venue.desk.held)
            venue.do(lambda: venue.desk.release(1))
        assert client.answers(10) == [f"q{number}" for number in range(10)]
        if venue.kind == "pipe":
            venue.until(lambda: not venue.adapter.can_produce)
            venue.close()
        else:
            assert client.rest() == b""
        venue.until(lambda: venue.desk.closed)

    def test_the_answers_for_a_client_that_vanishes_are_dropped(self, make: Callable[..., Venue]) -> None:
        venue = make()
        desk = venue.desk
        desk.is_holding = True
        client = venue.client()
        client.send(request(1) + request(2))
        venue.until(lambda: len(desk.held) == 2)
        line = desk.lines[0]
        client.close()
        venue.do(lambda: desk.release(1))
        venue.until(lambda: venue.adapter.is_flushed)
        venue.do(lambda: desk.release(1))
        venue.until(lambda: desk.closed == [line])
        venue.do(lambda: line.deliver(desk.admitted[0], settles=False))
        venue.do(line.resume)
        venue.settle()
        assert venue.do(lambda: venue.adapter.is_flushed)

    # --- stopping -----------------------------------------------------------------------------------------------------

    @pytest.mark.spec("C5")
    def test_after_stop_nothing_is_taken_in_and_answers_go_out(self, make: Callable[..., Venue]) -> None:
        venue = make(window=2)
        venue.desk.is_holding = True
        client = venue.client()
        client.send(request(1) + request(2) + request(3))
        venue.until(lambda: len(venue.desk.held) == 2)
        venue.run(venue.adapter.stop())
        assert not venue.do(lambda: venue.adapter.can_produce)
        client.send(request(4))
        venue.do(venue.desk.release)
        assert client.answers(2) == ["q1", "q2"]
        venue.settle()
        assert len(venue.desk.admitted) == 2
        venue.close()
        assert venue.desk.lines == []

    @pytest.mark.spec("C5")
    def test_close_writes_out_what_was_delivered(self, make: Callable[..., Venue]) -> None:
        venue = make()
        client = venue.client()
        client.send(request(1, data="x" * 900_000))
        venue.until(lambda: venue.desk.admitted)
        closing = venue.begin_close()
        assert client.answers(1) == ["q1"]
        closing.result(PATIENCE)

    @pytest.mark.slow
    @pytest.mark.spec("C5")
    def test_close_does_not_wait_for_ever(self, make: Callable[..., Venue]) -> None:
        venue = make()
        client = venue.client()
        while not venue.do(lambda: [each for each in venue.desk.lines if not each.is_writable]):
            client.offer(request(1, data="x" * 5000))
        venue.close(timeout=0.0)
        assert venue.desk.lines == []
        assert venue.do(lambda: venue.adapter.is_flushed)

    def test_closing_twice_does_no_harm_and_it_can_start_again(self, make: Callable[..., Venue]) -> None:
        venue = make()
        with pytest.raises(InvalidArgumentError, match="started already"):
            venue.run(venue.adapter.start(venue.desk))
        venue.close()
        venue.close()
        assert not venue.do(lambda: venue.adapter.can_produce)
        venue.run(venue.adapter.start(venue.desk))
        client = venue.client()
        client.send(request(1))
        assert client.answers(1) == ["q1"]

    def test_nothing_is_left_behind(self, kind: str, venues: VenueMaker, tmp_path: Path) -> None:
        with venues(kind) as venue:
            venue.client().send(request(1))
        before = open_descriptors()
        for _ in range(3):
            with venues(kind) as venue:
                client = venue.client()
                client.send(request(1) + request(2)[:9])
                client.line()
        assert open_descriptors() == before
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["unix", "tcp"])
class TestManyClients:
    def test_each_gets_its_own_answers(self, make: Callable[..., Venue]) -> None:
        venue = make()
        clients = [venue.client() for _ in range(10)]
        for number, client in enumerate(clients):
            client.send(request(number) + request(100 + number))
        for number, client in enumerate(clients):
            assert client.answers(2) == [f"q{number}", f"q{100 + number}"]
        venue.until(lambda: venue.desk.opened == 10)
        assert len({line.name for line in venue.desk.lines}) == 10
        assert all(line.name.startswith(venue.adapter.name) for line in venue.desk.lines)

    @pytest.mark.slow
    def test_one_that_is_slow_holds_up_nobody(self, make: Callable[..., Venue]) -> None:
        venue = make(write_high=10_000, window=8)
        slow, quick = venue.client(), venue.client()
        while not venue.do(lambda: [each for each in venue.desk.lines if not each.is_writable]):
            slow.offer(request(1, data="x" * 5000))
        for number in range(50):
            quick.send(request(number))
            assert quick.answers(1) == [f"q{number}"]

    def test_an_event_goes_to_all(self, make: Callable[..., Venue]) -> None:
        venue = make()
        clients = [venue.client() for _ in range(5)]
        venue.until(lambda: len(venue.desk.lines) == 5)
        clients[0].send(request(1, kind="event", type_name="Echo.Broadcast", data=["x"]))
        assert [client.line()["data"] for client in clients] == [["x"]] * 5

    def test_those_for_whom_there_is_no_descriptor_wait(
        self, make: Callable[..., Venue], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(listener, "ACCEPT_RETRY_S", 0.0)
        accept, refused = socket.socket.accept, [OSError(errno.EMFILE, "Too many open files")] * 3

        def scarce(this: socket.socket) -> tuple[socket.socket, object]:
            if refused:
                raise refused.pop()
            return accept(this)

        monkeypatch.setattr(socket.socket, "accept", scarce)
        client = make().client()
        client.send(request(1))
        assert client.answers(1) == ["q1"]
        assert caplog.text.count("no connections are accepted for 0 s: [Errno 24] Too many open files") == 3

    def test_it_can_be_closed_while_they_wait(
        self, make: Callable[..., Venue], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tried = threading.Event()

        def scarce(this: socket.socket) -> tuple[socket.socket, object]:
            tried.set()
            raise OSError(errno.ENOBUFS, "No buffer space available")

        monkeypatch.setattr(socket.socket, "accept", scarce)
        venue = make()
        client = venue.client()
        assert tried.wait(PATIENCE)
        venue.close()
        assert client.rest() == b""

    @pytest.mark.slow
    def test_a_thousand(self, make: Callable[..., Venue]) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < 4000:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(4000, hard), hard))
        venue = make()
        clients = [venue.client() for _ in range(1000)]
        for number, client in enumerate(clients):
            client.send(request(number))
        for number, client in enumerate(clients):
            assert client.answers(1) == [f"q{number}"]
        venue.close()
        assert len(venue.desk.closed) == 1000
