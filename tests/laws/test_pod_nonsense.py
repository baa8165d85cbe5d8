"""Whatever bytes come over a link: they are taken, or refused by name. Nothing else comes of them, and nobody crashes.

The modules that read them are compiled without checks of bounds, so that what they read must be checked by them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bandstand.errors import BadMessage
from bandstand.pod.link.codec import Unpacker
from bandstand.pod.link.hot.frames import Frames
from bandstand.pod.link.hot.inbound import Inbound
from bandstand.pod.link.hot.ledger import Ledger
from bandstand.pod.link.hot.sorting import Sorting
from bandstand.pod.link.hot.tray import Tray
from bandstand.pod.link.numbers import ACKS, ANSWERS, CHUNK, CHUNK_HEAD, HEAD, LONGEST, MESSAGES
from bandstand.pod.link.streams import Arrivals

ROLES = [("here", ["one", "two", "three"]), ("nowhere", ["one"])]

numbers = st.integers(-6, 6) | st.integers(-(2**63), 2**64 - 1)
values = st.none() | st.booleans() | numbers | st.floats() | st.text(max_size=4) | st.binary(max_size=4)
entries = values | st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=2), values, max_size=2)
kinds = st.sampled_from([MESSAGES, ANSWERS, ACKS]) | st.integers(0, 255)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """A frame: of a run that may make sense, of a chunk, or of any bytes."""
    way = draw(st.sampled_from(["run", "chunk", "bytes"]))
    if way == "run":
        body = msgspec.msgpack.encode(draw(st.lists(numbers | entries, max_size=12)))
        return HEAD.pack(len(body), draw(kinds)) + body
    if way == "chunk":
        size = draw(st.integers(0, 64))
        head = CHUNK_HEAD.pack(draw(st.integers(0, 3)), draw(st.integers(0, 80)), draw(st.integers(0, 1)))
        return HEAD.pack(CHUNK_HEAD.size + size, CHUNK) + head + bytes(size)
    body = draw(st.binary(max_size=40))
    return HEAD.pack(draw(st.just(len(body)) | st.integers(0, LONGEST + 2)), draw(kinds)) + body


class Reader:
    """The reading side of a link whose other roles have all ended."""

    def __init__(self) -> None:
        arrivals = Arrivals()
        unpacker = Unpacker(arrivals.take, None)
        self.tray = Tray()
        self.inbound = Inbound(lambda _role: None, self.tray, unpacker, ())
        self.tray.join(self.inbound.acks, lambda: None)
        ledger = Ledger("there", unpacker, lambda _letter: None)
        self.frames = Frames(Sorting(self.inbound, ledger, self.rare), arrivals)
        self.inbound.expect(ROLES)

    def rare(self, _kind: int, _body: memoryview) -> None: ...

    def feed(self, data: bytes, cut: Callable[[int], int]) -> None:
        """Have bytes come in, in pieces."""
        rest = memoryview(data)
        while rest:
            room = self.frames.room()
            size = max(1, min(len(room), len(rest), cut(len(rest))))
            room[:size] = rest[:size]
            self.frames.took(size)
            rest = rest[size:]


@given(frames=st.lists(frames(), max_size=6), data=st.data())
def test_nonsense_is_taken_or_refused_by_name(frames: list[bytes], data: st.DataObject) -> None:
    reader = Reader()
    # The other is of numbers that are too large to be counted, or no numbers; the wire ends for any.
    with suppress(BadMessage, TypeError, OverflowError):
        reader.feed(b"".join(frames), lambda left: data.draw(st.integers(1, left)))
    assert reader.inbound.received >= 0


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
        reader.inbound.take(flat)
    except BadMessage:
        assert is_bad
    else:
        assert not is_bad
    assert reader.inbound.received == expected
