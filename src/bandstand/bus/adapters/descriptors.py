"""Two descriptors as a transport, one to read from and one to write to, that belong to somebody else.

They may be shared with others: a shell has its own prompt on the terminal that we write to. So they are neither closed nor made
non-blocking, which would make them so for everybody. Instead we ask before each step whether it would block, and write no more at
once than a pipe takes whole that has room at all.

Regular files (and `/dev/null`) are always ready, so an event loop refuses to watch them. They are read a chunk at a time on a
thread, and the next chunk only when the last one has been handled.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
from collections.abc import Generator
from contextlib import contextmanager
from typing import final

from bandstand.core.logs import SafeLogger

__all__ = ("DescriptorTransport",)

# As much as the event loops read from a socket at a time.
CHUNK = 256 * 1024

logger = SafeLogger("bandstand.bus")


@contextmanager
def _left_as_it_is(descriptor: int) -> Generator[None]:
    """Take back what uvloop does: it makes what it watches non-blocking."""
    is_blocking = os.get_blocking(descriptor)
    try:
        yield
    finally:
        if is_blocking:
            os.set_blocking(descriptor, is_blocking)


@final
class DescriptorTransport(asyncio.Transport):
    """A transport of asyncio's over two descriptors.

    Args:
        reader: what to read from.
        writer: what to write to.
        protocol: whom to tell.
    """

    def __init__(self, reader: int, writer: int, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._event_loop = asyncio.get_running_loop()
        self._reader = reader
        self._writer = writer
        self._protocol = protocol
        # What is not ready is found out here; only then is the event loop asked to watch it.
        self._poll = select.poll()
        self._poll.register(writer, select.POLLOUT)
        is_file = stat.S_ISREG(os.fstat(writer).st_mode)
        self._most = CHUNK if is_file else select.PIPE_BUF
        self._buffer = bytearray()
        self._high = self._low = 0
        self._file_reading: asyncio.Task[None] | None = None
        # Set while we read: the reading of a file waits for it.
        self._is_wanted = asyncio.Event()
        self._is_watching = False
        self._is_writing = False
        self._is_too_full = False
        self._is_closing = False
        self._is_lost = False
        self._is_at_eof = False
        self.write_error: OSError | None = None
        """Why it cannot be written to any more; None if it can, or if the reader has gone."""

    def start(self) -> None:
        """Begin to read."""
        self._protocol.connection_made(self)
        self.resume_reading()

    # --- reading ------------------------------------------------------------------------------------------------------

    def is_reading(self) -> bool:
        """Whether it is read from."""
        return self._is_wanted.is_set()

    def pause_reading(self) -> None:
        """Read no more for now."""
        self._is_wanted.clear()
        if self._is_watching:
            self._is_watching = False
            self._event_loop.remove_reader(self._reader)

    def resume_reading(self) -> None:
        """Read on."""
        if self._is_at_eof or self._is_closing or self._is_wanted.is_set():
            return
        self._is_wanted.set()
        if self._file_reading is not None:
            return
        try:
            with _left_as_it_is(self._reader):
                self._event_loop.add_reader(self._reader, self._read)
            self._is_watching = True
        except PermissionError:
            self._file_reading = self._event_loop.create_task(self._read_file(), name="reading a file")

    def _read(self) -> None:
        try:
            data = os.read(self._reader, CHUNK)
        except (BlockingIOError, InterruptedError):
            # Somebody else who reads here was faster.
            return
        except OSError:
            # A terminal that was hung up says so; there is nothing more to come from it.
            data = b""
        self._take(data)

    async def _read_file(self) -> None:
        data = b"some"
        while data:
            await self._is_wanted.wait()
            try:
                data = await self._event_loop.run_in_executor(None, os.read, self._reader, CHUNK)
            except OSError as error:
                logger.warning("descriptor %d cannot be read any further: %s", self._reader, error)
                data = b""
            await self._is_wanted.wait()
            self._take(data)

    def _take(self, data: bytes) -> None:
        if data:
            self._protocol.data_received(data)
            return
        self.pause_reading()
        self._is_at_eof = True
        self._protocol.eof_received()

    # --- writing ------------------------------------------------------------------------------------------------------

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """How many bytes may wait before the protocol is told, and how few before it is told again."""
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low
        self._mind_high()

    def get_write_buffer_size(self) -> int:
        """How many bytes wait to be written."""
        return len(self._buffer)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write, as much as can be now and the rest when it can be."""
        if self._is_lost or self._is_closing:
            return
        self._buffer += data
        if not self._is_writing:
            self._drain()
        self._mind_high()

    def _mind_high(self) -> None:
        if len(self._buffer) > self._high and not self._is_too_full:
            self._is_too_full = True
            self._protocol.pause_writing()

    def _drain(self) -> None:
        buffer = self._buffer
        try:
            while buffer and self._poll.poll(0):
                with memoryview(buffer) as view:
                    written = os.write(self._writer, view[: self._most])
                del buffer[:written]
        except (BlockingIOError, InterruptedError):
            # The descriptor does not block, or somebody else who writes here was faster.
            pass
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.write_error = error
                logger.warning("descriptor %d cannot be written to any more: %s", self._writer, error)
            self._lose(error)
            return
        self._watch_writer(is_needed=bool(buffer))
        if self._is_too_full and len(buffer) <= self._low:
            self._is_too_full = False
            self._protocol.resume_writing()
        if self._is_closing and not buffer:
            self._lose(None)

    def _watch_writer(self, *, is_needed: bool) -> None:
        if is_needed and not self._is_writing:
            with _left_as_it_is(self._writer):
                self._event_loop.add_writer(self._writer, self._drain)
        elif self._is_writing and not is_needed:
            self._event_loop.remove_writer(self._writer)
        self._is_writing = is_needed

    # --- the end ------------------------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self._is_closing

    def close(self) -> None:
        """Write what waits, then end."""
        if self._is_closing:
            return
        self._stop_reading()
        self._is_closing = True
        if not self._buffer:
            self._lose(None)

    def abort(self) -> None:
        """End now."""
        self._lose(None)

    def _stop_reading(self) -> None:
        self.pause_reading()
        if self._file_reading is not None:
            self._file_reading.cancel()

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._stop_reading()
        self._is_lost = self._is_closing = True
        self._buffer = bytearray()
        self._watch_writer(is_needed=False)
        self._event_loop.call_soon(self._protocol.connection_lost, error)
