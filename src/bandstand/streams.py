"""Standard streams: open them if they are closed, report failed writes, and write without blocking.

A program can be started with a closed standard stream (`program <&-`, a service manager, a daemon). The next file descriptor that
it opens then takes the free number: a socket with number 1 receives what is printed, and libuv aborts the process when it closes a
descriptor below 3. Therefore closed standard streams are opened on the null device first.
"""

from __future__ import annotations

import fcntl
import io
import os
import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Final, TextIO, cast, final

__all__ = (
    "CannotWrite",
    "Output",
    "QueuedFile",
    "above_standard",
    "child_stdout",
    "discard",
    "open_standard_descriptors",
    "open_standard_streams",
    "queued",
)

_STANDARD: Final = (0, 1, 2)


def open_standard_descriptors() -> None:
    """Open the null device for each of the descriptors 0, 1 and 2 that is closed. Child processes inherit it."""
    for number in _STANDARD:
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            # `os.open` returns the lowest free number: this one, unless another thread was faster.
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)  # noqa: FBT003  # os's own signature


def open_standard_streams() -> None:
    """Open closed standard descriptors, and set the streams in `sys` that are None because Python started without them."""
    open_standard_descriptors()
    names = ("stdin", "stdout", "stderr")
    for number, name in zip(_STANDARD, names, strict=True):
        if getattr(sys, name) is None:
            stream: TextIO = open(  # noqa: SIM115  # stays open until the process ends
                number, "w" if number else "r", encoding="utf-8", errors="backslashreplace", closefd=False
            )
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def above_standard(sock: socket.socket) -> socket.socket:
    """Return the socket with a descriptor of 3 or more, so that it does not collide with the streams of a child process."""
    if sock.fileno() not in _STANDARD:
        return sock
    with sock:
        return socket.socket(fileno=fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, len(_STANDARD)))


def child_stdout() -> int | None:
    """Return the descriptor for the standard output of a child: that of `sys.stdout` if it is a file, otherwise standard error.

    None stands for the descriptor 1 of this process.
    """
    try:
        return sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return None if sys.stdout is sys.__stdout__ else _STANDARD[2]


class CannotWrite(Exception):  # noqa: N818  # named like the other exceptions
    """Writing to standard output failed, for example because the disk is full.

    It is not an `OSError`: for the command line, an `OSError` means that the connection to the node failed.
    """

    exit_code: Final = 7
    """The exit code of a command that fails with this error."""

    @classmethod
    def because(cls, error: Exception) -> CannotWrite:
        """Build the error from the one that the operating system reported."""
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return cls(f"cannot write the output: {reason}")


@final
class Output:
    """A standard stream whose write errors are raised as `CannotWrite`, or ignored.

    Args:
        stream: the stream to write to.
        is_vital: whether a failed write fails the command. False for standard error: its write errors are ignored.
    """

    def __init__(self, stream: TextIO, *, is_vital: bool) -> None:
        self._stream = stream
        self._is_vital = is_vital

    def write(self, text: str, /) -> int:
        """Write some text.

        Raises:
            CannotWrite: the stream is vital, and the write failed.
        """
        with self._guard():
            self._stream.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str], /) -> None:
        """Write several strings."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the buffer.

        Raises:
            CannotWrite: the stream is vital, and the write failed.
        """
        with self._guard():
            self._stream.flush()

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return self._stream.isatty()

    @contextmanager
    def _guard(self) -> Generator[None]:
        try:
            yield
        except BrokenPipeError:
            # The reader has closed the pipe, which is not a failure.
            if self._is_vital:
                raise
        except (OSError, ValueError) as error:
            if self._is_vital:
                raise CannotWrite.because(error) from error


def discard(stream: TextIO) -> None:
    """Redirect a stream to the null device, with what is buffered: Python would try to flush it again at exit."""
    with suppress(OSError, ValueError):
        number = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, number)
        os.close(null)


# The size of the output queue in bytes; over this limit, lines are dropped and counted.
_QUEUED_BYTES: Final = 1 << 20
# How long `close` waits for the reader, in seconds.
_CLOSE_S: Final = 1.0
# POSIX: writing this many bytes to a pipe that is ready does not block.
_CHUNK_BYTES: Final = select.PIPE_BUF
# How often the writer thread checks whether the file was closed, in milliseconds.
_POLL_MS: Final = 100


@final
class QueuedFile(io.RawIOBase):
    """A file that never blocks its writer: a thread writes to the descriptor, and output that does not fit into the queue is dropped.

    A pipe whose reader does not read holds 64 KiB, and then blocks the writer. When the queue has room again, a line in the
    output says how many lines were dropped. Its methods can be called from any thread.

    Args:
        number: the file descriptor. It is not closed.
        bound: the maximum number of bytes in the queue.
    """

    def __init__(self, number: int, bound: int = _QUEUED_BYTES) -> None:
        self._number = number
        self._bound = bound
        self._changed = threading.Condition()
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._unreported = 0
        self._is_closing = False
        self._closing_since = 0.0
        self.dropped = 0
        """The number of dropped lines."""
        self._thread = threading.Thread(target=self._run, name="bandstand output", daemon=True)
        self._thread.start()

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the file descriptor."""
        return self._number

    def isatty(self) -> bool:
        """Return whether the descriptor is a terminal."""
        return os.isatty(self._number)

    def write(self, data: bytes | bytearray | memoryview, /) -> int:  # type: ignore[override]  # narrower: the types that text streams pass
        """Queue the data, or drop it if the queue is full. Never blocks."""
        chunk = bytes(data)
        with self._changed:
            if self._is_closing:
                return len(chunk)
            if self._size + len(chunk) > self._bound:
                self.dropped += max(1, chunk.count(b"\n"))
                self._unreported += max(1, chunk.count(b"\n"))
            else:
                self._report_dropped()
                self._put(chunk)
            self._changed.notify()
        return len(chunk)

    def close(self) -> None:
        """Wait up to a second until the queue is written, and end the thread."""
        with self._changed:
            if not self._is_closing:
                self._is_closing = True
                self._closing_since = time.monotonic()
                self._report_dropped()
                self._changed.notify()
        self._thread.join(_CLOSE_S + 0.5)
        super().close()

    def _put(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)

    def _report_dropped(self) -> None:
        if self._unreported:
            self._put(
                b"bandstand: %d lines of output were dropped here: nothing read them in time\n"
                % self._unreported
            )
            self._unreported = 0

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._number, select.POLLOUT)
        while (chunk := self._next()) is not None:
            view = memoryview(chunk)
            while view:
                try:
                    if not poll.poll(_POLL_MS):
                        if self._has_expired():
                            return
                        continue
                    view = view[os.write(self._number, view[:_CHUNK_BYTES]) :]
                except BlockingIOError:
                    # Another process made the same file non-blocking, and filled it in the meantime.
                    continue
                except OSError:
                    # The reader closed the pipe, or the disk is full: give up on this chunk.
                    break
            with self._changed:
                self._size -= len(chunk)

    def _next(self) -> bytes | None:
        with self._changed:
            while not self._chunks:
                self._report_dropped()
                if self._chunks:
                    break
                if self._is_closing:
                    return None
                self._changed.wait()
            return self._chunks.popleft()

    def _has_expired(self) -> bool:
        """Return whether `close` has waited long enough for the reader."""
        with self._changed:
            if not self._is_closing:
                return False
            return time.monotonic() - self._closing_since > _CLOSE_S


@contextmanager
def queued(stream: TextIO) -> Generator[TextIO]:
    """Yield a stream with the same descriptor that never blocks; the stream itself if it has no descriptor."""
    try:
        number = stream.fileno()
        stream.flush()
    except (OSError, ValueError, AttributeError):
        yield stream
        return
    file = QueuedFile(number)
    # Python itself passes a raw file for unbuffered text streams; the type stubs do not allow it.
    text = io.TextIOWrapper(
        cast("io.BufferedWriter", file),
        encoding=getattr(stream, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
    try:
        yield text
    finally:
        # This flushes an unfinished line and closes the file.
        with suppress(OSError, ValueError):
            text.close()
