"""The control channel between a process and the child process it has started.

The channel is a pair of Unix stream sockets. It carries pickled objects, with file descriptors attached, in both directions and
in order. Both ends run on an event loop and never block: what the socket does not accept waits in memory, and an end with too
many unreceived messages stops reading, so that the sender has to wait.

The channel ends when the other end is closed, which includes the end of its process. Messages written before that can still be
received.

Each frame is a header (length, kind, number of descriptors) followed by the pickled object. Descriptors arrive beside the bytes,
with the first byte of their frame and in order, so the header only has to count them.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from errno import ECONNRESET, EPIPE
from struct import Struct
from typing import Any, NamedTuple, final

from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgumentError, InvalidMessageError
from bandstand.errors.formatting import describe_exception, safe_str
from bandstand.pod.threads import close_in_forks

__all__ = ("ControlChannel", "ControlMessage", "close_fds", "pickle_message", "unpickle_message")

logger = SafeLogger("bandstand.pod")

MESSAGE = 0
"""The kind of a frame for `ControlChannel.receive`."""
NOTICE = 1
"""The kind of a frame for the `on_notice` callback."""

MAX_FDS = 16
"""The limit of descriptors in one message. The operating system would allow some more."""
MAX_FRAME_BYTES = 1 << 30
"""The limit of one pickled message."""
MAX_UNRECEIVED = 1024
"""With this many unreceived messages, an end stops reading. It continues at half as many."""

READ_BYTES = 1 << 18
# How many buffers go into one write.
WRITE_BUFFERS = 64

HEADER = Struct(">IBB")

PICKLE_PROTOCOL = 5
# Pickle raises the first one; __reduce__ and __getstate__ methods also raise the others.
PICKLE_ERRORS = (
    pickle.PicklingError,
    AttributeError,
    TypeError,
    ValueError,
    RecursionError,
    NotImplementedError,
)


class ControlMessage(NamedTuple):
    """A received message. The receiver owns the descriptors and has to close them."""

    body: Any
    """The object that was sent."""
    fds: tuple[int, ...] = ()


@final
class ControlChannel:
    """One end of a control channel. Use it on the thread of the event loop that runs when it is created.

    Args:
        sock: one end of a pair of stream sockets. The channel owns it from now on.
        name: describes the other end in errors: "process 'painter'".
        on_notice: called with each object that the other end passes to `notify`. It must not raise.
        on_end: called once with the reason when the channel ends other than by `close`. It must not raise.
    """

    __slots__ = (
        "_event_loop",
        "_is_paused",
        "_on_end",
        "_on_notice",
        "_reader",
        "_reason",
        "_receiver",
        "_sock",
        "_unreceived",
        "_writer",
        "name",
    )

    def __init__(
        self,
        sock: socket.socket,
        name: str,
        *,
        on_notice: Callable[[object], object] | None = None,
        on_end: Callable[[str], object] | None = None,
    ) -> None:
        self.name = name
        self._event_loop = asyncio.get_running_loop()
        self._sock = sock
        self._on_notice = on_notice
        self._on_end = on_end
        self._reader = ControlFrameReader()
        self._writer = ControlFrameWriter(self._event_loop, sock, self._end)
        self._unreceived: deque[ControlFrame] = deque()
        self._receiver: asyncio.Future[None] | None = None
        # Why the channel has ended; None while it is open.
        self._reason: str | None = None
        self._is_paused = False
        sock.settimeout(0)
        close_in_forks(sock)
        self._event_loop.add_reader(sock.fileno(), self._readable)

    @property
    def is_open(self) -> bool:
        """Whether the channel has not ended, as far as this end knows."""
        return self._reason is None

    @property
    def unwritten(self) -> int:
        """How many bytes wait for the operating system to accept them, because the other end does not read."""
        return self._writer.size

    # -- sending -------------------------------------------------------------------------------------------------------

    def send(self, message: object, fds: Sequence[int] = ()) -> bool:
        """Send a message with file descriptors. The write happens soon, in the order of the calls.

        The channel sends copies of the descriptors: the caller may close its own at once.

        Returns:
            False if the channel has ended and the message is lost. True does not guarantee delivery: the other end may go away
            before it reads the message.

        Raises:
            TypeError: the message cannot be pickled. Nothing was sent.
            InvalidArgumentError: the message is too large or has too many descriptors.
            OSError: a descriptor is invalid or cannot be copied.
        """
        return self._send(message, MESSAGE, fds)

    def notify(self, notice: object) -> bool:
        """Send an object to the `on_notice` callback of the other end, separate from the messages that it receives."""
        return self._send(notice, NOTICE, ())

    def _send(self, message: object, kind: int, fds: Sequence[int]) -> bool:
        data = pickle_message(message, f"to {self.name}")
        if len(data) > MAX_FRAME_BYTES:
            raise InvalidArgumentError(
                f"a {type(message).__qualname__} to {self.name} takes {len(data)} bytes: the limit is {MAX_FRAME_BYTES}"
            )
        if len(fds) > MAX_FDS:
            raise InvalidArgumentError(
                f"a message to {self.name} has {len(fds)} descriptors: the limit is {MAX_FDS}"
            )
        if self._writer.is_broken:
            return False
        self._writer.add(frame_header(len(data), kind, len(fds)), data, fds)
        return True

    async def flush(self) -> None:
        """Wait until the operating system has accepted everything that was sent, or the channel has ended."""
        await self._writer.flush()

    # -- receiving -----------------------------------------------------------------------------------------------------

    async def receive(self) -> ControlMessage:
        """Wait for the next message. One task at a time may receive.

        Raises:
            EOFError: the channel has ended and no message is left; the text says why.
            InvalidMessageError: the message cannot be unpickled in this process. Later messages can still be received.
            InvalidArgumentError: another task is receiving.
        """
        if self._receiver is not None:
            raise InvalidArgumentError(
                f"another task is already receiving from {self.name}: receive in one task at a time"
            )
        while not self._unreceived:
            if self._reason is not None:
                raise EOFError(f"{self.name}: {self._reason}")
            self._receiver = self._event_loop.create_future()
            try:
                await self._receiver
            finally:
                self._receiver = None
        frame = self._unreceived.popleft()
        if self._is_paused and len(self._unreceived) <= MAX_UNRECEIVED // 2:
            self._resume_reading()
        try:
            return ControlMessage(unpickle_message(frame.data, f"a message from {self.name}"), frame.fds)
        except InvalidMessageError:
            close_fds(frame.fds)
            raise

    def __aiter__(self) -> ControlChannel:
        """Iterate over the messages until the channel ends."""
        return self

    async def __anext__(self) -> ControlMessage:
        try:
            return await self.receive()
        except EOFError as error:
            raise StopAsyncIteration from error

    def _readable(self) -> None:
        # One read per callback, so that other callbacks get their turn.
        if self._read() and self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            # The other end was closed with unread data in its socket. libuv reports such an error once, so read the rest now.
            while self._read():
                pass

    def _read(self) -> bool:
        """Read once; return whether there may be more. A failure ends the channel."""
        if self._reason is not None:
            return False
        try:
            return self._read_frames()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._end(f"closed by the other end ({error.strerror})")
        except InvalidMessageError as error:
            self._end(str(error))
        except Exception as error:
            # Part of the stream is lost, so what follows it cannot be parsed.
            logger.exception("reading from %s failed", self.name)
            self._end(f"reading from it failed ({type(error).__name__}): see the log")
        return False

    def _read_frames(self) -> bool:
        data, fds, _flags, _address = socket.recv_fds(self._sock, READ_BYTES, MAX_FDS)
        for fd in fds:
            # recv_fds does not set the close-on-exec flag.
            os.set_inheritable(fd, False)  # noqa: FBT003  # the signature of os
        for frame in self._reader.feed(data, fds):
            self._accept(frame)
        if not data:
            self._end("closed by the other end")
            return False
        if len(self._unreceived) >= MAX_UNRECEIVED and not self._is_paused:
            self._is_paused = True
            self._event_loop.remove_reader(self._sock.fileno())
        return True

    def _accept(self, frame: ControlFrame) -> None:
        if frame.kind == MESSAGE:
            self._unreceived.append(frame)
            self._wake_receiver()
        elif self._on_notice is not None:
            self._on_notice(unpickle_message(frame.data, f"a notice from {self.name}"))

    def _resume_reading(self) -> None:
        self._is_paused = False
        if self._reason is None:
            self._event_loop.add_reader(self._sock.fileno(), self._readable)

    def _wake_receiver(self) -> None:
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)

    # -- the end -------------------------------------------------------------------------------------------------------

    def finish(self, reason: str) -> None:
        """End the channel after the other process has ended: read everything that it has left, and use `reason` from now on."""
        while self._read():
            pass
        self._end(reason)
        # The channel may have ended before, with a less exact reason.
        self._reason = reason

    def close(self) -> None:
        """End the channel from this end. Unwritten and unreceived messages are lost; `on_end` is not called."""
        self._on_end = None
        self._end("closed")
        while self._unreceived:
            close_fds(self._unreceived.popleft().fds)

    def _end(self, reason: str) -> None:
        if self._reason is not None:
            return
        self._reason = reason
        self._reader.close()
        self._writer.close()
        if self._event_loop.is_closed():
            self._sock.close()
        else:
            self._event_loop.remove_reader(self._sock.fileno())
            # uvloop requires that the descriptor outlives this callback.
            self._event_loop.call_soon(self._sock.close)
            self._wake_receiver()
        if self._on_end is not None:
            self._on_end(reason)


# -- frames ----------------------------------------------------------------------------------------------------------------


class ControlFrame(NamedTuple):
    """One complete frame."""

    kind: int
    data: bytes
    fds: tuple[int, ...]


def frame_header(length: int, kind: int, fds: int) -> bytes:
    """Encode the header of a frame with `length` bytes of data and `fds` descriptors."""
    return HEADER.pack(length, kind, fds)


@final
class ControlFrameReader:
    """Assembles frames from bytes and descriptors that arrive in arbitrary pieces."""

    __slots__ = ("_bytes", "_fds")

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._fds: deque[int] = deque()

    def feed(self, data: bytes, fds: list[int]) -> Iterator[ControlFrame]:
        """Add received data, and yield the frames that are complete.

        Raises:
            InvalidMessageError: the stream is not a valid sequence of frames. Nothing can be read after that.
        """
        self._bytes += data
        self._fds.extend(fds)
        at = 0
        while len(self._bytes) - at >= HEADER.size:
            length, kind, fd_count = HEADER.unpack_from(self._bytes, at)
            if length > MAX_FRAME_BYTES or kind not in {MESSAGE, NOTICE}:
                raise InvalidMessageError(f"invalid frame of kind {kind} and {length} bytes")
            begin = at + HEADER.size
            if len(self._bytes) - begin < length:
                break
            if fd_count > len(self._fds):
                raise InvalidMessageError(
                    f"{fd_count} descriptors were sent and {len(self._fds)} arrived: this process may be at its limit of open "
                    f"descriptors (ulimit -n)"
                )
            at = begin + length
            with memoryview(self._bytes) as view:
                body = bytes(view[begin:at])
            yield ControlFrame(kind, body, tuple(self._fds.popleft() for _ in range(fd_count)))
        del self._bytes[:at]

    def close(self) -> None:
        """Close the descriptors that belong to no complete frame."""
        while self._fds:
            os.close(self._fds.popleft())


@final
class ControlFrameWriter:
    """Writes frames to a non-blocking socket. Frames added in one iteration of the event loop share a write.

    Args:
        event_loop: the running event loop.
        sock: the socket. The writer does not own it.
        on_error: called with the reason when writing fails in a way that reading from the socket would not reveal.

    Attributes:
        is_broken: whether nothing can be written any more. Data from the other end may still be readable.
    """

    __slots__ = ("_buffers", "_event_loop", "_flushed", "_is_busy", "_on_error", "_sock", "is_broken")

    def __init__(
        self,
        event_loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        on_error: Callable[[str], object],
    ) -> None:
        self._event_loop = event_loop
        self._sock = sock
        self._on_error = on_error
        # With the descriptors that go with each buffer.
        self._buffers: deque[tuple[bytes | memoryview, tuple[int, ...]]] = deque()
        self._flushed: asyncio.Future[None] | None = None
        # Whether a write is scheduled, or the event loop watches the socket for space.
        self._is_busy = False
        self.is_broken = False

    @property
    def size(self) -> int:
        """How many bytes are left to write."""
        return sum(len(buffer) for buffer, _fds in self._buffers)

    def add(self, header: bytes, data: bytes, fds: Sequence[int]) -> None:
        """Write a frame soon, with copies of the descriptors.

        Raises:
            OSError: a descriptor is invalid or cannot be copied. Nothing was added.
        """
        self._buffers.append((header, _duplicate_fds(fds)))
        self._buffers.append((data, ()))
        if not self._is_busy:
            self._is_busy = True
            self._event_loop.call_soon(self._write)

    async def flush(self) -> None:
        """Wait until everything is written, or writing has failed."""
        while self._buffers:
            if self._flushed is None:
                self._flushed = self._event_loop.create_future()
            await asyncio.shield(self._flushed)

    def close(self) -> None:
        """Stop writing and discard the unwritten frames. The event loop does not watch the socket any more."""
        self.is_broken = True
        for _buffer, fds in self._buffers:
            close_fds(fds)
        self._buffers.clear()
        if not self._event_loop.is_closed():
            self._event_loop.remove_writer(self._sock.fileno())
            self._wake_flush()

    def _write(self) -> None:
        if self.is_broken:
            return
        try:
            while self._buffers:
                self._write_once()
        except (BlockingIOError, InterruptedError):
            self._event_loop.add_writer(self._sock.fileno(), self._write)
        except OSError as error:
            self.close()
            if error.errno not in {EPIPE, ECONNRESET}:
                # The other end may still be open. If it is closed, reading from the socket reports that.
                self._on_error(f"writing to it failed ({error.strerror})")
        except Exception as error:  # noqa: BLE001  # such as MemoryError: a partly written frame cannot be continued
            self.close()
            self._on_error(f"writing to it failed ({type(error).__name__})")
        else:
            self._event_loop.remove_writer(self._sock.fileno())
            self._is_busy = False
            self._wake_flush()

    def _write_once(self) -> None:
        # A buffer with descriptors starts a new write, because they arrive with the first byte of it.
        first, fds = self._buffers[0]
        buffers: list[bytes | memoryview] = [first]
        for at in range(1, min(len(self._buffers), WRITE_BUFFERS)):
            buffer, others = self._buffers[at]
            if others:
                break
            buffers.append(buffer)
        if fds:
            written = socket.send_fds(self._sock, buffers, list(fds))
            close_fds(fds)
        else:
            written = self._sock.sendmsg(buffers)
        for buffer in buffers:
            if written < len(buffer):
                self._buffers[0] = (memoryview(buffer)[written:], ())
                return
            written -= len(buffer)
            self._buffers.popleft()

    def _wake_flush(self) -> None:
        if self._flushed is not None:
            self._flushed.set_result(None)
            self._flushed = None


def close_fds(fds: Sequence[int]) -> None:
    """Close descriptors, ignoring errors."""
    for fd in fds:
        with suppress(OSError):
            os.close(fd)


def _duplicate_fds(fds: Sequence[int]) -> tuple[int, ...]:
    copies: list[int] = []
    for fd in fds:
        try:
            copies.append(os.dup(fd))
        except OSError:
            close_fds(copies)
            raise
    return tuple(copies)


# -- pickling --------------------------------------------------------------------------------------------------------------


def pickle_message(message: object, destination: str) -> bytes:
    """Pickle an object for another process.

    Args:
        message: any picklable object.
        destination: where it goes, for the error: "to process 'painter'".

    Raises:
        TypeError: the object, or something in it, cannot be pickled.
    """
    try:
        return pickle.dumps(message, PICKLE_PROTOCOL)
    except PICKLE_ERRORS as error:
        raise TypeError(
            f"{type(message).__qualname__} cannot be sent {destination}: {safe_str(error)}; send only what can be pickled, with "
            f"classes and functions that can be imported from their module by name"
        ) from error


def unpickle_message(data: bytes, source: str) -> Any:  # any object can be sent
    """Restore an object that `pickle_message` has pickled.

    Args:
        data: the pickled object.
        source: what it is, for the error: "a message from process 'painter'".

    Raises:
        InvalidMessageError: the object cannot be restored in this process.
    """
    try:
        return pickle.loads(data)  # noqa: S301  # from our own child or parent, over a socket that no other process has
    except Exception as error:  # unpickling runs constructors of the program
        raise InvalidMessageError(f"{source} cannot be unpickled: {describe_exception(error)}") from error
