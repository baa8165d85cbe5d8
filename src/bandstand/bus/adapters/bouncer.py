"""Turning somebody away: one line that says why, and the end of the connection.

A socket that is closed while something lies in it unread is reset, and the other side may lose what was written to it, the reason among it. So
what it says is taken and dropped for a moment, until it has gone itself. Of those who are shown out like this there are only so
many at a time: past that they are closed at once.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import final

from bandstand.bus.faults import FaultMaker
from bandstand.bus.hot.idmaker import IdMaker
from bandstand.bus.wire import write_frame
from bandstand.core.logs import SafeLogger

__all__ = ("Bouncer",)

# How many are shown out at a time, for how many seconds at most, and how many bytes of theirs are taken.
MOST = 64
LINGER_S = 1.0
TAKEN = 1 << 20

# Seconds between two lines of the log.
SILENCE_S = 10.0

logger = SafeLogger("bandstand.bus")


@final
class Bouncer:
    """Turns clients of one adapter away.

    Args:
        place: says which.
    """

    __slots__ = ("_faults", "_next", "_outgoing", "_place", "_unsaid")

    def __init__(self, place: Callable[[], str]) -> None:
        ids = IdMaker()
        self._faults = FaultMaker(ids, ids.now_ms)
        self._place = place
        self._outgoing = 0
        # When the log may be written to again, and how many it has not been told of.
        self._next = 0.0
        self._unsaid = 0

    async def show_out(
        self, connection: socket.socket, type_name: str, message: str, request_id: str | None = None
    ) -> None:
        """Say why, and close the connection, whatever comes of that."""
        self._log(message)
        line = write_frame(self._faults.make(type_name, message, request_id=request_id)) + b"\n"
        self._outgoing += 1
        try:
            # There is room for it: nothing else was written to this connection but, perhaps, the answer to its greeting.
            with suppress(OSError):
                connection.send(line)
                connection.shutdown(socket.SHUT_WR)
                if self._outgoing <= MOST:
                    await self._take_rest(connection)
        finally:
            self._outgoing -= 1
            connection.close()

    @staticmethod
    async def _take_rest(connection: socket.socket) -> None:
        running = asyncio.get_running_loop()
        taken = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while taken < TAKEN and (chunk := await running.sock_recv(connection, 65_536)):
                    taken += len(chunk)

    def _log(self, message: str) -> None:
        """Tell the log, but not of everybody: whoever wants to fill it only has to come often enough."""
        now = time.monotonic()
        if now < self._next:
            self._unsaid += 1
            return
        more = f" (and {self._unsaid} others since the last time)" if self._unsaid else ""
        logger.warning("%s has turned a client away: %s%s", self._place(), message, more)
        self._next = now + SILENCE_S
        self._unsaid = 0
