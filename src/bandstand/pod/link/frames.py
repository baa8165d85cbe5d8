"""Frames: what the bytes of a link are cut into. A length, a kind, and so many bytes.

    HELLO     who is here, and whom it is going to address, in the order of their numbers; once, first
    MESSAGES  a run of messages of one lane, flat: a method's number and the data; of an ask its number in between
    ANSWERS   a run of answers, flat: the ask's number, what it ended with, and the value
    ACKS      how many one-way messages have ended since, flat: the method's number, handled, dead, dropped
    CHUNK     some bytes of a large buffer: its number, its whole size, and whether it is frozen, and the bytes
    END       a role of the other side that is to end, and how
    BYE       why this end closes the link, and whether it owes no acknowledgement; last

All but the bytes of chunks is MessagePack. The arriving bytes of a chunk are read into their place, not into a frame.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from bandstand.errors import BadMessage
from bandstand.pod.link.streams import Arrivals

__all__ = (
    "ACKS",
    "ANSWERS",
    "BYE",
    "CHUNK",
    "CHUNK_HEAD",
    "DRAIN",
    "END",
    "HEAD",
    "HELLO",
    "KILL",
    "MESSAGES",
    "STOP",
    "Frames",
    "framed",
)

HELLO: Final = 1
MESSAGES: Final = 2
ANSWERS: Final = 3
ACKS: Final = 4
CHUNK: Final = 5
BYE: Final = 6
END: Final = 7

# How a role is to end: at once, when it has handled what it has, or without being asked.
STOP: Final = 0
DRAIN: Final = 1
KILL: Final = 2

HEAD: Final = Struct("<IB")
CHUNK_HEAD: Final = Struct("<IQB")
ROOM: Final = 262_144
# Far above what a frame can have: whoever says more speaks another language.
LONGEST: Final = 16_777_216


def framed(kind: int, body: bytes) -> bytes:
    """A frame."""
    return HEAD.pack(len(body), kind) + body


class Frames:
    """The reading side: room for the bytes that come, and frames of them.

    Args:
        deliver: called with the kind and the bytes of each frame, which are good until it returns.
        arrivals: where the bytes of chunks belong.
    """

    __slots__ = ("_arrivals", "_chunk", "_deliver", "_end", "_start", "_store", "_view")

    def __init__(self, deliver: Callable[[int, memoryview], None], arrivals: Arrivals) -> None:
        self._deliver = deliver
        self._arrivals = arrivals
        self._store = bytearray(ROOM)
        self._view = memoryview(self._store)
        # What has come and is no frame yet.
        self._start = 0
        self._end = 0
        # Where the rest of a chunk belongs; None between chunks.
        self._chunk: memoryview | None = None

    def room(self) -> memoryview:
        """Where the next bytes are to be put."""
        if self._chunk is not None:
            return self._chunk
        return self._view[self._end :] if self._end else self._view

    def took(self, count: int) -> None:
        """So many bytes were put there: deliver what is whole.

        Raises:
            BadMessage: these are no frames.
        """
        chunk = self._chunk
        if chunk is not None:
            self._chunk = chunk[count:] if count < len(chunk) else None
            return
        self._end += count
        try:
            while self._end - self._start >= HEAD.size and self._next():
                pass
        finally:
            self._move_up()

    def _next(self) -> bool:
        """Deliver one frame, whose head is there; False if there is no whole one."""
        start = self._start + HEAD.size
        have = self._end - start
        size, kind = HEAD.unpack_from(self._store, self._start)
        if kind == CHUNK:
            return have >= CHUNK_HEAD.size and self._begin_chunk(start, size - CHUNK_HEAD.size)
        if size > LONGEST:
            raise BadMessage(f"a frame of {size} bytes came over the link: no frame is longer than {LONGEST}")
        if have < size:
            if size > len(self._store) - HEAD.size:
                self._grow(size)
            return False
        self._start = start + size
        self._deliver(kind, self._view[start : start + size])
        return True

    def _begin_chunk(self, start: int, size: int) -> bool:
        stream, total, is_frozen = CHUNK_HEAD.unpack_from(self._store, start)
        start += CHUNK_HEAD.size
        place = self._arrivals.place(stream, total, bool(is_frozen), size)
        here = min(size, self._end - start)
        place[:here] = self._view[start : start + here]
        self._start = start + here
        if here == size:
            return True
        self._chunk = place[here:]
        return False

    def _move_up(self) -> None:
        """Make room: what is no frame yet goes to the beginning."""
        left = self._end - self._start
        if left and self._start:
            self._store[:left] = self._store[self._start : self._end]
        self._start, self._end = 0, left

    def _grow(self, size: int) -> None:
        grown = bytearray(size + HEAD.size)
        grown[: self._end] = self._view[: self._end]
        self._store, self._view = grown, memoryview(grown)
