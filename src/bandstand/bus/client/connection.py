"""The client of a node, for programs with an event loop.

    async with connect("unix:/run/shop.sock") as bus:
        order = await bus.call(Place(item="teapot"))
        async for event in bus.subscribe("Orders.*"):
            ...

`Connection` is the public object, and encodes and decodes messages. Its `Session` keeps it connected: it dials, does the handshake, and
reconnects. `ClientProtocol` is one connection on the wire.

When a connection is lost, the session dials again at growing intervals. On the new connection it first restores the subscriptions, then it
sends every call again that had no reply, under the same id and with the same deadline. Three things end a session besides `close`: the
node refuses the client, the process at the other end is not a node, or no node is found for `ClientConfig.give_up_after`.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, TypeVar, cast, final, overload

import msgspec

from bandstand.bus.bus_client import message_codec, reply_codec, request_error
from bandstand.bus.client.calls import CallTable, FrameMaker, PendingCall, encode_data, encode_frame
from bandstand.bus.client.config import MAX_SOCKET_PATH, resolve_target
from bandstand.bus.client.subscription import Gap, Passed, Subscription, SubscriptionTable, reader_of
from bandstand.bus.contracts.messages import Event, Message, Query, TypedMessage, TypedRequest
from bandstand.bus.durations import checked_timeout_ms
from bandstand.bus.faults import ROUTING_ERROR, SCHEMA_ERROR, TOO_MANY_CONNECTIONS, UNAUTHORIZED
from bandstand.bus.frame import Frame, Kind
from bandstand.bus.tap import Filter
from bandstand.bus.wire import MAX_DEPTH, OVERLONG, LineSplitter, read_frame
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgumentError, InvalidMessageError, NodeGoneError, RequestFailedError
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.errors.validation import Seconds, to_seconds

if TYPE_CHECKING:
    from types import TracebackType

    from msgspec import Raw

    from bandstand.bus.client.config import Address, ClientConfig

__all__ = ("Connection", "connect")

logger = SafeLogger("bandstand.bus")

Reply = TypeVar("Reply")
E = TypeVar("E", bound=Event)

# The longest line that a client reads; it disconnects from a node that sends a longer one.
MAX_LINE = 1 << 28
# A message may have `MAX_DEPTH` levels, and a node sends it back with some more around it: a copy of the traffic, a dead letter, a copy of that.
MAX_RECEIVED_DEPTH = 2 * MAX_DEPTH
# Seconds to wait for a closed connection to end; usually one turn of the event loop.
CLOSE_TIMEOUT_S = 1.0
# The errors with which a node refuses a connection.
REFUSALS = frozenset({UNAUTHORIZED, TOO_MANY_CONNECTIONS})
PING: tuple[Kind, str, object] = ("query", "Syscall.Ping", {})


def connect(url: str | Address | None = None, config: ClientConfig | None = None) -> Connection:
    """Make a client of the node at an address. Use it with `async with`.

    Args:
        url: `unix:PATH` or `tcp:HOST:PORT`; None for `$BANDSTAND_BUS`, or the default address of `bandstand serve`.
        config: the settings; None for the defaults.

    Raises:
        InvalidArgumentError: `url` is not an address, or `config` not a configuration.
    """
    return Connection(*resolve_target(url, config))


@final
class Connection:
    """A client of a node, made by `connect`. Use it only on the event loop that has entered it.

    Many calls can be pending at once. After the loss of the connection they are sent again, with the same id and within their timeout.
    """

    def __init__(self, address: Address, config: ClientConfig) -> None:
        self._address = address
        self._config = config
        self._frames = FrameMaker()
        self._session: Session | None = None

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            NodeGoneError: no node is listening there.
            InvalidMessageError: the process that listens there is not a node.
            RequestFailedError: the node refuses the client, for example without a token.
            PermissionError: the node belongs to another user.
        """
        if self._session is not None and self._session.error is None:
            raise InvalidArgumentError("this connection is open already: make another one with connect()")
        self._session = Session(self._address, self._config, self._frames)
        await self._session.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close(NodeGoneError("this program closed the connection"))

    @property
    def is_connected(self) -> bool:
        """True if there is a connection now. Calls that are made while there is none wait for it, within their timeout."""
        return self._session is not None and self._session.is_connected

    # -- calls ------------------------------------------------------------------------------------------------------

    @overload
    async def call(self, request: TypedRequest[Reply], /, *, timeout: Seconds | None = None) -> Reply: ...
    # Any: only the node knows the type of a plain reply.
    @overload
    async def call(self, request: str, data: object = ..., /, *, timeout: Seconds | None = None) -> Any: ...
    async def call(self, request: Any, data: object = b"{}", /, *, timeout: Seconds | None = None) -> Any:
        """Send a command or a query, and return its reply.

        After the loss of the connection it is sent again with the same id: a node that remembers its replies carries it out once.

        Args:
            request: a `Command` or `Query`; or a type, as `"Orders.Place"`, which is sent as a command.
            data: the data for a type: plain values, or JSON as bytes.
            timeout: the time for the call in seconds, over all connections; None for the time in the configuration.

        Raises:
            RequestFailedError: the reply is an error.
            NodeGoneError: there was no node in time; the message says whether the request may have been carried out.
            AskTimeoutError: there was no reply in time, not even a timeout error of the node.
            InvalidMessageError: the reply does not match the class.
            ContractViolationError: a field has a value that its type does not allow.
            InvalidArgumentError: the request cannot be sent.
        """
        return await self._call("command", request, data, timeout)

    @overload
    async def query(self, request: Query[Reply], /, *, timeout: Seconds | None = None) -> Reply: ...
    @overload
    async def query(self, request: str, data: object = ..., /, *, timeout: Seconds | None = None) -> Any: ...
    async def query(self, request: Any, data: object = b"{}", /, *, timeout: Seconds | None = None) -> Any:
        """Send a query, and return its reply. Like `call`, but a type is sent as a query."""
        if isinstance(request, TypedMessage) and request.message_kind != "query":
            raise InvalidArgumentError(f"{safe_repr(request)} is not a Query: send it with call()")
        return await self._call("query", request, data, timeout)

    async def _call(self, kind: Kind, request: object, data: object, timeout: Seconds | None) -> object:
        if isinstance(request, str):
            reply = await self.exchange(kind, request, data, timeout)
            if reply.kind == "error":
                raise request_error(request, reply)
            plain: object = msgspec.json.decode(reply.data)
            return plain
        kind, type_name, raw = _encode_message(request, TypedRequest, "a Command, a Query or a type")
        reply = await self._open_session().request(kind, type_name, raw, timeout)
        if reply.kind == "error":
            raise request_error(type_name, reply)
        value: object = reply_codec(cast("type", type(request))).read(reply.data)
        return value

    async def exchange(
        self,
        kind: Kind,
        type: str,  # noqa: A002  # the name of the field on the wire
        data: object = b"{}",
        timeout: Seconds | None = None,
        /,
    ) -> Frame:
        """Send a command or a query, and return the frame of its reply, which may be an error."""
        if kind not in {"command", "query"}:
            raise InvalidArgumentError(f"{safe_repr(kind)} gets no reply: pass 'command' or 'query'")
        return await self._open_session().request(kind, type, encode_data(data), timeout)

    # -- events -----------------------------------------------------------------------------------------------------

    async def emit(
        self,
        event: Event | str,
        data: object = b"{}",
        /,
        *,
        confirm: bool = True,
        timeout: Seconds | None = None,
    ) -> None:
        """Publish an event to its subscribers.

        Args:
            event: an `Event`; or a type, as `"Orders.Placed"`.
            data: the data for a type.
            confirm: wait until the node has taken the event, and raise if it refuses it. Otherwise errors are logged.
            timeout: the time for that, in seconds.

        Raises:
            RequestFailedError: the node refuses the event.
            NodeGoneError: there was no node in time, or the connection was lost before the node confirmed the event. It is not sent again: the
                subscribers could not tell that it is the same event.
            AskTimeoutError: the node has not confirmed the event in time.
        """
        if isinstance(event, str):
            type_name, raw = event, encode_data(data)
        else:
            _, type_name, raw = _encode_message(event, Event, "an Event or a type")
        calls = self._open_session().calls
        frame = self._frames.make("event", type_name, raw)
        limit = checked_timeout_ms(self._config.timeout if timeout is None else timeout)
        ping = self._frames.make("query", "Syscall.Ping", encode_data({}), limit)
        call = calls.add(frame, limit, ping)
        if not confirm:
            call.future.add_done_callback(_log_failure)
            return
        reply = await calls.wait(call)
        if reply.kind == "error":
            raise request_error(type_name, reply)

    @overload
    def subscribe(
        self, *wanted: type[E], buffer: int | None = None, gaps: Literal[False]
    ) -> Subscription[E]: ...
    @overload
    def subscribe(
        self, *wanted: type[E], buffer: int | None = None, gaps: Literal[True] = True
    ) -> Subscription[E | Gap]: ...
    @overload
    def subscribe(
        self, *wanted: str, buffer: int | None = None, gaps: Literal[False]
    ) -> Subscription[Message]: ...
    @overload
    def subscribe(
        self, *wanted: str, buffer: int | None = None, gaps: Literal[True] = True
    ) -> Subscription[Message | Gap]: ...
    def subscribe(self, *wanted: Any, buffer: int | None = None, gaps: bool = True) -> Subscription[Any]:
        """Subscribe to events. Use it with `async for`, or with `async with` to be subscribed before the body runs.

        A `Gap` marks where events are missing: the client was disconnected, the connection was too slow for the node, or the reader was too
        slow for the connection.

        Args:
            wanted: event classes, whose events come as instances; or types and patterns, as `"Memory.*"`, whose events come as `Message`.
            buffer: the maximum number of unread events; further ones are dropped. None for the number in the configuration.
            gaps: yield a `Gap` where events are missing; otherwise `Subscription.gaps` counts them.

        Raises:
            InvalidArgumentError: `wanted` has something that is neither, or is empty.
        """
        return self.subscription(wanted, buffer, gaps=gaps)

    # Any, here and above: the overloads say what comes for what was asked.
    def subscription(self, wanted: Sequence[Any], buffer: int | None, *, gaps: bool) -> Subscription[Any]:
        """Like `subscribe`, without overloads, for callers that pass their arguments on."""
        read, types = reader_of(wanted)
        limit = self._config.buffer if buffer is None else buffer
        table = self._open_session().subscriptions
        return Subscription(table, read, Filter(types=frozenset(types)), limit, shows_gaps=gaps)

    def watch(
        self, *types: str, kinds: Collection[Kind] = (), buffer: int | None = None
    ) -> Subscription[Passed | Gap]:
        """Subscribe to all traffic of the node: requests and replies as well as events, with their receivers.

        Args:
            types: types or patterns; none for all.
            kinds: message kinds; none for all.
            buffer: as for `subscribe`.
        """
        limit = self._config.buffer if buffer is None else buffer
        table = self._open_session().subscriptions
        return Subscription(table, _read_traffic, Filter(types=types, kinds=kinds), limit, is_watch=True)

    def _open_session(self) -> Session:
        if self._session is None:
            raise InvalidArgumentError("there is no connection yet: use `async with connect(...) as bus:`")
        if self._session.error is not None:
            raise NodeGoneError(f"this connection is closed: {self._session.error}")
        return self._session


def _log_failure(reply: asyncio.Future[Frame]) -> None:
    """Log what went wrong with an event that no caller waits for."""
    error = None if reply.cancelled() else reply.exception()
    if error is None and not reply.cancelled() and reply.result().kind == "error":
        error = request_error("an event", reply.result())
    if error is not None:
        logger.warning("%s", error)


def _read_traffic(frame: Frame) -> Passed:
    return msgspec.json.decode(frame.data, type=Passed)


def _encode_message(message: object, kind: type[TypedMessage], expected: str) -> tuple[Kind, str, Raw]:
    if not isinstance(message, kind) or message.message_kind is None or not message.message_type:
        raise InvalidArgumentError(f"{safe_repr(message)} cannot be sent: pass {expected}, as 'Word.Word'")
    return message.message_kind, message.message_type, message_codec(type(message)).write(message)


# --- staying connected ------------------------------------------------------------------------------------------------


@final
class Session:
    """Keeps one client connected, with its calls and subscriptions.

    Args:
        address: the address of the node.
        config: the settings.
        frames: makes the client's frames.
    """

    def __init__(self, address: Address, config: ClientConfig, frames: FrameMaker) -> None:
        self._address = address
        self._config = config
        self._frames = frames
        self._event_loop = asyncio.get_running_loop()
        self.calls = CallTable(config.window, lambda: self._loss, retry_overloaded=config.retry_overloaded)
        self.subscriptions = SubscriptionTable(self)
        self._protocol: ClientProtocol | None = None
        self._task: asyncio.Task[None] | None = None
        # Why there is no connection.
        self._loss = f"there is no connection to {address} yet"
        # The last error of the node about the connection itself.
        self._node_error = ""
        # The requests of the handshake, by their ids.
        self._handshake_replies: dict[str, asyncio.Future[Frame]] = {}
        self.error: Exception | None = None
        """Why the session has ended; None while it has not."""
        self.connections = 0
        """The number of connections so far."""

    @property
    def is_connected(self) -> bool:
        """True if there is a connection now."""
        return self._protocol is not None and self._protocol.is_open

    async def start(self) -> None:
        """Connect.

        Raises:
            NodeGoneError: there is no node, within the time in the configuration.
            RequestFailedError: the node refuses the client.
            InvalidMessageError: the process at the other end is not a node.
            PermissionError: the node belongs to another user.
        """
        try:
            self._protocol = await self._connect(to_seconds("wait", self._config.wait))
        except BaseException:  # also on cancellation, the session is over and another can be started
            self._finish(NodeGoneError(self._loss))
            raise
        self._task = self._event_loop.create_task(
            self._reconnect(self._protocol), name=f"client of {self._address}"
        )

    async def close(self, error: Exception) -> None:
        """Disconnect; pending calls fail with `error`."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._finish(error)
        if self._protocol is not None:
            self._protocol.close()
            await asyncio.wait([self._protocol.closed], timeout=CLOSE_TIMEOUT_S)
            self._protocol.abort()

    async def request(self, kind: Kind, type_name: str, data: Raw, timeout: Seconds | None = None) -> Frame:
        """Send a request, and wait for its reply.

        Raises:
            NodeGoneError: there was no node in time, or the session has ended.
            AskTimeoutError: there was no reply in time.
            InvalidArgumentError: the request cannot be sent.
        """
        if self.error is not None:
            raise NodeGoneError(f"this connection is closed: {self.error}")
        limit = checked_timeout_ms(self._config.timeout if timeout is None else timeout)
        return await self.calls.wait(self.calls.add(self._frames.make(kind, type_name, data, limit), limit))

    def send(self, kind: Kind, type_name: str, data: Raw) -> None:
        """Send a request and ignore its reply. Do nothing if the session has ended."""
        if self.error is None:
            limit = checked_timeout_ms(self._config.timeout)
            self.calls.add(self._frames.make(kind, type_name, data, limit), limit)

    # -- connecting -------------------------------------------------------------------------------------------------

    async def _reconnect(self, protocol: ClientProtocol) -> None:
        while True:
            # Shielded: `close` cancels this task, and waits for the same future.
            await asyncio.shield(protocol.closed)
            if isinstance(protocol.error, (InvalidMessageError, RequestFailedError)):
                # Not a node, or one that refuses this client: another attempt would end the same way.
                self._finish(protocol.error)
                return
            if self.error is not None:
                return
            try:
                if not self._config.give_up_after:
                    raise NodeGoneError(self._loss)
                protocol = self._protocol = await self._connect(
                    to_seconds("give_up_after", self._config.give_up_after), waits_first=True
                )
            except (OSError, InvalidMessageError, RequestFailedError) as error:
                self._finish(error)
                return

    async def _connect(self, timeout: float, *, waits_first: bool = False) -> ClientProtocol:
        """Try to connect until it works or the time is over."""
        until = self._event_loop.time() + timeout
        stored = 0.0
        while True:
            if waits_first:
                wait = self._config.backoff.after(stored, chance=random.random())  # noqa: S311  # not a secret
                stored = wait.stored
                await asyncio.sleep(max(0.0, min(wait.delay, until - self._event_loop.time())))
            try:
                return await self._connect_once()
            except NodeGoneError as error:
                self._loss = str(error)
                if self._event_loop.time() >= until:
                    raise
            waits_first = True

    async def _connect_once(self) -> ClientProtocol:
        address = self._address
        timeout = to_seconds("connect_timeout", self._config.connect_timeout)
        protocol = await dial(
            address,
            lambda: ClientProtocol(address, self._on_frame, self._on_lost, self.calls.send_waiting),
            timeout,
        )
        try:
            async with asyncio.timeout(timeout):
                await self._handshake(protocol)
        except TimeoutError:
            protocol.abort()
            raise NodeGoneError(
                f"the process at {address} did not reply within {timeout:g} s: it is stuck, or not a node"
            ) from None
        except BaseException:  # also on cancellation, the connection is closed
            protocol.abort()
            raise
        self.connections += 1
        self._protocol = protocol
        self.calls.on_connected(protocol)
        return protocol

    async def _handshake(self, protocol: ClientProtocol) -> None:
        """Authenticate, check that the other end is a node that serves, and restore the subscriptions."""
        if self._config.token is not None and self._address.host:
            reply = await self._handshake_request(
                protocol, "command", "Syscall.Authenticate", {"token": self._config.token}
            )
            # A node that does not know the command needs no token.
            if reply.kind == "error" and reply.type != ROUTING_ERROR:
                raise request_error("Syscall.Authenticate", reply)
        for kind, type_name, data in (PING, *self.subscriptions.restore_requests()):
            reply = await self._handshake_request(protocol, kind, type_name, data)
            if reply.kind == "error":
                raise NodeGoneError(
                    f"the node at {self._address} refuses requests: {request_error(type_name, reply)}"
                )
        if self.connections:
            self.subscriptions.add_gap(Gap("reconnected"))

    async def _handshake_request(
        self, protocol: ClientProtocol, kind: Kind, type_name: str, data: object
    ) -> Frame:
        frame = self._frames.make(kind, type_name, encode_data(data))
        frame_id = frame.metadata.id
        reply: asyncio.Future[Frame] = self._event_loop.create_future()
        self._handshake_replies[frame_id] = reply
        try:
            protocol.send(encode_frame(frame))
            if not protocol.is_open:
                raise NodeGoneError(self._describe_loss(protocol))
            return await reply
        finally:
            self._handshake_replies.pop(frame_id, None)

    # -- callbacks of the protocol ----------------------------------------------------------------------------------

    def _on_frame(self, frame: Frame) -> None:
        causation = frame.metadata.causation
        if frame.kind == "event":
            self.subscriptions.on_event(frame)
        elif frame.type in REFUSALS and frame.kind == "error":
            self._on_refused(frame)
        elif causation in self._handshake_replies:
            reply = self._handshake_replies[causation]
            if not reply.done():
                reply.set_result(frame)
        elif causation is None and frame.type != SCHEMA_ERROR:
            self._node_error = str(request_error("the connection", frame))
        elif not self.calls.on_reply(frame) and frame.kind == "error":
            # A request whose reply is ignored, or whose caller gave up.
            logger.warning("%s", request_error(causation or "a request", frame))

    def _on_refused(self, frame: Frame) -> None:
        """The node closes the connection, and says why."""
        error = request_error("the connection", frame)
        self._node_error = str(error)
        if self._protocol is not None and frame.type == UNAUTHORIZED:
            self._protocol.abort(error)
        self._fail_handshake(error if frame.type == UNAUTHORIZED else NodeGoneError(str(error)))

    def _on_lost(self, protocol: ClientProtocol) -> None:
        self._loss = self._node_error or self._describe_loss(protocol)
        self._node_error = ""
        is_final = isinstance(protocol.error, InvalidMessageError)
        self._fail_handshake(protocol.error if is_final and protocol.error else NodeGoneError(self._loss))
        if protocol is self._protocol:
            self.calls.on_disconnected()

    def _fail_handshake(self, error: Exception) -> None:
        for reply in self._handshake_replies.values():
            if not reply.done():
                reply.set_exception(error)

    def _describe_loss(self, protocol: ClientProtocol) -> str:
        if protocol.error is None:
            return f"the node at {self._address} closed the connection"
        return f"the connection to {self._address} was lost: {protocol.error}"

    def _finish(self, error: Exception) -> None:
        """End the session: fail the pending calls, and end the subscriptions."""
        if self.error is not None:
            return
        self.error = error

        def call_error(call: PendingCall) -> Exception:
            if not isinstance(error, NodeGoneError):
                return error
            return NodeGoneError(f"{safe_str(error)}, before it replied to {call.name}; {call.outcome}")

        self.calls.fail_all(call_error)
        self.subscriptions.end(error if self._task is not None else None)


# --- one connection ---------------------------------------------------------------------------------------------------


@final
class ClientProtocol(asyncio.Protocol):
    """One connection to a node: turns bytes into frames, and writes lines. A lost connection is never reopened.

    Args:
        address: the address of the node, for error messages.
        on_frame: called with each received frame.
        on_lost: called once when the connection is lost.
        on_writable: called when the connection can be written to again.
    """

    def __init__(
        self,
        address: Address,
        on_frame: Callable[[Frame], None],
        on_lost: Callable[[ClientProtocol], None],
        on_writable: Callable[[], None],
    ) -> None:
        self._address = address
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._on_writable = on_writable
        self._transport: asyncio.Transport | None = None
        self._splitter = LineSplitter(MAX_LINE)
        self._unwritten: list[bytes] = []
        self._event_loop = asyncio.get_running_loop()
        self.is_open = False
        self.is_writable = False
        self.error: Exception | None = None
        """Why the connection was lost, if that is known."""
        self.closed: asyncio.Future[None] = self._event_loop.create_future()
        """Done when the connection is lost."""

    def send(self, line: bytes) -> None:
        """Write a line soon; the lines of one turn of the event loop are one write."""
        if not self._unwritten:
            self._event_loop.call_soon(self._flush)
        self._unwritten.append(line)

    def _flush(self) -> None:
        lines, self._unwritten = self._unwritten, []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(lines))

    def close(self) -> None:
        """Write what was sent, then close the connection."""
        self._flush()
        self.is_open = self.is_writable = False
        if self._transport is not None:
            self._transport.close()

    def abort(self, error: Exception | None = None) -> None:
        """Close the connection now."""
        self.error = self.error or error
        self.is_open = self.is_writable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open the connection."""
        # uvloop's transports do not derive from asyncio.Transport.
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = self.is_writable = True

    def data_received(self, data: bytes) -> None:
        """Decode the frames in the received bytes."""
        self._splitter.feed(data)
        while self.is_open and (lines := self._splitter.cut()):
            for line in lines:
                self._decode(line)

    def _decode(self, line: bytes) -> None:
        if not self.is_open:
            return
        try:
            if line is OVERLONG:
                raise InvalidMessageError.of(f"a line of more than {MAX_LINE} bytes")
            frame = read_frame(line, MAX_RECEIVED_DEPTH)
        except InvalidMessageError as error:
            self.abort(
                InvalidMessageError.of(
                    f"the process at {self._address} is not a node, or is broken: {safe_str(error)}",
                    error.path,
                    error.request_id,
                )
            )
        else:
            self._on_frame(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the loss."""
        self.is_open = self.is_writable = False
        self.error = self.error or exc
        self._transport = None
        self._splitter.clear()
        if not self.closed.done():
            self.closed.set_result(None)
        self._on_lost(self)

    def pause_writing(self) -> None:
        """The node does not read as fast as we write."""
        self.is_writable = False

    def resume_writing(self) -> None:
        """The node has read most of it."""
        self.is_writable = self.is_open
        self._on_writable()


async def dial(address: Address, make: Callable[[], ClientProtocol], timeout: float) -> ClientProtocol:
    """Connect once.

    Raises:
        NodeGoneError: no node listens there, or it did not accept in time. The message says what to do; the cause is the system's error.
        PermissionError: the node belongs to another user.
    """
    address.check()
    try:
        async with asyncio.timeout(timeout):
            return await _dial(address, make)
    except (OSError, UnicodeError) as error:
        _raise_dial_error(address, error, timeout)


async def _dial(address: Address, make: Callable[[], ClientProtocol]) -> ClientProtocol:
    event_loop = asyncio.get_running_loop()
    if address.path:
        if len(os.fsencode(address.path)) > MAX_SOCKET_PATH:
            # Some event loops truncate a longer path silently.
            raise OSError(f"the path is too long: the limit for a socket is {MAX_SOCKET_PATH} bytes")
        _, protocol = await event_loop.create_unix_connection(make, address.path)
        return protocol
    transport, protocol = await event_loop.create_connection(make, address.host, address.port)
    # Detects a machine that has died while the client only waits.
    connection: socket.socket = transport.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return protocol


def _raise_dial_error(address: Address, error: Exception, timeout: float) -> NoReturn:
    if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
        raise NodeGoneError(
            f"no node is listening at {address}: start one with `bandstand serve`, or pass its address with --to or BANDSTAND_BUS"
        ) from error
    if isinstance(error, TimeoutError):
        raise NodeGoneError(f"no connection to {address} within {timeout:g} s") from error
    if isinstance(error, PermissionError):
        raise PermissionError(
            f"you may not connect to {address}: the node belongs to another user"
        ) from error
    if isinstance(error, UnicodeError):
        raise NodeGoneError(f"cannot connect to {address}: {address.host!r} is not a host name") from error
    raise NodeGoneError(f"cannot connect to {address}: {safe_str(error)}") from error
