"""The standard streams of a program: they are open, and what they cannot take is told apart from other errors.

A program can be started with one of them closed (`program <&-`, a service manager, a daemon). The next descriptor that it
opens then takes the free number. A socket with the number 1 receives what is printed, and libuv aborts the process when it
closes a descriptor below 3. So a closed one is opened on the null device first.
"""

from __future__ import annotations

import fcntl
import os
import socket
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import Final, TextIO, final

__all__ = (
    "CannotWrite",
    "Output",
    "above_standard",
    "discard",
    "open_standard_descriptors",
    "open_standard_streams",
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
