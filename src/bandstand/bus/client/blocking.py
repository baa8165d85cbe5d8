"""The same client for programs without an event loop: scripts, notebooks, the command line.

It is the one client there is, on an event loop of its own on a thread of its own; each verb waits for it. So everything that
holds for the one holds for the other, and any thread may use it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, final, overload

from bandstand.bus.client.connection import Connection
from bandstand.bus.client.opening import settled
from bandstand.bus.client.portal import Portal
from bandstand.bus.client.subscribing import Passed, Subscription
from bandstand.errors import AskTimeout, InvalidArgument

if TYPE_CHECKING:
    from types import TracebackType

    from bandstand.bus.client.address import Address
    from bandstand.bus.client.config import ClientConfig
    from bandstand.bus.client.stream import Gap
    from bandstand.bus.contracts.messages import Event, Message, Query, Request
    from bandstand.bus.frame import Frame, Kind

__all__ = ("BlockingConnection", "BlockingSubscription", "connect_blocking")

T = TypeVar("T")
Reply = TypeVar("Reply")
E = TypeVar("E", bound="Event")


def connect_blocking(
    url: str | Address | None = None, config: ClientConfig | None = None
) -> BlockingConnection:
    """A client of the node at an address, for programs without an event loop. Use it by `with`.

    Args:
        url: `unix:PATH` or `tcp:HOST:PORT`; None for `$BANDSTAND_BUS`, or where `bandstand serve` listens.
        config: how long to wait for what; None for the defaults.

    Raises:
        InvalidArgument: that is no address, or no configuration.
    """
    return BlockingConnection(*settled(url, config))


@final
class BlockingConnection:
    """A client of a node. Made by `connect_blocking`; its verbs are those of `Connection`, and wait."""

    def __init__(self, address: Address, config: ClientConfig) -> None:
        self._bus = Connection(address, config)
        self._portal: Portal | None = None

    def __enter__(self) -> Self:
        """Connect. Raises what `Connection` raises."""
        if self._portal is not None:
            raise InvalidArgument("this connection is open already: make another one by connect_blocking()")
        self._portal = Portal()
        try:
            self._portal.wait(self._bus.__aenter__())
        except BaseException:  # whatever it was, the thread is ours
            self._portal.close()
            self._portal = None
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        portal, self._portal = self._portal, None
        if portal is not None:
            try:
                portal.wait(self._bus.__aexit__(None, None, None))
            finally:
                portal.close()

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection at this moment."""
        return self._portal is not None and self._bus.is_connected

    @overload
    def call(self, request: Request[Reply], /, *, timeout_ms: int | None = None) -> Reply: ...
    # Any: what a plain answer looks like, only the node knows.
    @overload
    def call(self, request: str, data: object = ..., /, *, timeout_ms: int | None = None) -> Any: ...
    def call(self, request: Any, data: object = b"{}", /, *, timeout_ms: int | None = None) -> Any:
        """Send a command, or whatever a class says it is, and wait for its answer: see `Connection.call`."""
        return self._open().wait(self._bus.call(request, data, timeout_ms=timeout_ms))

    @overload
    def query(self, request: Query[Reply], /, *, timeout_ms: int | None = None) -> Reply: ...
    @overload
    def query(self, request: str, data: object = ..., /, *, timeout_ms: int | None = None) -> Any: ...
    def query(self, request: Any, data: object = b"{}", /, *, timeout_ms: int | None = None) -> Any:
        """Ask a question, and wait for its answer: see `Connection.query`."""
        return self._open().wait(self._bus.query(request, data, timeout_ms=timeout_ms))

    def exchange(
        self,
        kind: Kind,
        type: str,  # noqa: A002  # its name on the wire
        data: object = b"{}",
        timeout_ms: int | None = None,
        /,
    ) -> Frame:
        """Send a command or a query, and wait for the frame that answers it: see `Connection.exchange`."""
        return self._open().wait(self._bus.exchange(kind, type, data, timeout_ms))

    def emit(
        self,
        event: Event | str,
        data: object = b"{}",
        /,
        *,
        confirm: bool = True,
        timeout_ms: int | None = None,
    ) -> None:
        """Tell everybody who subscribes that something has happened: see `Connection.emit`."""
        self._open().wait(self._bus.emit(event, data, confirm=confirm, timeout_ms=timeout_ms))

    @overload
    def subscribe(
        self,
        *wanted: type[E],
        buffer: int | None = None,
        timeout_s: float | None = None,
        gaps: Literal[False],
    ) -> BlockingSubscription[E]: ...
    @overload
    def subscribe(
        self,
        *wanted: type[E],
        buffer: int | None = None,
        timeout_s: float | None = None,
        gaps: Literal[True] = True,
    ) -> BlockingSubscription[E | Gap]: ...
    @overload
    def subscribe(
        self, *wanted: str, buffer: int | None = None, timeout_s: float | None = None, gaps: Literal[False]
    ) -> BlockingSubscription[Message]: ...
    @overload
    def subscribe(
        self,
        *wanted: str,
        buffer: int | None = None,
        timeout_s: float | None = None,
        gaps: Literal[True] = True,
    ) -> BlockingSubscription[Message | Gap]: ...
    def subscribe(
        self, *wanted: Any, buffer: int | None = None, timeout_s: float | None = None, gaps: bool = True
    ) -> BlockingSubscription[Any]:
        """Hear events, from now on: see `Connection.subscribe`. Iterate over it, or ask for the `next` one.

        Args:
            wanted: classes of events, or types and patterns.
            buffer: how many may wait to be read.
            timeout_s: an iteration is over when nothing has come for so long; None to wait for ever.
            gaps: whether a `Gap` comes where something is missing.
        """
        return self._listen(lambda: self._bus.subscription(wanted, buffer, gaps=gaps), timeout_s)

    def watch(
        self,
        *types: str,
        kinds: Collection[Kind] = (),
        buffer: int | None = None,
        timeout_s: float | None = None,
    ) -> BlockingSubscription[Passed | Gap]:
        """See everything that passes the node: see `Connection.watch`."""
        return self._listen(lambda: self._bus.watch(*types, kinds=kinds, buffer=buffer), timeout_s)

    def _listen(
        self, make: Callable[[], Subscription[T]], timeout_s: float | None
    ) -> BlockingSubscription[T]:
        async def begin() -> Subscription[T]:
            return await make().__aenter__()

        portal = self._open()
        return BlockingSubscription(portal, portal.wait(begin()), timeout_s)

    def _open(self) -> Portal:
        if self._portal is None:
            raise InvalidArgument("there is no connection: use it by `with connect_blocking(...) as bus:`")
        return self._portal


@final
class BlockingSubscription(Generic[T]):
    """A stream of events for a `for` loop. Made by `BlockingConnection.subscribe` and `watch`: it has subscribed already."""

    def __init__(self, portal: Portal, inner: Subscription[T], timeout_s: float | None) -> None:
        self._portal = portal
        self._inner = inner
        self._timeout_s = timeout_s

    @property
    def unknown(self) -> tuple[str, ...]:
        """Those of its types that no capability has declared: perhaps misspelt."""
        return self._inner.unknown

    @property
    def gaps(self) -> int:
        """In how many places something was missing so far."""
        return self._inner.gaps

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        """The next event; the iteration is over when the connection is closed, or nothing has come for `timeout_s`."""
        try:
            return self.next(self._timeout_s)
        except (AskTimeout, StopAsyncIteration):
            raise StopIteration from None

    def next(self, timeout_s: float | None = None) -> T:
        """The next event, waited for no longer than this.

        Raises:
            AskTimeout: none has come. The next one is not lost: ask again.
            StopAsyncIteration: the subscription was closed.
            NodeGone: the node has been gone for too long.
        """

        async def take() -> T:
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._inner.__anext__()
            except TimeoutError:
                raise AskTimeout(f"nothing has come in {timeout_s:g} s") from None

        return self._portal.wait(take())

    def close(self) -> None:
        """Hear no more."""
        self._portal.post(self._inner.close)
