"""One client, without a socket: what it reads when, what it writes when, and that neither gets into the other's way."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.bus import wire
from bandstand.bus.adapters.limits import Limits
from bandstand.bus.adapters.ndjson import NdjsonConnection
from bandstand.bus.frame import Frame
from bandstand.bus.protocols import Line
from bandstand.bus.wire import LINES_PER_BATCH
from bandstand.errors import InvalidArgumentError
from tests.bus.adapters import Desk, request

pytestmark = [pytest.mark.spec("C17"), pytest.mark.usefixtures("lane_loop")]


class Wire(asyncio.Transport):
    """A transport that writes down what it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.waiting = 0
        self.high: int | None = None
        self.is_paused = False
        self.pauses = 0
        self.is_closed = self.is_aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def is_closing(self) -> bool:
        return self.is_closed or self.is_aborted

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def pause_reading(self) -> None:
        assert not self.is_paused
        self.is_paused = True
        self.pauses += 1

    def resume_reading(self) -> None:
        assert self.is_paused
        self.is_paused = False

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    def answers(self) -> list[str]:
        lines = b"".join(self.written).splitlines()
        return [json.loads(line)["metadata"].get("causation") for line in lines]


class Booth:
    """A line, its transport and its desk."""

    def __init__(
        self, desk: Desk | None = None, *, closes_at_eof: bool = True, may_open: bool = True, **limits: Any
    ) -> None:
        self.desk = desk or Desk()
        self.wire = Wire()
        self.ended: list[NdjsonConnection] = []
        self.line = NdjsonConnection(
            self.desk,
            Limits(**limits),
            "booth",
            may_open=lambda: may_open,
            on_close=self.ended.append,
            closes_at_eof=closes_at_eof,
        )
        self.line.connection_made(self.wire)

    def is_flushed(self) -> bool:
        return self.line.is_flushed

    def can_produce(self) -> bool:
        return self.line.can_produce

    @property
    def said(self) -> list[str]:
        return [frame.metadata.id for frame in self.desk.admitted]


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def ids(*numbers: int) -> list[str]:
    return [f"q{number}" for number in numbers]


# --- the way in -------------------------------------------------------------------------------------------------------

NOISE = st.sampled_from([b"", b"\r", b"nonsense", b"{}", b"\xff", b"[" * 2000, b"x" * 900])


@pytest.mark.slow
@given(
    lines=st.lists(st.integers(0, 99).map(lambda number: request(number)[:-1]) | NOISE, max_size=12),
    data=st.data(),
)
def test_any_chunking_gives_the_same_messages(lines: list[bytes], data: st.DataObject) -> None:
    """However the bytes come, and however often the node has no room: the same frames and the same errors, in order."""

    async def body() -> None:
        whole = Booth(line_bytes=500)
        whole.line.data_received(b"".join(line + b"\n" for line in lines))
        await turn()
        booth = Booth(line_bytes=500, window=data.draw(st.integers(1, 3)))
        booth.desk.is_holding = True
        stream = b"\n".join(lines)
        while stream:
            size = data.draw(st.integers(1, len(stream)))
            booth.line.data_received(stream[:size])
            stream = stream[size:]
            booth.desk.is_full = data.draw(st.booleans())
            if not booth.desk.is_full:
                booth.desk.make_room()
            if data.draw(st.booleans()):
                booth.desk.release()
                await turn()
        booth.line.eof_received()
        booth.desk.make_room()
        await turn()
        while booth.desk.held:
            booth.desk.release()
            await turn()
        assert booth.said == whole.said
        assert [str(problem) for problem in booth.desk.refused] == [
            str(problem) for problem in whole.desk.refused
        ]
        assert booth.wire.is_closed

    with asyncio.Runner() as runner:
        runner.run(body())


class TestReading:
    @pytest.mark.guarantee("G85")
    @pytest.mark.parametrize(
        ("window", "size", "more"),
        [
            # 4 MiB of answers may be unsent, and the latest were 1 MiB each.
            pytest.param(512, 1 << 20, 4, id="large"),
            pytest.param(64, 100, 64, id="small"),
        ],
    )
    async def test_the_window_depends_on_answer_sizes(self, window: int, size: int, more: int) -> None:
        booth = Booth(window=window)
        booth.desk.is_holding = True
        booth.line.data_received(b"".join(request(n) for n in range(1000)))
        # The window of a client that has not been answered yet.
        assert len(booth.said) == 32
        for _ in range(32):
            booth.line.reader.settle(size)
        booth.line.resume()
        await turn()
        assert len(booth.said) == 32 + more

    async def test_an_http_request_line_after_the_first_message_is_an_invalid_line(self) -> None:
        booth = Booth()
        booth.line.data_received(request(1) + b"GET / HTTP/1.1\r\n" + request(2))
        assert booth.said == ids(1, 2)
        assert not booth.wire.is_closed

    async def test_it_reads_nothing_from_a_client_that_takes_nothing(self) -> None:
        booth = Booth()
        booth.line.pause_writing()
        assert not booth.line.is_writable
        booth.line.data_received(request(1))
        assert booth.said == []
        assert booth.wire.is_paused
        booth.line.resume_writing()
        assert booth.desk.drained_count == 1
        await turn()
        assert booth.said == ids(1)
        assert not booth.wire.is_paused

    async def test_a_client_that_says_a_lot_lets_others_have_their_turn(self) -> None:
        booth = Booth(window=1 << 20)
        booth.line.data_received(request(1) * (5 * LINES_PER_BATCH))
        assert LINES_PER_BATCH <= len(booth.said) <= 2 * LINES_PER_BATCH
        assert booth.wire.is_paused
        for _ in range(5):
            await turn()
        assert len(booth.said) == 5 * LINES_PER_BATCH
        assert not booth.wire.is_paused

    async def test_an_answer_from_inside_the_question_does_not_make_it_read_inside_the_reading(self) -> None:
        depth = deepest = 0

        class Deep(Desk):
            def admit(self, line: Line, frame: Frame) -> bool:
                nonlocal depth, deepest
                depth += 1
                deepest = max(deepest, depth)
                is_taken = super().admit(line, frame)
                line.resume()
                depth -= 1
                return is_taken

        booth = Booth(Deep(), window=1)
        booth.line.data_received(request(1) * 100)
        await turn()
        assert len(booth.said) == 100
        assert deepest == 1

    async def test_a_node_that_fails_ends_the_connection_and_says_so(self) -> None:
        class Broken(Desk):
            def admit(self, line: Line, frame: Frame) -> bool:
                raise ZeroDivisionError

        booth = Booth(Broken())
        with pytest.raises(ZeroDivisionError):
            booth.line.data_received(request(1))
        assert booth.wire.is_aborted


# --- the way out ------------------------------------------------------------------------------------------------------


class TestWriting:
    async def test_what_is_delivered_together_is_written_together(self) -> None:
        booth = Booth()
        booth.line.data_received(request(1) + request(2) + request(3))
        assert booth.wire.written == []
        assert not booth.is_flushed()
        await turn()
        assert len(booth.wire.written) == 1
        assert booth.wire.answers() == ids(1, 2, 3)
        assert booth.is_flushed()
        booth.wire.waiting = 1
        assert not booth.is_flushed()

    async def test_much_at_once_is_not_kept(self) -> None:
        booth = Booth(write_high=1000)
        assert booth.wire.high == 1000
        booth.line.data_received(request(1, data="x" * 1000))
        assert booth.wire.answers() == ids(1)
        await turn()
        assert len(booth.wire.written) == 1

    async def test_an_event_for_many_is_encoded_once(self) -> None:
        booths = [Booth() for _ in range(10)]
        booths[0].line.data_received(request(1, kind="event"))
        (event,) = booths[0].desk.admitted
        for booth in booths:
            booth.line.deliver(event, settles=False)
        # One and the same object in all of them.
        (first,) = booths[0].line.unwritten
        assert all(booth.line.unwritten[0] is first for booth in booths)
        await turn()
        assert {tuple(booth.wire.written) for booth in booths} == {(wire.write_frame(event) + b"\n",)}


# --- ends -------------------------------------------------------------------------------------------------------------


class TestEnds:
    async def test_at_its_end_it_can_still_produce_what_it_had_no_credit_for(self) -> None:
        booth = Booth(window=1, closes_at_eof=False)
        booth.desk.is_holding = True
        booth.line.data_received(request(1) + request(2))
        booth.line.eof_received()
        assert booth.can_produce()
        booth.desk.release()
        await turn()
        assert booth.said == ids(1, 2)
        booth.desk.release()
        await turn()
        assert not booth.can_produce()
        assert not booth.wire.is_closed
        # A transport that has come to its end is not asked to pause or to read on.
        assert booth.wire.pauses == 1

    async def test_a_client_that_takes_nothing_is_dropped_when_too_much_is_unsent(self) -> None:
        booth = Booth(write_high=100, write_most=10_000)
        booth.line.data_received(request(1))
        await turn()
        assert not booth.wire.is_aborted
        booth.wire.waiting = 10_001
        booth.line.data_received(request(2))
        await turn()
        assert booth.wire.is_aborted

    async def test_one_that_comes_too_late_is_not_let_in(self) -> None:
        booth = Booth(may_open=False)
        assert booth.wire.is_aborted
        booth.line.connection_lost(None)
        assert booth.desk.opened == 0
        assert booth.desk.closed == []
        assert booth.ended == [booth.line]

    async def test_stop_forgets_what_was_read(self) -> None:
        booth = Booth(window=1)
        booth.desk.is_holding = True
        booth.line.data_received(request(1) + request(2))
        booth.line.stop()
        booth.line.data_received(request(3))
        booth.desk.release()
        await turn()
        assert booth.said == booth.wire.answers() == ids(1)
        assert booth.wire.is_paused

    async def test_stop_from_inside_a_question_is_heeded_at_once(self) -> None:
        class Stopping(Desk):
            def admit(self, line: Line, frame: Frame) -> bool:
                assert isinstance(line, NdjsonConnection)
                line.stop()
                return super().admit(line, frame)

        booth = Booth(Stopping())
        booth.line.data_received(request(1) + request(2))
        await turn()
        assert booth.said == booth.wire.answers() == ids(1)
        assert not booth.can_produce()


# --- limits -----------------------------------------------------------------------------------------------------------


class TestLimits:
    @pytest.mark.parametrize(
        "field",
        ["line_bytes", "window", "write_high", "write_most", "connections", "unauthenticated"],
    )
    @pytest.mark.parametrize("value", [0, -1, 1.5, True, None, "1", 1 << 41])
    def test_what_has_no_sense_is_refused(self, field: str, value: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=f"Limits: {field} is .*: pass an int from"):
            Limits(**{field: value})

    @pytest.mark.parametrize("value", [-1, True, None, "1", 1 << 41, timedelta(days=2)])
    @pytest.mark.parametrize("field", ["handshake_timeout", "line_timeout"])
    def test_a_time_that_has_no_sense_is_refused(self, field: str, value: Any) -> None:
        with pytest.raises(InvalidArgumentError, match=f"Limits: {field} is .*: pass seconds"):
            Limits(**{field: value})

    def test_times_may_be_timedeltas(self) -> None:
        second = timedelta(seconds=1)
        assert Limits(handshake_timeout=second, line_timeout=second) == Limits(
            handshake_timeout=1, line_timeout=1
        )
