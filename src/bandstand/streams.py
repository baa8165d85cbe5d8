"""The standard streams of a program: they are open, and a failed write differs from other errors.

A program can be started with one of them closed (`program <&-`, a service manager, a daemon). The next descriptor that it
opens then takes the free number. A socket with the number 1 receives what is printed, and libuv aborts the process when it
closes a descriptor below 3. So a closed one is opened on the null device first.
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
    "discard",
    "open_standard_descriptors",
    "open_standard_streams",
    "queued",
)

_STANDARD: Final = (0, 1, 2)


def open_standard_descriptors() -> None:
    """Open each of 0, 1 and 2 that is closed on the null device. Child processes inherit it."""
    for number in _STANDARD:
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            # The lowest free number, which is this one unless another thread was faster.
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)  # noqa: FBT003  # os's own signature


def open_standard_streams() -> None:
    """Do the same, and give `sys` the streams that Python leaves out (None) when it starts with a closed descriptor."""
    open_standard_descriptors()
    names = ("stdin", "stdout", "stderr")
    for number, name in zip(_STANDARD, names, strict=True):
        if getattr(sys, name) is None:
            stream: TextIO = open(  # noqa: SIM115  # it stays open as long as the process runs
                number, "w" if number else "r", encoding="utf-8", errors="backslashreplace", closefd=False
            )
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def above_standard(sock: socket.socket) -> socket.socket:
    """Return the socket with a number of 3 or more, for a child process whose 0, 1 and 2 are set up anew."""
    if sock.fileno() not in _STANDARD:
        return sock
    with sock:
        return socket.socket(fileno=fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, len(_STANDARD)))


class CannotWrite(Exception):  # noqa: N818  # named like the other errors here
    """Standard output takes no more: a full disk, for instance.

    It is no `OSError`: those come from the connection with the node, and mean that there is no node.
    """

    @classmethod
    def because(cls, error: Exception) -> CannotWrite:
        """Make one of what the operating system says."""
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return cls(f"cannot write the output: {reason}")


@final
class Output:
    """A standard stream that says which of its errors are its own.

    Args:
        stream: what to write to.
        is_vital: whether a command fails if this cannot be written. What goes to standard error is not.
    """

    def __init__(self, stream: TextIO, *, is_vital: bool) -> None:
        self._stream = stream
        self._is_vital = is_vital

    def write(self, text: str, /) -> int:
        """Write some text.

        Raises:
            CannotWrite: it is vital, and cannot be written.
        """
        with self._guard():
            self._stream.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str], /) -> None:
        """Write several pieces of text."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write out what is buffered.

        Raises:
            CannotWrite: it is vital, and cannot be written.
        """
        with self._guard():
            self._stream.flush()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self._stream.isatty()

    @contextmanager
    def _guard(self) -> Generator[None]:
        try:
            yield
        except BrokenPipeError:
            # The reader has seen enough, which is no failure.
            if self._is_vital:
                raise
        except (OSError, ValueError) as error:
            if self._is_vital:
                raise CannotWrite.because(error) from error


def discard(stream: TextIO) -> None:
    """Send what is buffered, and all that follows, to the null device: Python would try again to write it when it ends."""
    with suppress(OSError, ValueError):
        number = stream.fileno()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, number)
        os.close(null)


# How much of the output waits for its reader, in bytes; what comes then is dropped, and counted.
_QUEUED_BYTES: Final = 1 << 20
# How long to wait at the end for output that is not read, in seconds.
_CLOSE_S: Final = 1.0
# POSIX promises that a pipe which is ready takes so much without blocking.
_AT_ONCE: Final = select.PIPE_BUF
# How often the thread looks whether it is to end, in milliseconds.
_LOOK_MS: Final = 100


@final
class QueuedFile(io.RawIOBase):
    """A descriptor that never blocks its writer: a thread writes what it is given, and what does not fit into the queue is dropped.

    A pipe whose reader has stopped reading takes 64 KiB and then blocks the writer. When there is room again, a line says how
    much was dropped there. From any thread.

    Args:
        number: the descriptor. It is not closed.
        bound: how many bytes wait at most.
    """

    def __init__(self, number: int, bound: int = _QUEUED_BYTES) -> None:
        self._number = number
        self._bound = bound
        self._changed = threading.Condition()
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._unsaid = 0
        self._is_ending = False
        self._ending_since = 0.0
        self.dropped = 0
        """How many lines were dropped."""
        self._thread = threading.Thread(target=self._run, name="bandstand output", daemon=True)
        self._thread.start()

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """The number of the descriptor."""
        return self._number

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._number)

    def write(self, data: bytes | bytearray | memoryview, /) -> int:  # type: ignore[override]  # narrower: what text streams pass
        """Have it written, or dropped if too much waits; at once in either case."""
        chunk = bytes(data)
        with self._changed:
            if self._is_ending:
                return len(chunk)
            if self._size + len(chunk) > self._bound:
                self.dropped += max(1, chunk.count(b"\n"))
                self._unsaid += max(1, chunk.count(b"\n"))
            else:
                self._say_dropped()
                self._put(chunk)
            self._changed.notify()
        return len(chunk)

    def close(self) -> None:
        """Wait for a moment until all is written, and end."""
        with self._changed:
            if not self._is_ending:
                self._is_ending = True
                self._ending_since = time.monotonic()
                self._say_dropped()
                self._changed.notify()
        self._thread.join(_CLOSE_S + 0.5)
        super().close()

    def _put(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._size += len(chunk)

    def _say_dropped(self) -> None:
        if self._unsaid:
            self._put(
                b"bandstand: %d lines of output were dropped here: nothing read them in time\n" % self._unsaid
            )
            self._unsaid = 0

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._number, select.POLLOUT)
        while (chunk := self._next()) is not None:
            view = memoryview(chunk)
            while view:
                try:
                    if not poll.poll(_LOOK_MS):
                        if self._is_over():
                            return
                        continue
                    view = view[os.write(self._number, view[:_AT_ONCE]) :]
                except BlockingIOError:
                    # Another process has made the same file non-blocking, and filled it meanwhile.
                    continue
                except OSError:
                    # The reader has closed it, or the disk is full: nothing more can be done for this piece.
                    break
            with self._changed:
                self._size -= len(chunk)

    def _next(self) -> bytes | None:
        with self._changed:
            while not self._chunks:
                self._say_dropped()
                if self._chunks:
                    break
                if self._is_ending:
                    return None
                self._changed.wait()
            return self._chunks.popleft()

    def _is_over(self) -> bool:
        """Whether it was closed a while ago, and what is left cannot be written."""
        with self._changed:
            if not self._is_ending:
                return False
            return time.monotonic() - self._ending_since > _CLOSE_S


@contextmanager
def queued(stream: TextIO) -> Generator[TextIO]:
    """A stream with the same descriptor that never blocks; the same stream, if it has none."""
    try:
        number = stream.fileno()
        stream.flush()
    except (OSError, ValueError, AttributeError):
        yield stream
        return
    file = QueuedFile(number)
    # Python itself gives a text stream such a file if it is to be unbuffered; the stubs do not know that.
    text = io.TextIOWrapper(
        cast("io.BufferedWriter", file),
        encoding=getattr(stream, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )
    try:
        yield text
    finally:
        # Flushes what has no end of line yet, and closes the file.
        with suppress(OSError, ValueError):
            text.close()
