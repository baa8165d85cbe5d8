"""The control channel: messages and descriptors between two ends, in order and in arbitrary pieces; and its end."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bandstand.errors import InvalidArgumentError, InvalidMessageError
from bandstand.pod.process.control import (
    MAX_FDS,
    MAX_UNRECEIVED,
    MESSAGE,
    NOTICE,
    ControlChannel,
    ControlMessage,
    frame_header,
)
from tests.pod.child_targets import Unreadable

pytestmark = [pytest.mark.spec("S19"), pytest.mark.usefixtures("bandstand_leak_check")]

# Seconds, enough for a busy machine.
SOON = 20


class Pair:
    """Two ends in one process, and their callbacks."""

    def __init__(self) -> None:
        self.notices: list[object] = []
        self.ends: list[str] = []
        here, there = socket.socketpair()
        self.here = ControlChannel(
            here, "process 'painter'", on_notice=self.notices.append, on_end=self.ends.append
        )
        self.there = ControlChannel(there, "the parent")


async def iterations(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def paired() -> AsyncGenerator[Pair]:
    pair = Pair()
    try:
        yield pair
    finally:
        pair.here.close()
        pair.there.close()
        # Sockets are closed in a later iteration.
        await iterations()


@asynccontextmanager
async def half() -> AsyncGenerator[tuple[ControlChannel, socket.socket]]:
    """One end, and a plain socket as the other."""
    ours, theirs = socket.socketpair()
    control = ControlChannel(ours, "process 'painter'")
    try:
        with theirs:
            yield control, theirs
    finally:
        control.close()
        await asyncio.sleep(0)


def frame_of(message: object, kind: int = MESSAGE, fds: int = 0) -> bytes:
    body = pickle.dumps(message, 5)
    return frame_header(len(body), kind, fds) + body


# -- messages ----------------------------------------------------------------------------------------------------------


async def test_only_one_task_receives() -> None:
    async with paired() as pair:
        waiting = asyncio.create_task(pair.there.receive())
        await iterations()
        with pytest.raises(
            InvalidArgumentError, match=r"^another task is already receiving from the parent: "
        ):
            await pair.there.receive()
        pair.here.send("now")
        assert (await waiting).body == "now"


async def test_a_cancelled_receive_loses_no_message() -> None:
    async with paired() as pair:
        waiting = asyncio.create_task(pair.there.receive())
        await iterations()
        pair.here.send("kept")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await pair.there.receive()).body == "kept"


async def test_unreceived_messages_make_the_sender_wait() -> None:
    async with paired() as pair:
        count = MAX_UNRECEIVED * 40
        for number in range(count):
            pair.here.send((number, b"." * 100))
        flushing = asyncio.create_task(pair.here.flush())
        await iterations(1000)
        assert not flushing.done()
        assert pair.here.unwritten > 0
        for number in range(count):
            assert (await pair.there.receive()).body[0] == number
        await flushing


async def test_send_rejects_what_cannot_be_pickled() -> None:
    async with paired() as pair:
        with pytest.raises(
            TypeError,
            match=r"^list cannot be sent to process 'painter': .*lambda.*; send only what can be pickled",
        ):
            pair.here.send([lambda: None])
        pair.here.send("next")
        assert (await pair.there.receive()).body == "next"


async def test_a_message_that_cannot_be_unpickled_does_not_affect_the_next() -> None:
    async with paired() as pair:
        before = len(os.listdir("/proc/self/fd"))
        pair.here.send(Unreadable(), [0])
        pair.here.send("next")
        with pytest.raises(
            InvalidMessageError,
            match=r"^a message from the parent cannot be unpickled: RuntimeError: not here$",
        ):
            await pair.there.receive()
        assert (await pair.there.receive()).body == "next"
        assert len(os.listdir("/proc/self/fd")) == before


async def test_notices_are_separate_from_messages() -> None:
    async with paired() as pair:
        pair.there.send("a message")
        pair.there.notify("a notice")
        pair.here.notify("has no callback")
        pair.here.send("a message")
        assert (await pair.here.receive()).body == "a message"
        assert (await pair.there.receive()).body == "a message"
        await iterations()
        assert pair.notices == ["a notice"]


# -- descriptors -------------------------------------------------------------------------------------------------------


async def test_a_descriptor_is_sent_as_a_copy_that_is_not_inherited() -> None:
    async with paired() as pair:
        read, write = os.pipe()
        pair.here.send("pipe", [write])
        # The channel sends a copy: this one may be closed at once.
        os.close(write)
        (fd,) = (await pair.there.receive()).fds
        assert not os.get_inheritable(fd)
        os.write(fd, b"here")
        os.close(fd)
        assert os.read(read, 10) == b"here"
        os.close(read)


async def test_too_many_descriptors_are_rejected() -> None:
    async with paired() as pair:
        pair.here.send("all", [0] * MAX_FDS)
        message = await pair.there.receive()
        assert len(message.fds) == MAX_FDS
        for fd in message.fds:
            os.close(fd)
        with pytest.raises(
            InvalidArgumentError,
            match=r"^a message to process 'painter' has 17 descriptors: the limit is 16$",
        ):
            pair.here.send("more", [0] * (MAX_FDS + 1))


async def test_an_invalid_descriptor_is_rejected() -> None:
    async with paired() as pair:
        with pytest.raises(OSError, match="Bad file descriptor") as caught:
            pair.here.send("what", [0, 1_000_000])
        assert caught.value.errno == errno.EBADF
        pair.here.send("next")
        assert (await pair.there.receive()).body == "next"


async def test_unreceived_descriptors_are_closed() -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    async with paired() as pair:
        for _ in range(5):
            pair.here.send("unread", [0, 0])
        await pair.here.flush()
        await iterations()
        # These are not written before the end.
        pair.here.send("unwritten", [0, 0])
    assert sorted(os.listdir("/proc/self/fd")) == before


async def test_descriptors_without_a_message_are_closed() -> None:
    before = len(os.listdir("/proc/self/fd"))
    async with half() as (control, other):
        socket.send_fds(other, [frame_of("one", fds=0)], [0])
        assert await control.receive() == ControlMessage("one", ())
    assert len(os.listdir("/proc/self/fd")) == before


# -- the end -----------------------------------------------------------------------------------------------------------


async def test_messages_written_before_the_end_are_received() -> None:
    async with paired() as pair:
        pair.there.send("one")
        pair.there.send("two")
        await pair.there.flush()
        pair.there.close()
        assert [message.body async for message in pair.here] == ["one", "two"]
        with pytest.raises(EOFError, match=r"^process 'painter': closed by the other end$"):
            await pair.here.receive()
        assert pair.ends == ["closed by the other end"]
        assert not pair.here.is_open


async def test_send_returns_false_after_the_end() -> None:
    async with paired() as pair:
        assert pair.here.is_open
        pair.there.close()
        with pytest.raises(EOFError):
            await pair.here.receive()
        assert not pair.here.send("too late", [0])
        await pair.here.flush()


@pytest.mark.guarantee("G139")
async def test_the_end_is_seen_after_the_other_end_has_left_data_unread() -> None:
    """libuv reports an error of a socket only once."""
    async with half() as (control, other):
        control.send("never read")
        await control.flush()
        other.sendall(frame_of("last message"))
        other.close()
        assert (await control.receive()).body == "last message"
        async with asyncio.timeout(SOON):
            with pytest.raises(EOFError, match="closed by the other end"):
                await control.receive()


async def test_writing_ends_while_reading_is_paused() -> None:
    async with half() as (control, other):
        # So many that this end stops reading, and does not see that the other end is closed.
        for number in range(MAX_UNRECEIVED + 1):
            other.sendall(frame_of(number))
            await asyncio.sleep(0)
        await iterations(5)
        other.close()
        assert control.send("unread")
        await control.flush()
        assert not control.send("too late")
        assert control.is_open
        assert [message.body async for message in control] == list(range(MAX_UNRECEIVED + 1))


async def test_close_ends_every_wait() -> None:
    async with paired() as pair:
        pair.here.send(b"x" * (8 << 20))
        flushing = asyncio.create_task(pair.here.flush())
        waiting = asyncio.create_task(pair.here.receive())
        for _ in range(3):
            await asyncio.sleep(0)
        pair.here.close()
        pair.here.close()
        await flushing
        with pytest.raises(EOFError, match="closed"):
            await waiting
        assert pair.ends == []


def test_it_can_be_closed_after_its_event_loop(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:

        async def make() -> Pair:
            pair = Pair()
            pair.here.send("never written", [0])
            return pair

        pair = runner.run(make())
    pair.here.close()
    pair.there.close()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff" * 100, r"invalid frame of kind 255 and 4294967295 bytes"),
        (frame_header(3, 2, 0) + b"abc", r"invalid frame of kind 2 and 3 bytes"),
        (frame_of("one", fds=2), r"2 descriptors were sent and 0 arrived: .*"),
        (frame_header(3, NOTICE, 0) + b"abc", r"a notice from process 'painter' cannot be unpickled: .*"),
    ],
)
async def test_an_invalid_stream_ends_it(data: bytes, reason: str) -> None:
    calls: list[str] = []
    ours, theirs = socket.socketpair()
    control = ControlChannel(ours, "process 'painter'", on_notice=calls.append, on_end=calls.append)  # type: ignore[arg-type]  # records both kinds
    with theirs:
        theirs.sendall(frame_of("well") + data)
        assert (await control.receive()).body == "well"
        with pytest.raises(EOFError, match=f"^process 'painter': {reason}$"):
            await control.receive()
        assert len(calls) == 1
    await asyncio.sleep(0)


async def test_finish_reads_everything_and_sets_the_reason() -> None:
    async with half() as (control, other):
        other.settimeout(0)
        count = 0
        while True:
            try:
                other.send(frame_of("." * 100))
            except BlockingIOError:
                break
            count += 1
        control.finish("killed by SIGKILL")
        received = 0
        async for message in control:
            received += message.body == "." * 100
        assert received == count > 10
        with pytest.raises(EOFError, match=r"^process 'painter': killed by SIGKILL$"):
            await control.receive()


# -- frames ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G287")
@pytest.mark.parametrize("where", ["feed", "recv"])
async def test_any_exception_while_reading_ends_it(
    monkeypatch: pytest.MonkeyPatch, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_arguments: object) -> Any:
        raise MemoryError

    ours, theirs = socket.socketpair()
    ends: list[str] = []
    control = ControlChannel(ours, "the parent", on_end=ends.append)
    with theirs:
        if where == "feed":
            monkeypatch.setattr("bandstand.pod.process.control.ControlFrameReader.feed", refuse)
        else:
            monkeypatch.setattr("bandstand.pod.process.control.socket.recv_fds", refuse)
        theirs.sendall(frame_of("something"))
        with pytest.raises(EOFError, match="reading from it failed \\(MemoryError\\)"):
            await control.receive()
        assert len(ends) == 1
    control.close()
    await asyncio.sleep(0)
    assert "MemoryError" in caplog.text


@pytest.mark.guarantee("G287")
async def test_a_replaced_descriptor_ends_it() -> None:
    ours, theirs = socket.socketpair()
    ends: list[str] = []
    control = ControlChannel(ours, "the parent", on_end=ends.append)
    with theirs:
        # Its number refers to another file, as after a double close.
        reader, writer = os.pipe()
        kept = os.dup(ours.fileno())
        os.dup2(reader, ours.fileno())
        control.send("something")
        await iterations()
        assert ends == ["writing to it failed (Socket operation on non-socket)"]
        for fd in (reader, writer, kept):
            os.close(fd)
    control.close()
    await asyncio.sleep(0)


@pytest.mark.guarantee("G288")
async def test_send_rejects_a_message_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bandstand.pod.process.control.MAX_FRAME_BYTES", 1000)
    async with paired() as pair:
        with pytest.raises(InvalidArgumentError, match=r"a bytes to .* takes 10.. bytes: the limit is 1000"):
            pair.here.send(bytes(1000))
        pair.here.send("short")
        assert (await pair.there.receive()).body == "short"
