"""What is on its way out of one end of a control channel."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from errno import ECONNRESET, EPIPE
from typing import final

__all__ = ("Outgoing", "close_all")

# How many pieces one write takes.
PIECES = 64


@final
class Outgoing:
    """Writes pieces to a socket as it takes them: what is added in one turn of the event loop goes out in one go.

    Args:
        event_loop: the one that runs.
        sock: where to.
        on_error: called with the reason when the socket is of no use any more, and reading from it would not tell.

    Attributes:
        is_broken: whether nobody will read any more. What the other end has said before can still be read.
    """

    __slots__ = ("_event_loop", "_flushed", "_is_busy", "_on_error", "_pieces", "_sock", "is_broken")

    def __init__(
        self,
        event_loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        on_error: Callable[[str], object] = lambda _reason: None,
    ) -> None:
        self._event_loop = event_loop
        self._sock = sock
        self._on_error = on_error
        # And the descriptors that go with each.
        self._pieces: deque[tuple[bytes | memoryview, tuple[int, ...]]] = deque()
        self._flushed: asyncio.Future[None] | None = None
        # Whether a write is under way, or the socket is watched for room.
        self._is_busy = False
        self.is_broken = False

    @property
    def size(self) -> int:
        """How many bytes are left to write."""
        return sum(len(piece) for piece, _fds in self._pieces)

    def add(self, head: bytes, body: bytes, fds: Sequence[int]) -> None:
        """Have a frame written soon, and copies of descriptors with it.

        Raises:
            OSError: a descriptor is none, or there is no room for its copy. Nothing was added.
        """
        self._pieces.append((head, _copies(fds)))
        self._pieces.append((body, ()))
        if not self._is_busy:
            self._is_busy = True
            self._event_loop.call_soon(self._write)

    async def flush(self) -> None:
        """Wait until everything is written, or never will be."""
        while self._pieces:
            if self._flushed is None:
                self._flushed = self._event_loop.create_future()
            await asyncio.shield(self._flushed)

    def end(self) -> None:
        """Write nothing more, and forget what was not written. The socket is not watched any more."""
        self.is_broken = True
        for _piece, fds in self._pieces:
            close_all(fds)
        self._pieces.clear()
        if not self._event_loop.is_closed():
            self._event_loop.remove_writer(self._sock.fileno())
            self._wake()

    def _write(self) -> None:
        if self.is_broken:
            return
        try:
            while self._pieces:
                self._write_some()
        except (BlockingIOError, InterruptedError):
            self._event_loop.add_writer(self._sock.fileno(), self._write)
        except OSError as error:
            self.end()
            if error.errno not in {EPIPE, ECONNRESET}:
                # The other end may be there; of one that is gone the end of what can be read tells.
                self._on_error(f"writing to it failed ({error.strerror})")
        except Exception as error:  # noqa: BLE001  # no memory, say: what is half written cannot be gone on with
            self.end()
            self._on_error(f"writing to it failed ({type(error).__name__})")
        else:
            self._event_loop.remove_writer(self._sock.fileno())
            self._is_busy = False
            self._wake()

    def _write_some(self) -> None:
        """Write once. What has descriptors begins a write of its own: they go with its first byte."""
        first, fds = self._pieces[0]
        pieces: list[bytes | memoryview] = [first]
        for at in range(1, min(len(self._pieces), PIECES)):
            piece, others = self._pieces[at]
            if others:
                break
            pieces.append(piece)
        if fds:
            written = socket.send_fds(self._sock, pieces, list(fds))
            close_all(fds)
        else:
            written = self._sock.sendmsg(pieces)
        for piece in pieces:
            if written < len(piece):
                self._pieces[0] = (memoryview(piece)[written:], ())
                return
            written -= len(piece)
            self._pieces.popleft()

    def _wake(self) -> None:
        if self._flushed is not None:
            self._flushed.set_result(None)
            self._flushed = None


def close_all(fds: Sequence[int]) -> None:
    """Close descriptors, whatever becomes of it."""
    for fd in fds:
        with suppress(OSError):
            os.close(fd)


def _copies(fds: Sequence[int]) -> tuple[int, ...]:
    copies: list[int] = []
    for fd in fds:
        try:
            copies.append(os.dup(fd))
        except OSError:
            close_all(copies)
            raise
    return tuple(copies)
