"""Frames: what the bytes of a link are cut into. A length, a kind, and so many bytes.

    HELLO     who is here, and whom it is going to address, in the order of their numbers; once, first
    MESSAGES  a run of messages of one lane, flat: a method's number and the data; of an ask its number in between
    ANSWERS   a run of answers, flat: the ask's number, what it ended with, and the value
    ACKS      how many one-way messages have ended since, flat: the method's number, handled, dead, dropped
    CHUNK     some bytes of a large buffer: its number, its whole size, and whether it is frozen, and the bytes
    END       a role of the other side that is to end, and how
    BYE       why this end closes the link, whether it owes no acknowledgement, and whether it has failed; last
    PING      a number, which the other side sends back as it is
    PONG      that number

All but the bytes of chunks is MessagePack. The arriving bytes of a chunk are read into their place, not into a frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bandstand.errors import BadMessage
from bandstand.pod.link.numbers import CHUNK, CHUNK_HEAD, HEAD, LONGEST

if TYPE_CHECKING:
    from bandstand.pod.link.hot.sorting import Sorting
    from bandstand.pod.link.streams import Arrivals

Count: TypeAlias = int
Kind: TypeAlias = int

ROOM = 262_144
HEAD_SIZE = HEAD.size
CHUNK_HEAD_SIZE = CHUNK_HEAD.size


class Frames:
    """The reading side: room for the bytes that come, and frames of them.

    Args:
        sorting: given the kind and the bytes of each frame, which are good until it returns.
        arrivals: where the bytes of chunks belong.
    """

    __slots__ = ("_arrivals", "_chunk", "_end", "_sorting", "_start", "_store", "_view")

    def __init__(self, sorting: Sorting, arrivals: Arrivals) -> None:
        self._sorting = sorting
        self._arrivals = arrivals
        self._store = bytearray(ROOM)
        self._view = memoryview(self._store)
        # What has come and is no frame yet.
        self._start: Count = 0
        self._end: Count = 0
        # Where the rest of a chunk belongs; None between chunks.
        self._chunk: memoryview | None = None

    def room(self) -> memoryview:
        """Where the next bytes are to be put."""
        if self._chunk is not None:
            return self._chunk
        return self._view[self._end :] if self._end else self._view

    def took(self, count: Count) -> None:
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
            while self._end - self._start >= HEAD_SIZE and self.next():
                pass
        finally:
            self.move_up()

    def next(self) -> bool:
        """Deliver one frame, whose head is there; False if there is no whole one."""
        start = self._start + HEAD_SIZE
        have = self._end - start
        size, kind = HEAD.unpack_from(self._store, self._start)
        if kind == CHUNK:
            return have >= CHUNK_HEAD_SIZE and self.begin_chunk(start, size - CHUNK_HEAD_SIZE)
        if size > LONGEST:
            raise BadMessage(f"a frame of {size} bytes came over the link: no frame is longer than {LONGEST}")
        if have < size:
            if size > len(self._store) - HEAD_SIZE:
                self.grow(size)
            return False
        self._start = start + size
        self._sorting.deliver(kind, self._view[start : start + size])
        return True

    def begin_chunk(self, start: Count, size: Count) -> bool:
        """Put what there is of a chunk into its place, and the rest when it comes; whether it is all there."""
        stream, total, is_frozen = CHUNK_HEAD.unpack_from(self._store, start)
        start += CHUNK_HEAD_SIZE
        place = self._arrivals.place(stream, total, bool(is_frozen), size)
        here = min(size, self._end - start)
        place[:here] = self._view[start : start + here]
        self._start = start + here
        if here == size:
            return True
        self._chunk = place[here:]
        return False

    def move_up(self) -> None:
        """Make room: what is no frame yet goes to the beginning."""
        left = self._end - self._start
        if left and self._start:
            self._store[:left] = self._store[self._start : self._end]
        self._start, self._end = 0, left

    def grow(self, size: Count) -> None:
        """Make room for a frame that is larger than all there is."""
        grown = bytearray(size + HEAD_SIZE)
        grown[: self._end] = self._view[: self._end]
        self._store, self._view = grown, memoryview(grown)
