"""Large buffers, which are sent beside the message that they belong to: in chunks, so that other frames fit between them.

Almost all the time that a large buffer takes is spent on copies and on new memory, so both are kept to the least. On its way
out, an immutable buffer is not copied, and a mutable one is copied once, in the call: its later changes are not sent. On its way
in, it is received straight into the object that the receiver gets. Memory for large objects is requested in huge pages where the
system has them: it takes less than half the time to fill.

Compiled, `bytes` are received into like a bytearray, before any other code can see them. Interpreted, they are received into a
bytearray, and copied once in the end.

Refused: shared memory, whose pages are new for each message as well, and take longer to fill
([decision 38](../../../../docs/decisions/0038-large-buffers.md)).
"""

# The functions below have one definition for each mode, of which pyright sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, final

from bandstand.errors import InvalidMessageError
from bandstand.errors.formatting import safe_str

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

Count: TypeAlias = int
Buffer: TypeAlias = bytes | bytearray

LARGE = 65_536
"""A buffer with more bytes than this is sent as a part."""
CHUNK_SIZE = 1_048_576
# More than any sender has: a larger buffer means that the peer speaks another protocol.
MAX_BUFFER = 1 << 48
# Huge pages are requested for buffers from this size.
HUGE_SIZE = 4 * 1024 * 1024

if not cython.compiled:
    # Compiled, these are C functions in the .pxd.

    def new_store(size: Count, is_frozen: bool, huge_size: Count) -> Buffer:  # noqa: ARG001  # compiled, all are used
        """Return an object of `size` bytes that can be filled: bytes if it will be frozen and if this is possible."""
        return bytearray(size)

    def writable(store: Buffer) -> memoryview:
        """Return a view through which a new store is filled. The store must outlive it."""
        return memoryview(store)

    def new_copy(data: memoryview, huge_size: Count) -> bytes:  # noqa: ARG001  # same
        """Return the bytes of a view."""
        return bytes(data)


def copy_bytes(data: memoryview) -> bytes:
    """Return the bytes of a view, which is contiguous."""
    return new_copy(data, HUGE_SIZE)


class Part(NamedTuple):
    """A large buffer that is sent beside the pickle it belongs to."""

    data: memoryview
    is_frozen: bool
    """Whether it arrives as bytes; otherwise it arrives as a bytearray."""


# -- sending -----------------------------------------------------------------------------------------------------------


@final
class OutgoingBuffer:
    """A large buffer that is being sent, chunk by chunk."""

    __slots__ = ("_at", "_data", "is_frozen", "number", "on_sent", "size")

    def __init__(self, number: int, part: Part, on_sent: Callable[[], None] | None) -> None:
        self.number = number
        self._data = part.data.cast("B")
        self._at = 0
        self.size = self._data.nbytes
        self.is_frozen = part.is_frozen
        # Called after the last chunk, if this is the last buffer of its message.
        self.on_sent = on_sent

    def take_chunk(self) -> memoryview:
        """Return the next chunk."""
        chunk = self._data[self._at : self._at + CHUNK_SIZE]
        self._at += chunk.nbytes
        return chunk

    @property
    def is_sent(self) -> bool:
        """Whether the last chunk was taken."""
        return self._at >= self.size


@final
class OutgoingBuffers:
    """The buffers of one lane that are being sent. Messages take turns; the buffers of one message are sent in order."""

    __slots__ = ("_messages",)

    def __init__(self) -> None:
        self._messages: deque[deque[OutgoingBuffer]] = deque()

    def __bool__(self) -> bool:
        return bool(self._messages)

    def add(self, numbers: Sequence[int], parts: Sequence[Part], on_sent: Callable[[], None]) -> None:
        """Send the buffers of a message. `on_sent` is called when the last chunk is taken."""
        last = len(parts) - 1
        self._messages.append(
            deque(
                [
                    OutgoingBuffer(number, part, on_sent if index == last else None)
                    for index, (number, part) in enumerate(zip(numbers, parts, strict=True))
                ]
            )
        )

    def take_chunk(self) -> tuple[OutgoingBuffer, memoryview]:
        """Return the next chunk, and the buffer that it belongs to."""
        message = self._messages.popleft()
        buffer = message[0]
        chunk = buffer.take_chunk()
        if buffer.is_sent:
            message.popleft()
        if message:
            # To the end of the queue: a small message does not wait for a large one.
            self._messages.append(message)
        return buffer, chunk


# -- receiving ---------------------------------------------------------------------------------------------------------


@final
class IncomingBuffer:
    """A large buffer that is being received: bytes if it is frozen, otherwise a bytearray."""

    __slots__ = ("_at", "_is_frozen", "_size", "_store")

    def __init__(self, size: int, *, is_frozen: bool) -> None:
        self._size = size
        self._at = 0
        self._is_frozen = is_frozen
        self._store = new_store(size, is_frozen, HUGE_SIZE)

    def reserve(self, size: int) -> memoryview:
        """Return where to put the next `size` bytes. The buffer must outlive the view.

        Raises:
            InvalidMessageError: the buffer has no room for them.
        """
        if not 0 <= size <= self._size - self._at:
            raise InvalidMessageError("the link received a buffer that is longer than announced")
        self._at += size
        return writable(self._store)[self._at - size : self._at]

    def finish(self) -> Buffer:
        """Return the buffer.

        Raises:
            InvalidMessageError: some of its bytes are missing.
        """
        if self._at != self._size:
            raise InvalidMessageError("the link received a message before its buffers")
        return bytes(self._store) if self._is_frozen else self._store


@final
class IncomingBuffers:
    """The large buffers that are being received, by number. A reserved place is filled before the next call."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: dict[int, IncomingBuffer] = {}

    def reserve(self, number: int, total: int, is_frozen: bool, size: int) -> memoryview:
        """Return where to put the next `size` bytes of a buffer. This object must outlive the view.

        Raises:
            InvalidMessageError: the size of the chunk or of the buffer is not valid.
            MemoryError: there is no memory for the buffer.
        """
        # Negative if the frame is shorter than the header of a chunk.
        if not 0 <= size <= CHUNK_SIZE:
            raise InvalidMessageError(
                f"the link received a chunk of {size} bytes: the allowed sizes are 0 to {CHUNK_SIZE}"
            )
        buffer = self._buffers.get(number)
        if buffer is None:
            if total > MAX_BUFFER:
                raise InvalidMessageError(
                    f"the link received a chunk of a buffer of {total} bytes: the longest allowed has {MAX_BUFFER}"
                )
            buffer = IncomingBuffer(total, is_frozen=is_frozen)
            self._buffers[number] = buffer
        return buffer.reserve(size)

    def take(self, numbers: Sequence[int]) -> list[Buffer]:
        """Return buffers that have arrived.

        Raises:
            InvalidMessageError: one of them has not arrived, or not completely.
        """
        try:
            return [self._buffers.pop(number).finish() for number in numbers]
        except KeyError as error:
            raise InvalidMessageError(
                f"the link received a message whose buffer {safe_str(error)} has not arrived"
            ) from None
