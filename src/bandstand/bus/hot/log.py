"""The log in memory: the last messages that passed the router, for whoever wants to look at what has just happened.

It is bounded twice, because either bound alone can be blown: by a flood of small messages, or by a few huge ones. The oldest
goes first. It stands in the path of every message, so `append` does nothing that depends on how much is kept.

`bytes` counts the data of the messages and not their envelopes: those are small, and `messages` bounds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bandstand.bus.descent import lineage_of
from bandstand.bus.hot.fields import data_of
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame

Count: TypeAlias = int


class MemoryLog:
    """A ring of the last frames. It is a `Log`.

    Args:
        messages: how many frames are kept at most.
        bytes: how many bytes of data they may hold together.

    Raises:
        InvalidArgument: a bound is no number from 1 on.
    """

    __slots__ = ("_bytes", "_count", "_frames", "_messages", "_sizes", "_start", "held_bytes", "skipped")

    def __init__(self, messages: int = 256, bytes: int = 8 << 20) -> None:  # noqa: A002  # it is what is counted
        for name, value in (("messages", messages), ("bytes", bytes)):
            if type(value) is not int or not 1 <= value < 1 << 40:
                raise InvalidArgument(f"MemoryLog: {name} is {safe_repr(value)}: pass an int from 1 on")
        self._messages: Count = messages
        self._bytes: Count = bytes
        # Rings that grow to their size: `_count` places from `_start` on are taken.
        self._frames: list[Frame | None] = []
        self._sizes: list[int] = []
        self._start: Count = 0
        self._count: Count = 0
        # How many bytes of data are kept now.
        self.held_bytes: Count = 0
        # How many frames were not kept, because one alone is more than the log may hold.
        self.skipped: Count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, frame: Frame) -> None:
        """Keep one frame, and forget the oldest as far as it needs their room."""
        size = len(data_of(frame))
        if size > self._bytes:
            self.skipped += 1
            return
        if self._count == self._messages:
            self._forget()
        place = self._start + self._count
        if place >= self._messages:
            place -= self._messages
        if place == len(self._frames):
            self._frames.append(frame)
            self._sizes.append(size)
        else:
            self._frames[place] = frame
            self._sizes[place] = size
        self._count += 1
        self.held_bytes += size
        while self.held_bytes > self._bytes:
            self._forget()

    def _forget(self) -> None:
        start = self._start
        self._frames[start] = None
        self.held_bytes -= self._sizes[start]
        self._count -= 1
        start += 1
        self._start = 0 if start == self._messages else start

    def recent(self, limit: int) -> tuple[Frame, ...]:
        """The last frames, the oldest first; at most `limit` of them.

        Raises:
            InvalidArgument: the limit is below 0.
        """
        if limit < 0:
            raise InvalidArgument(f"MemoryLog.recent: limit is {safe_repr(limit)}: pass an int from 0 on")
        frames = [*self._frames[self._start :], *self._frames[: self._start]]
        kept = [frame for frame in frames if frame is not None]
        return tuple(kept[max(0, len(kept) - limit) :])

    def lineage(self, name: str, limit: int) -> tuple[Frame, ...]:
        """The frame with this id, those it follows from, and all that follow from it; at most `limit` of them."""
        return lineage_of(self.recent(self._count), name, limit)

    def close(self) -> None:
        """Nothing is to be released: what was kept can still be read."""
