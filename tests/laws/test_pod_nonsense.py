"""Any bytes on a link are accepted, or refused with a named error: a link never crashes.

The modules that read them are compiled without checks of bounds, so they must check what they read.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.errors import InvalidMessageError
from bandstand.pod.link.codec import Unpacker
from bandstand.pod.link.large_buffers import IncomingBuffers
from bandstand.pod.link.protocol import ACKS, ANSWERS, CHUNK, CHUNK_HEADER, HEADER, MAX_FRAME, MESSAGES
from bandstand.pod.link.receiver import FrameDispatcher, Receiver
from bandstand.pod.link.sender import InFlightTable
from bandstand.pod.link.transport import FrameReader, WriteQueue

ROLES = [("here", ["one", "two", "three"]), ("nowhere", ["one"])]

numbers = st.integers(-6, 6) | st.integers(-(2**63), 2**64 - 1)
values = st.none() | st.booleans() | numbers | st.floats() | st.text(max_size=4) | st.binary(max_size=4)
entries = values | st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=2), values, max_size=2)
kinds = st.sampled_from([MESSAGES, ANSWERS, ACKS]) | st.integers(0, 255)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A frame of a run that may make sense, of a chunk, or of any bytes."""
    way = draw(st.sampled_from(["run", "chunk", "bytes"]))
    if way == "run":
        body = msgspec.msgpack.encode(draw(st.lists(numbers | entries, max_size=12)))
        return HEADER.pack(len(body), draw(kinds)) + body
    if way == "chunk":
        size = draw(st.integers(0, 64))
        head = CHUNK_HEADER.pack(draw(st.integers(0, 3)), draw(st.integers(0, 80)), draw(st.integers(0, 1)))
        return HEADER.pack(CHUNK_HEADER.size + size, CHUNK) + head + bytes(size)
    body = draw(st.binary(max_size=40))
    return HEADER.pack(draw(st.just(len(body)) | st.integers(0, MAX_FRAME + 2)), draw(kinds)) + body


class Reader:
    """The reading side of a link whose other roles have all ended."""

    def __init__(self) -> None:
        self.buffers = buffers = IncomingBuffers()
        unpacker = Unpacker(buffers.take, None)
        self.queue = WriteQueue()
        self.receiver = Receiver(lambda _role: None, self.queue, unpacker, ())
        self.queue.attach(self.receiver, None)
        in_flight = InFlightTable("there", unpacker, lambda _message: None)
        self.frames = FrameReader(FrameDispatcher(self.receiver, in_flight, self.take_other), buffers)
        self.receiver.expect(ROLES)

    def take_other(self, _kind: int, _body: bytes | bytearray | memoryview) -> None: ...

    def feed(self, data: bytes, cut: Callable[[int], int]) -> None:
        """Receive the bytes in pieces."""
        rest = memoryview(data)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            while rest:
                # No more than the socket takes at once.
                size = theirs.send(rest[: max(1, min(len(rest), cut(len(rest))))])
                rest = rest[size:]
                while size:
                    count = self.frames.receive(ours, ours.fileno())
                    self.frames.dispatch_received(count)
                    size -= count


@given(frames=st.lists(frames(), max_size=6), data=st.data())
def test_nonsense_is_taken_or_refused_by_name(frames: list[bytes], data: st.DataObject) -> None:
    reader = Reader()
    # Entries may be no numbers, or too large to count, and a buffer may be too large to allocate. Each of these ends the link.
    with suppress(InvalidMessageError, TypeError, OverflowError, MemoryError):
        reader.feed(b"".join(frames), lambda left: data.draw(st.integers(1, left)))
    assert reader.receiver.received >= 0


@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=4), is_frozen=st.booleans(), data=st.data())
def test_chunks_arrive_whole_however_they_are_cut(
    sizes: list[int], is_frozen: bool, data: st.DataObject
) -> None:
    reader = Reader()
    whole = bytes(range(sum(sizes)))
    frames = at = 0
    sent = b""
    for size in sizes:
        head = CHUNK_HEADER.pack(7, len(whole), is_frozen)
        message = msgspec.msgpack.encode([1, "x"])
        sent += HEADER.pack(CHUNK_HEADER.size + size, CHUNK) + head + whole[at : at + size]
        at += size
        if data.draw(st.booleans()):
            # A message between two chunks.
            sent += HEADER.pack(len(message), MESSAGES) + message
            frames += 1
    reader.feed(sent, lambda left: data.draw(st.integers(1, left)))
    (got,) = reader.buffers.take([7])
    assert type(got) is (bytes if is_frozen else bytearray)
    assert got == whole
    assert reader.receiver.received == frames


@pytest.mark.parametrize(
    "chunk",
    [
        HEADER.pack(1, CHUNK) + bytes(CHUNK_HEADER.size),
        HEADER.pack(CHUNK_HEADER.size - 1, CHUNK) + CHUNK_HEADER.pack(1, 1 << 60, 1),
        HEADER.pack(CHUNK_HEADER.size + 1, CHUNK) + CHUNK_HEADER.pack(1, 1 << 60, 1) + b"x",
        HEADER.pack(CHUNK_HEADER.size + 1, CHUNK) + CHUNK_HEADER.pack(1, (1 << 64) - 1, 0) + b"x",
    ],
    ids=["shorter than its header", "negative size", "too large", "beyond any size"],
)
def test_a_chunk_that_cannot_be_stored_is_refused(chunk: bytes) -> None:
    with pytest.raises(InvalidMessageError, match="the link received a"):
        Reader().feed(chunk, lambda left: left)


@given(flat=st.lists(numbers | entries, max_size=12))
def test_half_a_message_or_an_unknown_method_is_refused_before_anything_of_it_is_taken(
    flat: list[Any],
) -> None:
    """What stands before it in the same run has been taken."""
    reader = Reader()
    count = sum(len(names) for _, names in ROLES)
    expected = at = 0
    is_bad = False
    while at < len(flat):
        code = flat[at]
        is_bad = (
            type(code) is not int or not -count <= code <= count or len(flat) - at < (3 if code < 0 else 2)
        )
        if is_bad or (code <= 0 and type(flat[at + 1]) is not int):
            is_bad = True
            break
        expected += code != 0
        at += 3 if code < 0 else 2
    try:
        reader.receiver.take_messages(flat)
    except InvalidMessageError:
        assert is_bad
    else:
        assert not is_bad
    assert reader.receiver.received == expected
