"""The message log: the last messages that passed the router, in memory; and a safe way to append to a log of another kind.

The log in memory has two limits, a number of messages and a number of bytes: many small messages would exceed one, and a few large ones the other.
It drops the oldest first. Every message is appended, so the cost of `append` does not depend on how many messages are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bandstand.bus.frame import data_of
from bandstand.bus.tracing import lineage_of
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from collections.abc import Callable

    from bandstand.bus.frame import Frame
    from bandstand.bus.protocols import Log

__all__ = ("MemoryLog", "safe_appender")

Count: TypeAlias = int

logger = SafeLogger("bandstand.bus")


class MemoryLog:
    """A ring buffer of the last frames. It implements `Log`.

    Args:
        messages: the maximum number of frames.
        bytes: the maximum number of bytes of data in all frames. Envelopes are not counted: they are small.

    Raises:
        InvalidArgumentError: a limit is not a positive int.
    """

    __slots__ = ("_bytes", "_count", "_frames", "_messages", "_start", "held_bytes", "skipped")

    def __init__(self, messages: int = 256, bytes: int = 8 << 20) -> None:  # noqa: A002  # it is what is counted
        for name, value in (("messages", messages), ("bytes", bytes)):
            if type(value) is not int or not 1 <= value < 1 << 40:
                raise InvalidArgumentError(f"MemoryLog: {name} is {safe_repr(value)}: pass an int from 1 on")
        self._messages: Count = messages
        self._bytes: Count = bytes
        # A ring buffer that grows up to `messages`: the entries in use are `_count` from `_start` on.
        self._frames: list[Frame | None] = []
        self._start: Count = 0
        self._count: Count = 0
        # The number of bytes of data in the frames.
        self.held_bytes: Count = 0
        # The number of frames that were not kept, because one alone exceeds the limit of bytes.
        self.skipped: Count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, frame: Frame) -> None:
        """Append a frame, and drop the oldest ones if a limit is exceeded."""
        size = len(data_of(frame))
        if size > self._bytes:
            self.skipped += 1
            return
        if self._count == self._messages:
            self._drop_oldest()
        place = self._start + self._count
        if place >= self._messages:
            place -= self._messages
        if place == len(self._frames):
            self._frames.append(frame)
        else:
            self._frames[place] = frame
        self._count += 1
        self.held_bytes += size
        while self.held_bytes > self._bytes:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        start = self._start
        oldest = self._frames[start]
        assert oldest is not None
        self._frames[start] = None
        self.held_bytes -= len(data_of(oldest))
        self._count -= 1
        start += 1
        self._start = 0 if start == self._messages else start

    def recent(self, limit: int) -> tuple[Frame, ...]:
        """Return the last frames, at most `limit`, the oldest first.

        Raises:
            InvalidArgumentError: the limit is negative.
        """
        if limit < 0:
            raise InvalidArgumentError(
                f"MemoryLog.recent: limit is {safe_repr(limit)}: pass an int from 0 on"
            )
        frames = [*self._frames[self._start :], *self._frames[: self._start]]
        kept = [frame for frame in frames if frame is not None]
        return tuple(kept[max(0, len(kept) - limit) :])

    def lineage(self, name: str, limit: int) -> tuple[Frame, ...]:
        """Return the frame with this id, the frames that caused it, and those that it caused; at most `limit` in all."""
        return lineage_of(self.recent(self._count), name, limit)

    def close(self) -> None:
        """Do nothing: there is nothing to release, and the frames can still be read."""


def safe_appender(log: Log) -> Callable[[Frame], None]:
    """Return a function that appends to a log and does not raise: a log that fails must not stop the node."""
    if type(log) is MemoryLog:
        return log.append

    def append(frame: Frame) -> None:
        try:
            log.append(frame)
        except Exception:  # a log of the user's own can raise anything
            logger.exception("the log %r has failed: %s %s was not logged", log, frame.kind, frame.type)

    return append
