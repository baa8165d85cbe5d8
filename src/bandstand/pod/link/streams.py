"""Large buffers on their way: in chunks, between which everything else finds its place.

A buffer is sent chunk by chunk, and its message when all its buffers are there; so whoever takes the message finds them complete.
On the other side the bytes of a bytearray go straight from the socket to where they stay. Into bytes nobody can read: a chunk of
them is read into one place that serves for all, still warm when it is written to a BytesIO, which gives away in the end the very
bytes that it was writing to. Its buffer could be read into, too, and one copy saved. But a link may end in the middle of a chunk
and be collected with everything it had, and CPython 3.12 crashes when it clears a BytesIO's buffer before the view of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Final, final

from bandstand.errors import BadMessage
from bandstand.errors.formatting import safe_str

if TYPE_CHECKING:
    from bandstand.pod.link.codec import Part

__all__ = ("CHUNK_SIZE", "Arrivals", "Departures", "Stream")

CHUNK_SIZE: Final = 262_144


@final
class Stream:
    """One buffer that is being sent."""

    __slots__ = ("_at", "_data", "is_frozen", "last", "number", "size")

    def __init__(self, number: int, part: Part, last: Callable[[], None] | None) -> None:
        self.number = number
        self._data = part.data.cast("B")
        self._at = 0
        self.size = self._data.nbytes
        self.is_frozen = part.is_frozen
        # What happens when it has been sent, if it is the last of its message.
        self.last = last

    def take(self) -> memoryview:
        """The next chunk."""
        chunk = self._data[self._at : self._at + CHUNK_SIZE]
        self._at += chunk.nbytes
        return chunk

    @property
    def is_over(self) -> bool:
        """Whether the last chunk has been taken."""
        return self._at >= self.size


class Departures:
    """The buffers of one lane that are being sent: messages take turns, the buffers of one go one after the other."""

    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages: deque[deque[Stream]] = deque()

    def __bool__(self) -> bool:
        return bool(self._messages)

    def add(self, numbers: Sequence[int], parts: Sequence[Part], last: Callable[[], None]) -> None:
        """Send the buffers of a message; `last` is called when the last chunk of the last one is taken."""
        end = len(parts) - 1
        self._messages.append(
            deque(
                Stream(number, part, last if place == end else None)
                for place, (number, part) in enumerate(zip(numbers, parts, strict=True))
            )
        )

    def take(self) -> tuple[Stream, memoryview]:
        """The next chunk, and of what it is one."""
        message = self._messages.popleft()
        stream = message[0]
        chunk = stream.take()
        if stream.is_over:
            message.popleft()
        if message:
            # To the end of the line: a small one need not wait for a large one.
            self._messages.append(message)
        return stream, chunk


@final
class Arrival:
    """One buffer that is coming, as it will be given away: bytes if it is frozen, else a bytearray."""

    __slots__ = ("_at", "_file", "_size", "_store")

    def __init__(self, size: int, *, is_frozen: bool) -> None:
        self._size = size
        self._at = 0
        self._store = bytearray() if is_frozen else bytearray(size)
        self._file = BytesIO(bytes(size)) if is_frozen else None

    def place(self, size: int, between: memoryview) -> memoryview:
        """Where the next so many bytes are to be put: where they stay, or `between`, if nothing can be put there."""
        if not 0 <= size <= self._size - self._at:
            raise BadMessage("a buffer that came over the link is longer than was said")
        self._at += size
        if self._file is not None:
            return between[:size]
        return memoryview(self._store)[self._at - size : self._at]

    def settle(self, chunk: memoryview) -> None:
        """Take over what was put between."""
        if self._file is not None:
            self._file.write(chunk)

    def finish(self) -> bytes | bytearray:
        """The whole buffer."""
        if self._at != self._size:
            raise BadMessage("a message came over the link before its buffers")
        return self._store if self._file is None else self._file.getvalue()


class Arrivals:
    """The buffers that are coming, by number. A place that was given out is filled before anything else is asked for."""

    __slots__ = ("_between", "_buffers", "_filling")

    def __init__(self) -> None:
        self._buffers: dict[int, Arrival] = {}
        self._between = memoryview(b"")
        # What is being filled, and where.
        self._filling: tuple[Arrival, memoryview] | None = None

    def place(self, number: int, total: int, is_frozen: bool, size: int) -> memoryview:
        """Where the next bytes of a buffer are to be put.

        Raises:
            BadMessage: they are more than it was to have, or than a chunk has.
        """
        self._settle()
        if size > CHUNK_SIZE:
            raise BadMessage(f"a chunk of {size} bytes came over the link: none is longer than {CHUNK_SIZE}")
        buffer = self._buffers.get(number)
        if buffer is None:
            buffer = self._buffers[number] = Arrival(total, is_frozen=is_frozen)
        if is_frozen and not self._between:
            self._between = memoryview(bytearray(CHUNK_SIZE))
        place = buffer.place(size, self._between)
        self._filling = (buffer, place)
        return place

    def take(self, numbers: Sequence[int]) -> list[bytes | bytearray]:
        """Buffers that have come, whole.

        Raises:
            BadMessage: one has not.
        """
        self._settle()
        try:
            return [self._buffers.pop(number).finish() for number in numbers]
        except KeyError as error:
            raise BadMessage(f"a message came over the link whose buffer {safe_str(error)} has not") from None

    def _settle(self) -> None:
        if self._filling is not None:
            buffer, chunk = self._filling
            self._filling = None
            buffer.settle(chunk)
