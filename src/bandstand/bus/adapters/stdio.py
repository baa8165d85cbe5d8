"""The pipe adapter: one client on standard input and output, or on any other pair of descriptors.

A node in a pipeline uses it: `bandstand serve --batch < questions > answers`.

The descriptors may be pipes, files or terminals, and other processes may share them: a shell writes its prompt to the same
terminal. So the adapter neither closes them nor makes them non-blocking, because that would affect the other processes, too.
Instead it polls before each step whether it would block, and writes at most as many bytes at once as a ready pipe takes whole.

An event loop cannot watch regular files and `/dev/null`, which are always ready. They are read in a thread, one chunk at a time.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast, final

from bandstand.bus.adapters.limits import Limits
from bandstand.bus.adapters.listener import ConnectionSet
from bandstand.bus.adapters.ndjson import NdjsonConnection
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgumentError, ListenError
from bandstand.errors.formatting import safe_repr, safe_str

if TYPE_CHECKING:
    from bandstand.bus.protocols import Ingress

__all__ = ("PipeAdapter",)

# As much as event loops read from a socket at a time.
CHUNK = 256 * 1024

logger = SafeLogger("bandstand.bus")


@final
class PipeAdapter:
    """NDJSON on two descriptors: requests from one, replies to the other.

    The connection stays open after the end of the input: replies, and events from timers, are still written.

    Args:
        reader: the descriptor to read from; standard input by default.
        writer: the descriptor to write to; standard output by default.
        limits: the limits of the client; the defaults if None.

    Raises:
        InvalidArgumentError: a descriptor is not a number.
    """

    def __init__(self, reader: int = 0, writer: int = 1, *, limits: Limits | None = None) -> None:
        for field, value in (("reader", reader), ("writer", writer)):
            if type(value) is not int or value < 0:
                raise InvalidArgumentError(f"{field} is {safe_repr(value)}: pass the number of a descriptor")
        if limits is not None and not isinstance(limits, Limits):
            raise InvalidArgumentError(f"limits is {safe_repr(limits)}: pass Limits(...)")
        self.limits = limits or Limits()
        self._reader = reader
        self._writer = writer
        self._connections: ConnectionSet | None = None
        self._transport: DescriptorTransport | None = None

    @property
    def write_error(self) -> OSError | None:
        """The error that lost replies; None if there was none, or if the reader closed the pipe."""
        return None if self._transport is None else self._transport.write_error

    @property
    def name(self) -> str:
        """The address: `stdio`, or the numbers of the descriptors."""
        standard = self._reader == 0 and self._writer == 1
        return "stdio" if standard else f"pipe:{self._reader},{self._writer}"

    @property
    def can_produce(self) -> bool:
        """True if messages can still come in: until the input has ended and the node has all of it."""
        return self._connections is not None and self._connections.can_produce

    @property
    def is_flushed(self) -> bool:
        """True if the operating system has taken everything that was delivered."""
        return self._connections is None or self._connections.is_flushed

    async def start(self, ingress: Ingress) -> None:
        """Start to read.

        Raises:
            ListenError: a descriptor is not open, or cannot be watched.
            InvalidArgumentError: the adapter has been started already.
        """
        if self._connections is not None:
            raise InvalidArgumentError(f"{self.name} has been started already: close it first")
        for descriptor in (self._reader, self._writer):
            try:
                os.fstat(descriptor)
            except OSError as error:
                raise ListenError(f"cannot use {self.name}: descriptor {descriptor} is not open") from error
        connections = ConnectionSet()
        connection = NdjsonConnection(
            ingress,
            self.limits,
            self.name,
            may_open=connections.may_open,
            on_close=connections.remove,
            closes_at_eof=False,
        )
        connections.add(connection)
        # It has all the methods of a protocol, and is compiled, so it has no base class of Python's.
        transport = DescriptorTransport(self._reader, self._writer, cast("asyncio.Protocol", connection))
        try:
            transport.start()
        except OSError as error:
            transport.abort()
            await connections.close(0)
            raise ListenError(
                f"cannot use {self.name}: descriptor {self._reader} cannot be watched: {safe_str(error)}"
            ) from error
        self._connections, self._transport = connections, transport

    async def stop(self) -> None:
        """Take in nothing more. Replies can still be delivered."""
        if self._connections is not None:
            self._connections.stop()

    async def close(self, timeout: float) -> None:
        """Write what was delivered, for at most `timeout` seconds. The descriptors stay open."""
        try:
            if self._connections is not None:
                await self._connections.close(timeout)
        finally:
            self._connections = None


@contextmanager
def _keep_blocking(descriptor: int) -> Generator[None]:
    """Undo what uvloop does to a descriptor that it watches: it makes it non-blocking."""
    is_blocking = os.get_blocking(descriptor)
    try:
        yield
    finally:
        if is_blocking:
            os.set_blocking(descriptor, is_blocking)


@final
class DescriptorTransport(asyncio.Transport):
    """An asyncio transport on two descriptors that it does not own.

    Args:
        reader: the descriptor to read from.
        writer: the descriptor to write to.
        protocol: gets the data and the events.
    """

    def __init__(self, reader: int, writer: int, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._event_loop = asyncio.get_running_loop()
        self._reader = reader
        self._writer = writer
        self._protocol = protocol
        # Asked before each write; the event loop watches the descriptor only while it is not ready.
        self._poll = select.poll()
        self._poll.register(writer, select.POLLOUT)
        is_file = stat.S_ISREG(os.fstat(writer).st_mode)
        self._write_size = CHUNK if is_file else select.PIPE_BUF
        self._buffer = bytearray()
        self._high = self._low = 0
        self._file_task: asyncio.Task[None] | None = None
        # Set unless reading is paused; the task that reads a file waits for it.
        self._may_read = asyncio.Event()
        self._is_watching_reader = False
        self._is_watching_writer = False
        self._is_above_high = False
        self._is_closing = False
        self._is_lost = False
        self._is_at_eof = False
        self.write_error: OSError | None = None
        """The error that ended writing; None if there was none, or if the reader closed the pipe."""

    def start(self) -> None:
        """Connect the protocol, and start to read.

        Raises:
            OSError: the event loop cannot watch the descriptor.
        """
        self._protocol.connection_made(self)
        self.resume_reading()

    # -- reading ----------------------------------------------------------------------------------------------------

    def is_reading(self) -> bool:
        """Return True unless reading is paused."""
        return self._may_read.is_set()

    def pause_reading(self) -> None:
        """Pause reading."""
        self._may_read.clear()
        if self._is_watching_reader:
            self._is_watching_reader = False
            self._event_loop.remove_reader(self._reader)

    def resume_reading(self) -> None:
        """Resume reading; do nothing after the end of the input."""
        if self._is_at_eof or self._is_closing or self._may_read.is_set():
            return
        self._may_read.set()
        if self._file_task is not None:
            return
        try:
            with _keep_blocking(self._reader):
                self._event_loop.add_reader(self._reader, self._read)
            self._is_watching_reader = True
        except PermissionError:
            self._file_task = self._event_loop.create_task(
                self._read_file(), name=f"read descriptor {self._reader}"
            )

    def _read(self) -> None:
        try:
            data = os.read(self._reader, CHUNK)
        except (BlockingIOError, InterruptedError):
            # Another process reads the same descriptor and was faster.
            return
        except OSError:
            # A terminal that was hung up: treat it as the end of the input.
            data = b""
        self._receive(data)

    async def _read_file(self) -> None:
        data = b"-"
        while data:
            await self._may_read.wait()
            try:
                data = await self._event_loop.run_in_executor(None, os.read, self._reader, CHUNK)
            except OSError as error:
                logger.warning("descriptor %d: reading failed: %s", self._reader, error)
                data = b""
            await self._may_read.wait()
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        if data:
            self._protocol.data_received(data)
            return
        self.pause_reading()
        self._is_at_eof = True
        self._protocol.eof_received()

    # -- writing ----------------------------------------------------------------------------------------------------

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the buffer sizes at which the protocol's `pause_writing` and `resume_writing` are called."""
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low
        self._pause_if_above_high()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that are not written yet."""
        return len(self._buffer)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write as much as possible now, and the rest when the descriptor is ready."""
        if self._is_lost or self._is_closing:
            return
        self._buffer += data
        if not self._is_watching_writer:
            self._drain()
        self._pause_if_above_high()

    def _pause_if_above_high(self) -> None:
        if len(self._buffer) > self._high and not self._is_above_high:
            self._is_above_high = True
            self._protocol.pause_writing()

    def _drain(self) -> None:
        buffer = self._buffer
        try:
            while buffer and self._poll.poll(0):
                with memoryview(buffer) as view:
                    written = os.write(self._writer, view[: self._write_size])
                del buffer[:written]
        except (BlockingIOError, InterruptedError):
            # The descriptor is non-blocking, or another process writes to it and was faster.
            pass
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.write_error = error
                logger.warning("descriptor %d: writing failed: %s", self._writer, error)
            self._lose(error)
            return
        self._watch_writer(is_needed=bool(buffer))
        if self._is_above_high and len(buffer) <= self._low:
            self._is_above_high = False
            self._protocol.resume_writing()
        if self._is_closing and not buffer:
            self._lose(None)

    def _watch_writer(self, *, is_needed: bool) -> None:
        if is_needed and not self._is_watching_writer:
            with _keep_blocking(self._writer):
                self._event_loop.add_writer(self._writer, self._drain)
        elif self._is_watching_writer and not is_needed:
            self._event_loop.remove_writer(self._writer)
        self._is_watching_writer = is_needed

    # -- closing ----------------------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        """Return True if the transport is closed or closing."""
        return self._is_closing

    def close(self) -> None:
        """Write the buffer, then close."""
        if self._is_closing:
            return
        self._stop_reading()
        self._is_closing = True
        if not self._buffer:
            self._lose(None)

    def abort(self) -> None:
        """Close now; the buffer is lost."""
        self._lose(None)

    def _stop_reading(self) -> None:
        self.pause_reading()
        if self._file_task is not None:
            self._file_task.cancel()

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._stop_reading()
        self._is_lost = self._is_closing = True
        self._buffer = bytearray()
        self._watch_writer(is_needed=False)
        self._event_loop.call_soon(self._protocol.connection_lost, error)
