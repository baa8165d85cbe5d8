"""What the adapters share that listen on a socket: accepting clients, and letting them go.

Three steps end an adapter, so that a node can do its own work between them: `stop` takes in nothing more, the node answers what
it has, `close` writes those answers out and releases everything. A client that does not take its answers in time is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, final

from bandstand.bus.adapters.limits import Limits
from bandstand.bus.adapters.ndjson import NdjsonLine
from bandstand.errors import InvalidArgument

if TYPE_CHECKING:
    from socket import socket

    from bandstand.bus.ports import Ingress

__all__ = ("BACKLOG", "Lines", "Listener")

# How many clients may wait to be accepted; the operating system may have a lower limit.
BACKLOG = 1024

# How many are accepted before others have their turn.
BURST = 64

# Seconds to wait when there are no descriptors for clients.
RECESS_S = 1.0

# Seconds to wait for the end of connections that were ended: one turn of the event loop, as a rule.
LAST_S = 1.0

logger = logging.getLogger("bandstand.bus")


@final
class Lines:
    """The clients of one adapter.

    Attributes:
        is_open: whether there may be more of them.
    """

    __slots__ = ("_lines", "_none_left", "is_open")

    def __init__(self) -> None:
        self.is_open = True
        self._lines: set[NdjsonLine] = set()
        self._none_left = asyncio.Event()
        self._none_left.set()

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: NdjsonLine) -> None:
        """Count one in, before the event loop has connected it: from then on it has to be waited for."""
        self._lines.add(line)
        self._none_left.clear()

    def is_welcome(self) -> bool:
        """Whether it does not come too late."""
        return self.is_open

    def end(self, line: NdjsonLine) -> None:
        """Count it out."""
        self._lines.discard(line)
        if not self._lines:
            self._none_left.set()

    @property
    def is_flushed(self) -> bool:
        """Whether all that was delivered has been given to the operating system."""
        return all(line.is_flushed for line in self._lines)

    @property
    def can_produce(self) -> bool:
        """Whether anything can still come from any of them."""
        return any(line.can_produce for line in self._lines)

    def stop(self) -> None:
        """Take in nothing more."""
        self.is_open = False
        for line in tuple(self._lines):
            line.stop()

    async def close(self, within_s: float) -> None:
        """Write out what was delivered, for at most so long, and drop every client."""
        self.stop()
        for line in tuple(self._lines):
            line.close()
        try:
            await self._wait(within_s)
        finally:
            for line in tuple(self._lines):
                line.abort()
        await self._wait(LAST_S)

    async def _wait(self, within_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._none_left.wait()


class Listener(ABC):
    """An adapter that listens on a socket. `UnixAdapter` and `TcpAdapter` say on which.

    Args:
        limits: how much each client may ask.
    """

    def __init__(self, limits: Limits | None) -> None:
        if limits is not None and not isinstance(limits, Limits):
            raise InvalidArgument(f"limits is {limits!r}: pass Limits(...)")
        self.limits = limits or Limits()
        self._lines: Lines | None = None
        self._socket: socket | None = None
        # Clients that were accepted, and that the event loop has not connected yet.
        self._arrivals: set[asyncio.Task[None]] = set()
        # Set while there are no descriptors for clients.
        self._recess: asyncio.TimerHandle | None = None
        self._count = 0

    @property
    @abstractmethod
    def name(self) -> str:
        """Where it is. Final once it has started."""

    @property
    def can_produce(self) -> bool:
        """Whether anything can still come in by it: as long as it listens, somebody may come."""
        return self._socket is not None

    @property
    def is_flushed(self) -> bool:
        """Whether all that was delivered to its clients has been written out."""
        return self._lines is None or self._lines.is_flushed

    async def start(self, ingress: Ingress) -> None:
        """Begin to listen. On failure nothing is left behind.

        Raises:
            CannotListen: says what is in the way.
        """
        if self._lines is not None:
            raise InvalidArgument(f"{self.name} has been started already: close it first")
        self._socket = await self._bind()
        self._lines = Lines()
        self._accept_on(ingress, self._socket, self._lines)

    async def stop(self) -> None:
        """Take in nothing more: no new clients, nothing more from those that are there."""
        if self._recess is not None:
            self._recess.cancel()
            self._recess = None
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self._release()
        if self._lines is not None:
            self._lines.stop()

    async def close(self, within_s: float) -> None:
        """Write out what was delivered, for at most so long; then drop every client and release everything."""
        await self.stop()
        if self._arrivals:
            await asyncio.wait(self._arrivals)
        try:
            if self._lines is not None:
                await self._lines.close(within_s)
        finally:
            self._lines = None

    @abstractmethod
    async def _bind(self) -> socket:
        """Make a socket that listens and does not block; on failure, leave nothing behind."""

    def _release(self) -> None:
        """Give back what `_bind` has taken besides the socket, if it takes anything."""
        return

    # asyncio's own server loses a client that it has accepted and not yet connected when it is closed. So we accept.

    def _accept_on(self, ingress: Ingress, listening: socket, lines: Lines) -> None:
        self._recess = None
        event_loop = asyncio.get_running_loop()
        event_loop.add_reader(listening, self._accept, ingress, listening, lines)

    def _accept(self, ingress: Ingress, listening: socket, lines: Lines) -> None:
        event_loop = asyncio.get_running_loop()
        for _ in range(BURST):
            try:
                connection, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # No descriptors, or no memory. Those who wait keep waiting, and we do not ask all the time.
                logger.warning("%s accepts nobody for %g s: %s", self.name, RECESS_S, error)
                event_loop.remove_reader(listening)
                self._recess = event_loop.call_later(RECESS_S, self._accept_on, ingress, listening, lines)
                return
            connection.settimeout(0)
            self._count += 1
            line = NdjsonLine(
                ingress,
                self.limits,
                f"{self.name}#{self._count}",
                is_welcome=lines.is_welcome,
                end=lines.end,
            )
            lines.add(line)
            arrival = event_loop.create_task(_connect(line, connection, lines), name=line.name)
            self._arrivals.add(arrival)
            arrival.add_done_callback(self._arrivals.discard)


async def _connect(line: NdjsonLine, connection: socket, lines: Lines) -> None:
    try:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: line, connection)
    except OSError:
        # It is gone again already.
        connection.close()
        lines.end(line)
