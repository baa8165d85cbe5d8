"""What the adapters share that listen on a socket: accepting clients, and letting them go.

Three steps end an adapter, so that a node can do its own work between them: `stop` takes in nothing more, the node answers what
it has, `close` writes those answers out and releases everything. A client that does not take its answers in time is dropped.

Who is let in is decided before the node hears of a client: by who it is, where the operating system says so; by its token, where one is
asked for; and by how many there are.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import TYPE_CHECKING, cast

from bandstand.bus.adapters.bouncer import Bouncer
from bandstand.bus.adapters.doorman import Doorman, Unwelcome
from bandstand.bus.adapters.limits import Limits
from bandstand.bus.adapters.lines import Lines
from bandstand.bus.adapters.ndjson import NdjsonLine
from bandstand.bus.faults import TOO_MANY_CONNECTIONS, UNAUTHORIZED
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from socket import socket

    from bandstand.bus.ports import Ingress
    from bandstand.bus.token import Token

__all__ = ("BACKLOG", "Listener")

# How many clients may wait to be accepted; the operating system may have a lower limit.
BACKLOG = 1024

# How many are accepted before others have their turn.
BURST = 64

# Seconds to wait when there are no descriptors for clients.
RECESS_S = 1.0

logger = SafeLogger("bandstand.bus")


class Listener(ABC):
    """An adapter that listens on a socket. `UnixAdapter` and `TcpAdapter` say on which.

    Args:
        limits: how much each client may ask, and how many there may be.
        token: what each has to show first; None if nothing.
    """

    def __init__(self, limits: Limits | None, token: Token | None = None) -> None:
        if limits is not None and not isinstance(limits, Limits):
            raise InvalidArgument(f"limits is {safe_repr(limits)}: pass Limits(...)")
        self.limits = limits or Limits()
        self._lines: Lines | None = None
        self._socket: socket | None = None
        self._bouncer = Bouncer(lambda: self.name)
        self._doorman = None if token is None else Doorman(token, self.limits)
        # Those who were accepted, and are not yet connected by the event loop; of these, those who need not be waited for when it stops:
        # they are strangers, or are shown out.
        self._arrivals: set[asyncio.Task[None]] = set()
        self._strangers: set[asyncio.Task[None]] = set()
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
        for stranger in self._strangers:
            stranger.cancel()
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
            self._receive(ingress, connection, lines)

    def _receive(self, ingress: Ingress, connection: socket, lines: Lines) -> None:
        """Somebody is there: let in, listened to, or turned away."""
        objection = self._object_to(connection)
        if objection:
            self._begin(
                self._bouncer.show_out(connection, UNAUTHORIZED, objection), connection, is_stranger=True
            )
        elif self._doorman is not None:
            self._begin(self._meet(ingress, connection, lines, self._doorman), connection, is_stranger=True)
        elif len(lines) >= self.limits.connections:
            self._begin(self._turn_away(connection), connection, is_stranger=True)
        else:
            # Counted in before the next one is asked for.
            line = self._line_for(ingress, lines)
            self._begin(_connect(line, connection, lines), connection)

    def _object_to(self, connection: socket) -> str:  # noqa: ARG002  # a hook
        """Why this one may not come in, whatever it says; empty if nothing is known against it."""
        return ""

    def _begin(
        self, arriving: Coroutine[None, None, None], connection: socket, *, is_stranger: bool = False
    ) -> None:
        arrival = asyncio.get_running_loop().create_task(arriving, name=f"{self.name}: an arrival")
        self._arrivals.add(arrival)
        arrival.add_done_callback(self._arrivals.discard)
        if is_stranger:
            self._strangers.add(arrival)
            arrival.add_done_callback(self._strangers.discard)
            # One that is cancelled before it has begun does nothing at all.
            arrival.add_done_callback(lambda _: connection.close() if arrival.cancelled() else None)

    def _line_for(self, ingress: Ingress, lines: Lines, said: bytes = b"") -> NdjsonLine:
        self._count += 1
        line = NdjsonLine(
            ingress,
            self.limits,
            f"{self.name}#{self._count}",
            is_welcome=lines.is_welcome,
            end=lines.end,
            half_line_ms=self.limits.half_line_ms,
            said=said,
        )
        lines.add(line)
        return line

    async def _turn_away(self, connection: socket) -> None:
        most = self.limits.connections
        said = f"{self.name} has {most} connections, which is the limit here: close one, try again later, or raise Limits.connections"
        await self._bouncer.show_out(connection, TOO_MANY_CONNECTIONS, said)

    async def _meet(self, ingress: Ingress, connection: socket, lines: Lines, doorman: Doorman) -> None:
        """Let one in that shows the token."""
        try:
            said = await doorman.meet(connection)
        except Unwelcome as verdict:
            await self._bouncer.show_out(connection, UNAUTHORIZED, str(verdict), verdict.request_id)
            return
        except OSError:
            connection.close()
            return
        except BaseException:  # whatever it was, the connection is ours
            connection.close()
            raise
        if len(lines) >= self.limits.connections:
            await self._turn_away(connection)
            return
        # No stranger any more: from here on it is waited for.
        self._strangers.discard(cast("asyncio.Task[None]", asyncio.current_task()))
        await _connect(self._line_for(ingress, lines, said), connection, lines)


async def _connect(line: NdjsonLine, connection: socket, lines: Lines) -> None:
    try:
        await asyncio.get_running_loop().connect_accepted_socket(lambda: line, connection)
    except OSError:
        # It is gone again already.
        connection.close()
        lines.end(line)
