"""The listener: accepts, authenticates and counts the connections of a socket adapter.

`UnixAdapter` and `TcpAdapter` are a `Listener` with an `Endpoint` each, which makes the listening socket and knows its address.

A connection becomes a client of the node in three steps: the endpoint checks who is at the other end, `TokenAuth` waits for the
token where one is required, and the listener compares the number of clients with `Limits.connections`. A connection that does not
pass gets one error line and is closed (`ConnectionRejecter`); the node never learns of it.

An adapter ends in two steps, so that the node can work between them: `stop` takes in nothing more, the node answers what it has,
`close` writes the replies and releases everything. A client that does not read its replies in time is disconnected.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, cast, final

from bandstand.bus.adapters.authentication import AuthenticationFailed, TokenAuth
from bandstand.bus.adapters.limits import Limits
from bandstand.bus.adapters.ndjson import NdjsonConnection
from bandstand.bus.durations import to_whole_ms
from bandstand.bus.faults import TOO_MANY_CONNECTIONS, UNAUTHORIZED, FaultMaker
from bandstand.bus.frame import IdGenerator
from bandstand.bus.wire import write_frame
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr, safe_str

if TYPE_CHECKING:
    from bandstand.bus.auth import Token
    from bandstand.bus.protocols import Ingress

__all__ = ("BACKLOG", "ConnectionSet", "Endpoint", "Listener")

# The queue of connections to accept; the operating system may have a lower limit.
BACKLOG = 1024
# The connections to accept before other callbacks run.
ACCEPT_BATCH = 64
# Seconds before the next `accept` when the process has no free descriptors.
ACCEPT_RETRY_S = 1.0
# Seconds to wait for aborted connections to end; usually one turn of the event loop.
ABORT_TIMEOUT_S = 1.0

# For rejected connections: how many may linger at a time, for how many seconds, and how many of their bytes are read.
MAX_LINGERING = 64
LINGER_S = 1.0
LINGER_BYTES = 1 << 20
# Seconds between two log lines about rejected connections.
LOG_INTERVAL_S = 10.0

logger = SafeLogger("bandstand.bus")


class Endpoint(Protocol):
    """The address of a listener, and how to listen there."""

    @property
    def name(self) -> str:
        """The address, such as `unix:/run/x.sock`. Final once `bind` has returned."""
        ...

    async def bind(self) -> socket.socket:
        """Make a listening, non-blocking socket. On failure nothing is left behind.

        Raises:
            ListenError: says why.
        """
        ...

    def release(self) -> None:
        """Release what `bind` has acquired besides the socket."""
        ...

    def check_peer(self, connection: socket.socket) -> str:
        """Return why the process at the other end may not connect; an empty string if it may."""
        ...


@final
class ConnectionSet:
    """The connections of one adapter.

    Attributes:
        is_open: True if new connections may be added.
    """

    __slots__ = ("_connections", "_is_empty", "is_open")

    def __init__(self) -> None:
        self.is_open = True
        self._connections: set[NdjsonConnection] = set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: NdjsonConnection) -> None:
        """Add a connection, before the event loop has connected it: from then on `close` waits for it."""
        self._connections.add(connection)
        self._is_empty.clear()

    def may_open(self) -> bool:
        """Return False if the adapter is closing, so that a connection comes too late."""
        return self.is_open

    def remove(self, connection: NdjsonConnection) -> None:
        """Remove a connection that is closed."""
        self._connections.discard(connection)
        if not self._connections:
            self._is_empty.set()

    @property
    def is_flushed(self) -> bool:
        """True if the operating system has taken everything that was delivered."""
        return all(connection.is_flushed for connection in self._connections)

    @property
    def can_produce(self) -> bool:
        """True if messages can still come from one of the clients."""
        return any(connection.can_produce for connection in self._connections)

    def stop(self) -> None:
        """Admit nothing more."""
        self.is_open = False
        for connection in tuple(self._connections):
            connection.stop()

    async def close(self, timeout: float) -> None:
        """Write what was delivered, for at most `timeout` seconds, and close every connection."""
        self.stop()
        for connection in tuple(self._connections):
            connection.close()
        try:
            await self._wait_empty(timeout)
        finally:
            for connection in tuple(self._connections):
                connection.abort()
        await self._wait_empty(ABORT_TIMEOUT_S)

    async def _wait_empty(self, timeout: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._is_empty.wait()


@final
class ConnectionRejecter:
    """Closes connections with an error line that says why.

    Closing a socket with unread data resets the connection, and the client may lose the error line. So the rejecter reads and
    discards what the client sends for a moment, until the client has closed. At most `MAX_LINGERING` connections get this time;
    the others are closed at once.

    Args:
        name: returns the name of the adapter, for the log.
    """

    __slots__ = ("_faults", "_lingering", "_name", "_next_log", "_unlogged")

    def __init__(self, name: Callable[[], str]) -> None:
        ids = IdGenerator()
        self._faults = FaultMaker(ids, ids.now_ms)
        self._name = name
        self._lingering = 0
        # When the next log line may be written, and how many rejections it has to mention.
        self._next_log = 0.0
        self._unlogged = 0

    async def reject(
        self, connection: socket.socket, type_name: str, reason: str, request_id: str | None = None
    ) -> None:
        """Send an error and close the connection, also if sending fails."""
        self._log(reason)
        line = write_frame(self._faults.make(type_name, reason, request_id=request_id)) + b"\n"
        self._lingering += 1
        try:
            # The send buffer has room: nothing was written to this connection except, at most, one short reply.
            with suppress(OSError):
                connection.send(line)
                connection.shutdown(socket.SHUT_WR)
                if self._lingering <= MAX_LINGERING:
                    await self._discard_input(connection)
        finally:
            self._lingering -= 1
            connection.close()

    @staticmethod
    async def _discard_input(connection: socket.socket) -> None:
        event_loop = asyncio.get_running_loop()
        count = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while count < LINGER_BYTES and (chunk := await event_loop.sock_recv(connection, 65_536)):
                    count += len(chunk)

    def _log(self, reason: str) -> None:
        """Log a rejection, rate-limited: clients can cause as many as they like."""
        now = time.monotonic()
        if now < self._next_log:
            self._unlogged += 1
            return
        more = f" (and {self._unlogged} more since the last line)" if self._unlogged else ""
        logger.warning("%s: rejected a connection: %s%s", self._name(), reason, more)
        self._next_log = now + LOG_INTERVAL_S
        self._unlogged = 0


class Listener:
    """An adapter that listens on a socket.

    Args:
        endpoint: where to listen.
        limits: the limits of each client, and of their number; the defaults if None.
        token: the token that each client must send first; None if none is required.
    """

    def __init__(self, endpoint: Endpoint, limits: Limits | None, token: Token | None = None) -> None:
        if limits is not None and not isinstance(limits, Limits):
            raise InvalidArgumentError(f"limits is {safe_repr(limits)}: pass Limits(...)")
        self.limits = limits or Limits()
        self._endpoint = endpoint
        self._connections: ConnectionSet | None = None
        self._socket: socket.socket | None = None
        self._rejecter = ConnectionRejecter(lambda: endpoint.name)
        self._token_auth = None if token is None else TokenAuth(token, self.limits)
        # Accepted connections that the event loop has not connected yet. Those that are unauthenticated or rejected are in both
        # sets; `stop` cancels them instead of waiting.
        self._pending: set[asyncio.Task[None]] = set()
        self._cancellable: set[asyncio.Task[None]] = set()
        # Set while the listener waits for free descriptors.
        self._accept_retry: asyncio.TimerHandle | None = None
        self._count = 0

    @property
    def name(self) -> str:
        """The address, such as `unix:/run/x.sock` or `tcp:127.0.0.1:7777`. Final once the adapter has started."""
        return self._endpoint.name

    @property
    def can_produce(self) -> bool:
        """True if messages can still come in: as long as the adapter listens."""
        return self._socket is not None

    @property
    def is_flushed(self) -> bool:
        """True if the operating system has taken everything that was delivered."""
        return self._connections is None or self._connections.is_flushed

    async def start(self, ingress: Ingress) -> None:
        """Start to listen. On failure nothing is left behind.

        Raises:
            ListenError: says why.
            InvalidArgumentError: the adapter has been started already.
        """
        if self._connections is not None:
            raise InvalidArgumentError(f"{self.name} has been started already: close it first")
        self._socket = await self._endpoint.bind()
        self._connections = ConnectionSet()
        self._watch(ingress, self._socket, self._connections)

    async def stop(self) -> None:
        """Take in nothing more: no new connections, and nothing from the existing ones. Replies can still be delivered."""
        if self._accept_retry is not None:
            self._accept_retry.cancel()
            self._accept_retry = None
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self._endpoint.release()
        for task in self._cancellable:
            task.cancel()
        if self._connections is not None:
            self._connections.stop()

    async def close(self, timeout: float) -> None:
        """Write what was delivered, for at most `timeout` seconds; then close every connection and release everything."""
        await self.stop()
        if self._pending:
            await asyncio.wait(self._pending)
        try:
            if self._connections is not None:
                await self._connections.close(timeout)
        finally:
            self._connections = None

    # asyncio.Server is not used: closing it loses connections that are accepted and not connected yet.

    def _watch(self, ingress: Ingress, listening: socket.socket, connections: ConnectionSet) -> None:
        self._accept_retry = None
        event_loop = asyncio.get_running_loop()
        event_loop.add_reader(listening, self._accept, ingress, listening, connections)

    def _accept(self, ingress: Ingress, listening: socket.socket, connections: ConnectionSet) -> None:
        event_loop = asyncio.get_running_loop()
        for _ in range(ACCEPT_BATCH):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # No descriptors or no memory. The clients stay in the backlog; pause instead of retrying in a busy loop.
                logger.warning(
                    "%s: no connections are accepted for %g s: %s", self.name, ACCEPT_RETRY_S, error
                )
                event_loop.remove_reader(listening)
                self._accept_retry = event_loop.call_later(
                    ACCEPT_RETRY_S, self._watch, ingress, listening, connections
                )
                return
            accepted.settimeout(0)
            self._on_accepted(ingress, accepted, connections)

    def _on_accepted(self, ingress: Ingress, accepted: socket.socket, connections: ConnectionSet) -> None:
        """Connect, authenticate or reject a new connection."""
        reason = self._endpoint.check_peer(accepted)
        if reason:
            self._begin(self._rejecter.reject(accepted, UNAUTHORIZED, reason), accepted, is_cancellable=True)
        elif self._token_auth is not None:
            self._begin(
                self._authenticate(ingress, accepted, connections, self._token_auth),
                accepted,
                is_cancellable=True,
            )
        elif len(connections) >= self.limits.connections:
            self._begin(self._reject_over_limit(accepted), accepted, is_cancellable=True)
        else:
            # Counted before the next one is accepted.
            connection = self._add_connection(ingress, connections)
            self._begin(_connect(connection, accepted, connections), accepted)

    def _begin(
        self, work: Coroutine[None, None, None], accepted: socket.socket, *, is_cancellable: bool = False
    ) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"{self.name}: new connection")
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        if is_cancellable:
            self._cancellable.add(task)
            task.add_done_callback(self._cancellable.discard)
            # A task that is cancelled before its first step runs no code at all, so it does not close the socket.
            task.add_done_callback(lambda _: accepted.close() if task.cancelled() else None)

    async def _authenticate(
        self,
        ingress: Ingress,
        accepted: socket.socket,
        connections: ConnectionSet,
        token_auth: TokenAuth,
    ) -> None:
        """Connect a client once it has sent the token."""
        try:
            received = await token_auth.authenticate(accepted)
        except AuthenticationFailed as failure:
            await self._rejecter.reject(accepted, UNAUTHORIZED, safe_str(failure), failure.request_id)
            return
        except OSError:
            accepted.close()
            return
        except BaseException:  # also on cancellation, the socket is closed
            accepted.close()
            raise
        if len(connections) >= self.limits.connections:
            await self._reject_over_limit(accepted)
            return
        # From here on `close` waits for this task.
        self._cancellable.discard(cast("asyncio.Task[None]", asyncio.current_task()))
        await _connect(self._add_connection(ingress, connections, received), accepted, connections)

    async def _reject_over_limit(self, accepted: socket.socket) -> None:
        await self._rejecter.reject(
            accepted,
            TOO_MANY_CONNECTIONS,
            f"{self.name} has reached its limit of {self.limits.connections} connections: close one, try again later, or raise "
            f"Limits.connections",
        )

    def _add_connection(
        self, ingress: Ingress, connections: ConnectionSet, received: bytes = b""
    ) -> NdjsonConnection:
        self._count += 1
        connection = NdjsonConnection(
            ingress,
            self.limits,
            f"{self.name}#{self._count}",
            may_open=connections.may_open,
            on_close=connections.remove,
            line_timeout_ms=to_whole_ms("line_timeout", self.limits.line_timeout),
            received=received,
        )
        connections.add(connection)
        return connection


async def _connect(connection: NdjsonConnection, accepted: socket.socket, connections: ConnectionSet) -> None:
    def protocol() -> asyncio.Protocol:
        # It has all the methods, and is compiled, so it has no base class of Python's.
        return cast("asyncio.Protocol", connection)

    try:
        await asyncio.get_running_loop().connect_accepted_socket(protocol, accepted)
    except OSError:
        # The client has left already.
        accepted.close()
        connections.remove(connection)
