"""A wire: one end of a socket on the running event loop. Writes what it is given when the other side reads, and reads what comes.

What is made ready in one turn of the event loop is written together, at its end. A turn reads and writes a bounded number of
bytes, so a flood of them delays nobody for long.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bandstand.errors import BadMessage
from bandstand.pod.link.frames import Frames
from bandstand.pod.link.outbox import Piece, Writing

__all__ = ("Wire",)

logger = logging.getLogger("bandstand.pod")

# How many bytes one turn of the event loop may write.
MOST_A_TURN: Final = 1_048_576


class Wire:
    """One end of a socket.

    Args:
        sock: ours from now on.
        frames: where the bytes go that come.
        take: gives what is to be written next; None for nothing.
        settle: called when what has come was taken: what it makes ready is written in the same turn.
        lost: called once, later than what found it out, when the socket is of no use any more; says why.
    """

    def __init__(
        self,
        sock: socket.socket,
        frames: Frames,
        take: Callable[[], Writing | None],
        settle: Callable[[], None],
        lost: Callable[[str], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._frames = frames
        self._take = take
        self._settle = settle
        self._lost = lost
        # Whether what is ready will be written at the end of this turn anyway.
        self.is_stirred = False
        # While something is being written: who makes something ready meanwhile need not see to it.
        self._is_flushing = False
        # While the other side does not read.
        self._is_waiting = False
        self._is_over = False
        # Nobody reads any more what is written.
        self._is_mute = False
        self._waiters: list[asyncio.Future[None]] = []
        # What is being written, how much of it is, and how much there is.
        self._writing: Writing | None = None
        self._written = 0
        self._left: list[bytes | memoryview] = []
        sock.setblocking(False)  # noqa: FBT003  # the library's own signature
        self._fd = sock.fileno()
        self._loop.add_reader(self._fd, self._readable)

    # -- writing -------------------------------------------------------------------------------------------------------

    def stir(self) -> None:
        """Have what is ready written at the end of this turn."""
        if not self.is_stirred:
            self.is_stirred = True
            self._loop.call_soon(self._flush_soon)

    def _flush_soon(self) -> None:
        self.is_stirred = False
        if not self._is_waiting:
            self.flush()

    def flush(self) -> None:
        """Write what is ready now, as far as the other side reads."""
        if self._is_over or self._is_waiting or self._is_flushing or self._is_mute:
            return
        self._is_flushing = True
        try:
            is_done = self._write(MOST_A_TURN)
        finally:
            self._is_flushing = False
        if not is_done:
            self._wait()

    def _write(self, budget: int) -> bool:
        """Write so much, more or less; whether there is nothing left."""
        while budget > 0:
            if not self._left:
                writing = self._take()
                if writing is None:
                    return True
                self._writing = writing
                self._left = writing.buffers
                self._written = 0
            sent = self._send()
            if sent == 0:
                return False
            budget -= sent
        return False

    def _send(self) -> int:
        """Write once; how many bytes, 0 if the other side does not read."""
        left = self._left
        try:
            sent = self._sock.send(left[0]) if len(left) == 1 else self._sock.sendmsg(left)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            # The other side is gone. What it has said before lies there to be read, its last answers and why it went; the end
            # of that is the end.
            self._is_mute = True
            return 0
        self._written += sent
        rest = sent
        while left and rest >= len(left[0]):
            rest -= len(left[0])
            del left[0]
        if rest:
            left[0] = memoryview(left[0])[rest:]
        return sent

    def _wait(self) -> None:
        if not self._is_over and not self._is_waiting and not self._is_mute:
            self._is_waiting = True
            self._loop.add_writer(self._fd, self._resume)

    def _resume(self) -> None:
        self._loop.remove_writer(self._fd)
        self._is_waiting = False
        self.flush()
        if not self._is_waiting:
            self._release()

    @property
    def is_choked(self) -> bool:
        """Whether the other side does not read as fast as this one writes."""
        return self._is_waiting

    @property
    def is_writable(self) -> bool:
        """Whether anybody can read what is written."""
        return not (self._is_over or self._is_mute)

    @property
    def is_writing(self) -> bool:
        """Whether something that was begun is not entirely written."""
        return bool(self._left)

    async def unchoked(self) -> None:
        """Wait until the other side reads, or nobody does any more."""
        while self._is_waiting and not self._is_over:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _release(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- reading -------------------------------------------------------------------------------------------------------

    def read_out(self) -> None:
        """Take what has come already: the other side is gone, and nothing more will."""
        while not self._is_over and self._read():
            pass

    def _readable(self) -> None:
        """Take what has come, once: others have their turn. If nobody will ever send more, all of it."""
        if self._read() and not self._is_over and self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            # The other side is gone, and has left something unread. Of such a socket libuv tells once, and never again.
            self.read_out()

    def _read(self) -> bool:
        """Take what has come; whether something had."""
        try:
            count = self._sock.recv_into(self._frames.room())
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            self._lose(f"reading from it failed: {error.strerror}")
            return False
        if count == 0:
            self._lose("the other side has closed it")
            return False
        # What is made ready meanwhile is written below, and needs no turn of its own.
        was_stirred, self.is_stirred = self.is_stirred, True
        try:
            self._frames.took(count)
            self._settle()
        except BadMessage as error:
            self._lose(str(error))
        except Exception:
            # An error of ours. What had come with it may be lost, so the link is not what it must be any more.
            logger.exception("what came over a link could not be taken")
            self._lose("what came over it could not be taken; the log says why")
        finally:
            self.is_stirred = was_stirred
        self.flush()
        return True

    # -- the end -------------------------------------------------------------------------------------------------------

    def _lose(self, reason: str) -> None:
        """Say that the socket is of no use: not at once, as whoever found it out may be in the middle of something."""
        self._stop()
        self._loop.call_soon(self._lost, reason)

    def _stop(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._release()

    def unsent(self) -> list[Piece]:
        """The pieces that were begun, but are not entirely written: nobody can have read them."""
        if self._writing is None or not self._left:
            return []
        return [piece for end, piece in self._writing.pieces if end > self._written]

    def close(self) -> None:
        """Write what the socket takes at once, and let go of it. Never waits."""
        if self._is_over:
            self._loop.call_soon(self._sock.close)
            return
        with suppress(OSError):
            self._loop.remove_writer(self._fd)
            self._is_waiting = False
            self.flush()
        self._stop()
        # Not now: an event loop that was told of it in this turn must not find another descriptor under its number.
        self._loop.call_soon(self._sock.close)
