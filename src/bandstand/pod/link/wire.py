"""A wire: one end of a socket on the running event loop. Writes what it is given when the other side reads, and reads what comes.

What passes with every message is in its strand; here is what the event loop has to do with it, and the end.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from bandstand.core.logs import SafeLogger
from bandstand.errors import BadMessage
from bandstand.pod.link.hot.strand import Strand

if TYPE_CHECKING:
    from bandstand.pod.link.hot.frames import Frames
    from bandstand.pod.link.hot.inbound import Inbound
    from bandstand.pod.link.hot.tray import Tray

__all__ = ("Wire",)

logger = SafeLogger("bandstand.pod")


class Wire(Strand):
    """One end of a socket.

    Args:
        sock: ours from now on.
        frames: where the bytes go that come.
        tray: gives what is to be written next.
        inbound: told when what has come was taken: what it makes ready is written in the same turn.
        lost: called once, later than what found it out, when the socket is of no use any more; says why, and whether that is
            the fault of this side.
    """

    __slots__ = ("_fd", "_has_failed", "_loop", "_lost", "_waiters")

    def __init__(
        self,
        sock: socket.socket,
        frames: Frames,
        tray: Tray,
        inbound: Inbound,
        lost: Callable[[str, bool], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        super().__init__(sock, frames, tray, inbound, self._loop.call_soon)
        self._lost = lost
        # Whether this side gave it up, so that the other side may still read why.
        self._has_failed = False
        self._waiters: list[asyncio.Future[None]] = []
        sock.setblocking(False)  # noqa: FBT003  # the library's own signature
        self._fd = sock.fileno()
        self._loop.add_reader(self._fd, self.readable)

    # -- writing -------------------------------------------------------------------------------------------------------

    def wait(self) -> None:
        """The other side does not read: go on when it does."""
        if not self.is_over and not self.is_waiting and not self.is_mute:
            self.is_waiting = True
            self._loop.add_writer(self._fd, self._resume)

    def _resume(self) -> None:
        self._loop.remove_writer(self._fd)
        self.is_waiting = False
        self.flush()
        if not self.is_waiting:
            self._release()

    @property
    def is_choked(self) -> bool:
        """Whether the other side does not read as fast as this one writes."""
        return self.is_waiting

    async def unchoked(self) -> None:
        """Wait until the other side reads, or nobody does any more."""
        while self.is_waiting and not self.is_over:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _release(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # -- the end -------------------------------------------------------------------------------------------------------

    def fail(self, error: Exception, what: str) -> None:
        """Something was raised while reading or writing."""
        self._has_failed = True
        if isinstance(error, BadMessage):
            self.lose(str(error), is_ours=True)
            return
        # What was being read or written may be lost, so the link cannot be used any more.
        logger.error("a link is lost: %s", what, exc_info=error)
        self.lose(f"{what} ({type(error).__name__}); the log says why", is_ours=True)

    def lose(self, reason: str, is_ours: bool) -> None:
        """Say that the socket is of no use: not at once, as whoever found it out may be in the middle of something."""
        if self.is_over:
            return
        self._stop()
        self._loop.call_soon(self._lost, reason, is_ours)

    def _stop(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._release()

    def close(self) -> None:
        """Write what the socket takes at once, and let go of it. Never waits."""
        if self.is_over and not self._has_failed:
            self._loop.call_soon(self._sock.close)
            return
        self.is_over = False
        with suppress(OSError):
            self._loop.remove_writer(self._fd)
            self.is_waiting = False
            self.flush()
        self._stop()
        # Not now: an event loop that was told of it in this turn must not find another descriptor under its number.
        self._loop.call_soon(self._sock.close)
