"""The control channel delivers every message once, in order and with its descriptors, however the stream is split."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.pod.process.control import (
    MESSAGE,
    NOTICE,
    ControlChannel,
    ControlFrame,
    ControlFrameReader,
    frame_header,
)
from bandstand.testing.leaks import Leaks

pytestmark = pytest.mark.spec("S19")

# A message, and how many descriptors it has.
MESSAGES = st.lists(st.tuples(st.binary(max_size=300), st.integers(0, 3)), max_size=30)


@given(
    bodies=st.lists(
        st.tuples(st.binary(min_size=1, max_size=50), st.sampled_from([MESSAGE, NOTICE]), st.integers(0, 3))
    ),
    cuts=st.lists(st.integers(1, 40), min_size=1),
)
def test_frames_are_the_same_however_the_stream_is_split(
    bodies: list[tuple[bytes, int, int]], cuts: list[int]
) -> None:
    stream = b"".join(frame_header(len(body), kind, fd_count) + body for body, kind, fd_count in bodies)
    # Descriptors arrive with the first byte of their frame. The numbers are consecutive.
    starts: dict[int, list[int]] = {}
    at, number = 0, 1000
    wanted: list[ControlFrame] = []
    for body, kind, fd_count in bodies:
        fds = tuple(range(number, number + fd_count))
        starts[at] = list(fds)
        wanted.append(ControlFrame(kind, body, fds))
        number += fd_count
        at += len(frame_header(0, 0, 0)) + len(body)
    reader = ControlFrameReader()
    found: list[ControlFrame] = []
    at = turn = 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        turn += 1
        arrived = [fd for start, fds in starts.items() if at <= start < at + size for fd in fds]
        found += reader.feed(stream[at : at + size], arrived)
        at += size
    assert found == wanted


@given(messages=MESSAGES, buffer=st.sampled_from([1, 5000, 1 << 16]), turns=st.integers(0, 3))
def test_messages_arrive_once_in_order_with_their_descriptors(
    messages: list[tuple[bytes, int]],
    buffer: int,
    turns: int,
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def body() -> None:
        here, there = socket.socketpair()
        # A small buffer makes writes partial.
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        sender, receiver = ControlChannel(here, "there"), ControlChannel(there, "here")
        for number, (data, fds) in enumerate(messages):
            assert sender.send((number, data * 50), [0] * fds)
            for _ in range(turns):
                await asyncio.sleep(0)
        for number, (data, fds) in enumerate(messages):
            message = await receiver.receive()
            assert message.body == (number, data * 50)
            assert len(message.fds) == fds
            for fd in message.fds:
                assert os.fstat(fd).st_ino == os.fstat(0).st_ino
                os.close(fd)
        await sender.flush()
        sender.close()
        with pytest.raises(EOFError):
            await receiver.receive()
        await asyncio.sleep(0)

    before = Leaks.now()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(body(), 30))
    assert before.since() == []
