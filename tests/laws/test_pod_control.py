"""The control channel, whatever is sent and however it is cut: every word comes once, in order, with its own descriptors."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.pod.process.control import Control
from bandstand.pod.process.letters import NOTICE, WORD, Frame, Inbox, frame_head
from bandstand.testing.leaks import Leaks

pytestmark = pytest.mark.spec("S19")

# A word, and how many descriptors it brings.
WORDS = st.lists(st.tuples(st.binary(max_size=300), st.integers(0, 3)), max_size=30)


@given(
    bodies=st.lists(
        st.tuples(st.binary(min_size=1, max_size=50), st.sampled_from([WORD, NOTICE]), st.integers(0, 3))
    ),
    cuts=st.lists(st.integers(1, 40), min_size=1),
)
def test_frames_are_the_same_however_the_stream_is_cut(
    bodies: list[tuple[bytes, int, int]], cuts: list[int]
) -> None:
    stream = b"".join(frame_head(len(body), kind, brings) + body for body, kind, brings in bodies)
    # Descriptors come with the first byte of their frame, numbered here as they go.
    starts: dict[int, list[int]] = {}
    at, number = 0, 1000
    wanted: list[Frame] = []
    for body, kind, brings in bodies:
        fds = tuple(range(number, number + brings))
        starts[at] = list(fds)
        wanted.append(Frame(kind, body, fds))
        number += brings
        at += len(frame_head(0, 0, 0)) + len(body)
    inbox = Inbox()
    found: list[Frame] = []
    at = turn = 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        turn += 1
        came = [fd for start, fds in starts.items() if at <= start < at + size for fd in fds]
        found += inbox.feed(stream[at : at + size], came)
        at += size
    assert found == wanted


@given(words=WORDS, buffer=st.sampled_from([1, 5000, 1 << 16]), turns=st.integers(0, 3))
def test_words_come_once_in_order_with_their_descriptors(
    words: list[tuple[bytes, int]],
    buffer: int,
    turns: int,
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def body() -> None:
        here, there = socket.socketpair()
        # As small as the operating system allows: writes are partial, and wait.
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
        sender, receiver = Control(here, "there"), Control(there, "here")
        for number, (word, brings) in enumerate(words):
            assert sender.send((number, word * 50), [0] * brings)
            for _ in range(turns):
                await asyncio.sleep(0)
        for number, (word, brings) in enumerate(words):
            letter = await receiver.receive()
            assert letter.word == (number, word * 50)
            assert len(letter.fds) == brings
            for fd in letter.fds:
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
