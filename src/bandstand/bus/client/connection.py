"""A client of a node, for programs that have an event loop.

    async with connect("unix:/run/shop.sock") as bus:
        order = await bus.call(Place(item="teapot"))
        async for event in bus.subscribe("Orders.*"):
            ...

Many calls can be under way at once on its one connection. When that is lost it is made again, and what was asked for is asked for
again, under the same id and within the time it had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast, final, overload

import msgspec

from bandstand.bus.answers import failure_of, payload_of, reply_of
from bandstand.bus.client.frames import FrameMaker, raw_of
from bandstand.bus.client.life import Life
from bandstand.bus.client.opening import settled
from bandstand.bus.client.stream import Gap
from bandstand.bus.client.subscribing import Passed, Roster, Subscription, reader_of
from bandstand.bus.contracts.messages import Event, Message, Query, Request, Spoken
from bandstand.bus.frame import Frame, Kind
from bandstand.bus.tap import Filter
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgument, NodeGone
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from types import TracebackType

    from msgspec import Raw

    from bandstand.bus.client.address import Address
    from bandstand.bus.client.config import ClientConfig

__all__ = ("Connection", "connect")

logger = SafeLogger("bandstand.bus")

Reply = TypeVar("Reply")
E = TypeVar("E", bound=Event)


def connect(url: str | Address | None = None, config: ClientConfig | None = None) -> Connection:
    """A client of the node at an address. Use it by `async with`.

    Args:
        url: `unix:PATH` or `tcp:HOST:PORT`; None for `$BANDSTAND_BUS`, or where `bandstand serve` listens.
        config: how long to wait for what; None for the defaults.

    Raises:
        InvalidArgument: that is no address, or no configuration.
    """
    return Connection(*settled(url, config))


@final
class Connection:
    """A client of a node. Made by `connect`; all of it belongs on the event loop that has entered it."""

    def __init__(self, address: Address, config: ClientConfig) -> None:
        self._address = address
        self._config = config
        self._frames = FrameMaker()
        self._life: Life | None = None
        self._roster: Roster | None = None

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            NodeGone: nobody listens there.
            BadMessage: somebody listens there who is no node.
            RequestFailed: the node does not let anybody in without its token.
            PermissionError: the node is somebody else's.
        """
        if self._life is not None and self._life.error is None:
            raise InvalidArgument("this connection is open already: make another one by connect()")
        self._life = Life(self._address, self._config, self._frames)
        self._roster = Roster(self)
        await self._life.begin(self._roster)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._life is not None:
            await self._life.end(NodeGone("this program has closed the connection"))

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection at this moment. What is asked for while there is none waits for it, in its time."""
        return self._life is not None and self._life.is_connected

    # --- calls --------------------------------------------------------------------------------------------------------

    @overload
    async def call(self, request: Request[Reply], /, *, timeout_ms: int | None = None) -> Reply: ...
    # Any: what a plain answer looks like, only the node knows.
    @overload
    async def call(self, request: str, data: object = ..., /, *, timeout_ms: int | None = None) -> Any: ...
    async def call(self, request: Any, data: object = b"{}", /, *, timeout_ms: int | None = None) -> Any:
        """Send a command, or whatever a class says it is, and have its answer.

        After a lost connection it is sent again with the same id: a node that remembers does it once.

        Args:
            request: a `Command` or `Query`; or a type, as `"Orders.Place"`, which is sent as a command.
            data: the data of a type: plain values, or JSON as bytes.
            timeout_ms: how long it may take, over all connections; None for what the configuration says.

        Raises:
            RequestFailed: it was answered with an error; says which.
            NodeGone: there was no node in time; says whether it may have been done.
            AskTimeout: there was no answer in time, not even that the time is over.
            BadMessage: the answer is not what the class says.
            OutboundFault: a field has a value that its type does not allow.
            InvalidArgument: it is no request.
        """
        return await self._call("command", request, data, timeout_ms)

    @overload
    async def query(self, request: Query[Reply], /, *, timeout_ms: int | None = None) -> Reply: ...
    @overload
    async def query(self, request: str, data: object = ..., /, *, timeout_ms: int | None = None) -> Any: ...
    async def query(self, request: Any, data: object = b"{}", /, *, timeout_ms: int | None = None) -> Any:
        """Ask a question, and have its answer. As `call`, but a type is sent as a query."""
        if isinstance(request, Spoken) and request.message_kind != "query":
            raise InvalidArgument(f"{safe_repr(request)} is no Query: send it with call()")
        return await self._call("query", request, data, timeout_ms)

    async def _call(self, kind: Kind, request: object, data: object, timeout_ms: int | None) -> object:
        if isinstance(request, str):
            answer = await self.exchange(kind, request, data, timeout_ms)
            if answer.kind == "error":
                raise failure_of(request, answer)
            plain: object = msgspec.json.decode(answer.data)
            return plain
        kind, type_name, raw = _written(request, Request, "a Command, a Query or a type")
        answer = await self._ask(kind, type_name, raw, timeout_ms)
        if answer.kind == "error":
            raise failure_of(type_name, answer)
        value: object = reply_of(cast("type", type(request))).read(answer.data)
        return value

    async def exchange(
        self,
        kind: Kind,
        type: str,  # noqa: A002  # its name on the wire
        data: object = b"{}",
        timeout_ms: int | None = None,
        /,
    ) -> Frame:
        """Send a command or a query, and have the frame that answers it, whatever it is: a `reply` or an `error`."""
        if kind not in {"command", "query"}:
            raise InvalidArgument(f"{safe_repr(kind)} is owed no answer: pass 'command' or 'query'")
        return await self._ask(kind, type, raw_of(data), timeout_ms)

    async def _ask(self, kind: Kind, type_name: str, raw: Raw, timeout_ms: int | None) -> Frame:
        calls = self._living().calls
        limit = self._config.timeout_ms if timeout_ms is None else timeout_ms
        return await calls.wait(calls.begin(self._frames.make(kind, type_name, raw, limit), limit))

    # --- events -------------------------------------------------------------------------------------------------------

    async def emit(
        self,
        event: Event | str,
        data: object = b"{}",
        /,
        *,
        confirm: bool = True,
        timeout_ms: int | None = None,
    ) -> None:
        """Tell everybody who subscribes that something has happened.

        Args:
            event: an `Event`; or a type, as `"Orders.Placed"`.
            data: the data of a type.
            confirm: whether to wait until the node has taken it in, and to be told if it is refused. If not, an error goes to the log.
            timeout_ms: how long that may take.

        Raises:
            RequestFailed: the node has refused it; says why.
            NodeGone: there was no node in time, or it has hung up while the event was on its way. It is not sent again:
                nobody would know that it is the same.
            AskTimeout: the node has not said in time that it has it.
        """
        if isinstance(event, str):
            type_name, raw = event, raw_of(data)
        else:
            _, type_name, raw = _written(event, Event, "an Event or a type")
        life = self._living()
        frame = self._frames.make("event", type_name, raw)
        limit = self._config.timeout_ms if timeout_ms is None else timeout_ms
        # A question behind it: what is answered in its order has been preceded by the event.
        witness = self._frames.make("query", "Syscall.Ping", raw_of({}), limit)
        ask = life.calls.begin(frame, limit, witness)
        if not confirm:
            ask.future.add_done_callback(_mind)
            return
        answer = await life.calls.wait(ask)
        if answer.kind == "error":
            raise failure_of(type_name, answer)

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
        """Hear events. Use it by `async for`, or by `async with` to have subscribed before something is done.

        Where something is missing there is a `Gap`: the node was lost and found again, this connection was too slow for the node, or
        whoever reads was too slow for this connection.

        Args:
            wanted: classes of events, which come as such; or types and patterns, as `"Memory.*"`, which come as `Message`.
            buffer: how many may wait to be read; None for what the configuration says. What comes beyond that is missed.
            gaps: whether a `Gap` comes where something is missing; if not, `Subscription.gaps` counts them.

        Raises:
            InvalidArgument: that cannot be subscribed to.
        """
        return self.subscription(wanted, buffer, gaps=gaps)

    # Any, here and above: what comes is what was asked for, and the overloads say which.
    def subscription(self, wanted: Sequence[Any], buffer: int | None, *, gaps: bool) -> Subscription[Any]:
        """What `subscribe` makes, for those who pass on what they were given."""
        read, types = reader_of(wanted)
        limit = self._config.buffer if buffer is None else buffer
        self._living()
        assert self._roster is not None
        return Subscription(self._roster, read, Filter(types=frozenset(types)), limit, shows_gaps=gaps)

    def watch(
        self, *types: str, kinds: Collection[Kind] = (), buffer: int | None = None
    ) -> Subscription[Passed | Gap]:
        """See everything that passes the node: requests and answers as well as events, and who they go to.

        Args:
            types: types or patterns; none for all.
            kinds: these kinds; none for all.
            buffer: as for `subscribe`.
        """
        limit = self._config.buffer if buffer is None else buffer
        self._living()
        assert self._roster is not None
        where = Filter(types=types, kinds=kinds)
        return Subscription(self._roster, _passed, where, limit, is_watch=True)

    # --- for subscriptions --------------------------------------------------------------------------------------------

    def mention(self, kind: Kind, type: str, data: object, /) -> None:  # noqa: A002  # its name on the wire
        """Send something whose answer is of no interest."""
        if self._life is not None and self._life.error is None:
            limit = self._config.timeout_ms
            self._life.calls.begin(self._frames.make(kind, type, raw_of(data), limit), limit)

    def _living(self) -> Life:
        if self._life is None:
            raise InvalidArgument("there is no connection yet: use it by `async with connect(...) as bus:`")
        if self._life.error is not None:
            raise NodeGone(f"this connection is over: {self._life.error}")
        return self._life


def _mind(answer: asyncio.Future[Frame]) -> None:
    """Say in the log what became of an event that nobody waits for, if that is not good."""
    error = None if answer.cancelled() else answer.exception()
    if error is None and not answer.cancelled() and answer.result().kind == "error":
        error = failure_of("an event", answer.result())
    if error is not None:
        logger.warning("%s", error)


def _passed(frame: Frame) -> Passed:
    return msgspec.json.decode(frame.data, type=Passed)


def _written(said: object, kind: type[Spoken], words: str) -> tuple[Kind, str, Raw]:
    if not isinstance(said, kind) or said.message_kind is None or not said.message_type:
        raise InvalidArgument(f"{safe_repr(said)} cannot be sent: pass {words}, as 'Word.Word'")
    return said.message_kind, said.message_type, payload_of(type(said)).write(said)
