"""The client of a node for programs without an event loop: scripts, notebooks, the command line.

It is the client of `connection`, on an event loop in a thread of its own; each method waits for it. So both have the same guarantees, and any
thread may use it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from inspect import CORO_CREATED, getcoroutinestate
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, final, overload

from bandstand.bus.client.config import resolve_target
from bandstand.bus.client.connection import Connection
from bandstand.bus.client.subscription import Passed, Subscription
from bandstand.core.asyncio_host import new_event_loop
from bandstand.errors import AskTimeoutError, InvalidArgumentError, NodeGoneError
from bandstand.errors.validation import Seconds, to_seconds

if TYPE_CHECKING:
    from types import TracebackType

    from bandstand.bus.client.config import Address, ClientConfig
    from bandstand.bus.client.subscription import Gap
    from bandstand.bus.contracts.messages import Event, Message, Query, TypedRequest
    from bandstand.bus.frame import Frame, Kind

__all__ = ("BlockingConnection", "BlockingSubscription", "connect_blocking")

# Seconds to wait for the end of a thread that has nothing left to do.
JOIN_TIMEOUT_S = 5.0

T = TypeVar("T")
Reply = TypeVar("Reply")
E = TypeVar("E", bound="Event")


def connect_blocking(
    url: str | Address | None = None, config: ClientConfig | None = None
) -> BlockingConnection:
    """Make a client of the node at an address, for programs without an event loop. Use it with `with`.

    Args:
        url: `unix:PATH` or `tcp:HOST:PORT`; None for `$BANDSTAND_BUS`, or the default address of `bandstand serve`.
        config: the settings; None for the defaults.

    Raises:
        InvalidArgumentError: `url` is not an address, or `config` not a configuration.
    """
    return BlockingConnection(*resolve_target(url, config))


@final
class BlockingConnection:
    """A client of a node, made by `connect_blocking`. Its methods are those of `Connection`, and block."""

    def __init__(self, address: Address, config: ClientConfig) -> None:
        self._bus = Connection(address, config)
        self._thread: EventLoopThread | None = None

    def __enter__(self) -> Self:
        """Connect. Raises the same as `Connection`."""
        if self._thread is not None:
            raise InvalidArgumentError(
                "this connection is open already: make another one with connect_blocking()"
            )
        self._thread = EventLoopThread()
        try:
            self._thread.run(self._bus.__aenter__())
        except BaseException:  # also on Ctrl-C, the thread ends
            self._thread.close()
            self._thread = None
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.run(self._bus.__aexit__(None, None, None))
            finally:
                thread.close()

    @property
    def is_connected(self) -> bool:
        """True if there is a connection now."""
        return self._thread is not None and self._bus.is_connected

    @overload
    def call(self, request: TypedRequest[Reply], /, *, timeout: Seconds | None = None) -> Reply: ...
    # Any: only the node knows the type of a plain reply.
    @overload
    def call(self, request: str, data: object = ..., /, *, timeout: Seconds | None = None) -> Any: ...
    def call(self, request: Any, data: object = b"{}", /, *, timeout: Seconds | None = None) -> Any:
        """Send a command or a query, and wait for its reply: see `Connection.call`."""
        return self._open_thread().run(self._bus.call(request, data, timeout=timeout))

    @overload
    def query(self, request: Query[Reply], /, *, timeout: Seconds | None = None) -> Reply: ...
    @overload
    def query(self, request: str, data: object = ..., /, *, timeout: Seconds | None = None) -> Any: ...
    def query(self, request: Any, data: object = b"{}", /, *, timeout: Seconds | None = None) -> Any:
        """Send a query, and wait for its reply: see `Connection.query`."""
        return self._open_thread().run(self._bus.query(request, data, timeout=timeout))

    def exchange(
        self,
        kind: Kind,
        type: str,  # noqa: A002  # the name of the field on the wire
        data: object = b"{}",
        timeout: Seconds | None = None,
        /,
    ) -> Frame:
        """Send a command or a query, and wait for the frame of its reply: see `Connection.exchange`."""
        return self._open_thread().run(self._bus.exchange(kind, type, data, timeout))

    def emit(
        self,
        event: Event | str,
        data: object = b"{}",
        /,
        *,
        confirm: bool = True,
        timeout: Seconds | None = None,
    ) -> None:
        """Publish an event to its subscribers: see `Connection.emit`."""
        self._open_thread().run(self._bus.emit(event, data, confirm=confirm, timeout=timeout))

    @overload
    def subscribe(
        self,
        *wanted: type[E],
        buffer: int | None = None,
        timeout: Seconds | None = None,
        gaps: Literal[False],
    ) -> BlockingSubscription[E]: ...
    @overload
    def subscribe(
        self,
        *wanted: type[E],
        buffer: int | None = None,
        timeout: Seconds | None = None,
        gaps: Literal[True] = True,
    ) -> BlockingSubscription[E | Gap]: ...
    @overload
    def subscribe(
        self, *wanted: str, buffer: int | None = None, timeout: Seconds | None = None, gaps: Literal[False]
    ) -> BlockingSubscription[Message]: ...
    @overload
    def subscribe(
        self,
        *wanted: str,
        buffer: int | None = None,
        timeout: Seconds | None = None,
        gaps: Literal[True] = True,
    ) -> BlockingSubscription[Message | Gap]: ...
    def subscribe(
        self, *wanted: Any, buffer: int | None = None, timeout: Seconds | None = None, gaps: bool = True
    ) -> BlockingSubscription[Any]:
        """Subscribe to events now: see `Connection.subscribe`. Iterate over the result, or call its `next`.

        Args:
            wanted: event classes, or types and patterns.
            buffer: the maximum number of unread events.
            timeout: the iteration ends when no event comes for this time, in seconds; None to wait forever.
            gaps: yield a `Gap` where events are missing.
        """
        return self._subscribe(lambda: self._bus.subscription(wanted, buffer, gaps=gaps), timeout)

    def watch(
        self,
        *types: str,
        kinds: Collection[Kind] = (),
        buffer: int | None = None,
        timeout: Seconds | None = None,
    ) -> BlockingSubscription[Passed | Gap]:
        """Subscribe to all traffic of the node: see `Connection.watch`."""
        return self._subscribe(lambda: self._bus.watch(*types, kinds=kinds, buffer=buffer), timeout)

    def _subscribe(
        self, make: Callable[[], Subscription[T]], timeout: Seconds | None
    ) -> BlockingSubscription[T]:
        async def start() -> Subscription[T]:
            return await make().__aenter__()

        thread = self._open_thread()
        return BlockingSubscription(thread, thread.run(start()), timeout)

    def _open_thread(self) -> EventLoopThread:
        if self._thread is None:
            raise InvalidArgumentError("there is no connection: use `with connect_blocking(...) as bus:`")
        return self._thread


@final
class BlockingSubscription(Generic[T]):
    """A stream of events for a `for` loop. Made, and subscribed already, by `BlockingConnection.subscribe` and `watch`."""

    def __init__(self, thread: EventLoopThread, inner: Subscription[T], timeout: Seconds | None) -> None:
        self._thread = thread
        self._inner = inner
        self._timeout = None if timeout is None else to_seconds("timeout", timeout)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Those of its types that no capability declares, and that may be misspelt."""
        return self._inner.unknown

    @property
    def gaps(self) -> int:
        """The number of gaps so far."""
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
        """Wait for the next event. The iteration ends when the connection is closed, or no event comes for `timeout`."""
        try:
            return self.next(self._timeout)
        except (AskTimeoutError, StopAsyncIteration):
            raise StopIteration from None

    def next(self, timeout: Seconds | None = None) -> T:
        """Wait for the next event, for at most `timeout` seconds.

        Raises:
            AskTimeoutError: no event came in time. No event is lost: call again.
            StopAsyncIteration: the subscription is closed.
            NodeGoneError: there was no node for too long.
        """
        seconds = None if timeout is None else to_seconds("timeout", timeout)

        async def get() -> T:
            try:
                async with asyncio.timeout(seconds):
                    return await self._inner.__anext__()
            except TimeoutError:
                raise AskTimeoutError(f"no event came within {seconds:g} s") from None

        return self._thread.run(get())

    def close(self) -> None:
        """Unsubscribe."""
        self._thread.call_soon(self._inner.close)


@final
class EventLoopThread:
    """An event loop in a thread of its own, that other threads run coroutines on."""

    def __init__(self) -> None:
        self._event_loop = new_event_loop()
        # The futures that other threads wait for.
        self._waited: set[Future[Any]] = set()
        # A daemon: a program that does not close its connection can still exit.
        self._thread = threading.Thread(target=self._run, name="bandstand client", daemon=True)
        self._thread.start()

    @property
    def is_closed(self) -> bool:
        """True if the event loop is closed."""
        return self._event_loop.is_closed()

    def _run(self) -> None:
        asyncio.set_event_loop(self._event_loop)
        try:
            self._event_loop.run_forever()
        finally:
            self.cancel_waits()
            # Let the cancelled coroutines run. Without a task: a `close` at the same time cancels all tasks.
            for _ in range(3):
                self._event_loop.call_soon(self._event_loop.stop)
                self._event_loop.run_forever()
            self._event_loop.close()
            # For calls of `run` since the first time.
            self.cancel_waits()

    def cancel_waits(self) -> None:
        """Cancel every wait: the event loop has stopped, and the waits would never end."""
        for future in tuple(self._waited):
            future.cancel()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread, and wait for its result.

        Raises:
            NodeGoneError: the event loop is closed, or is closed meanwhile.
        """
        if self._event_loop.is_closed():
            coroutine.close()
            raise NodeGoneError("this connection is closed")
        try:
            future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._event_loop)
        except RuntimeError:
            # It was closed since the check.
            coroutine.close()
            raise NodeGoneError("this connection is closed") from None
        self._waited.add(future)
        if self._event_loop.is_closed():
            # The last `cancel_waits` may have missed it.
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            if getcoroutinestate(coroutine) == CORO_CREATED:
                coroutine.close()
            raise NodeGoneError("this connection was closed during the call") from None
        except BaseException:  # usually Ctrl-C
            future.cancel()
            raise
        finally:
            self._waited.discard(future)

    def call_soon(self, function: Callable[[], None]) -> None:
        """Call a function in the thread soon; do nothing if the event loop is closed."""
        if not self._event_loop.is_closed():
            self._event_loop.call_soon_threadsafe(function)

    def close(self) -> None:
        """Cancel all tasks, and end the thread."""

        def stop() -> None:
            for task in asyncio.all_tasks(self._event_loop):
                task.cancel()
            self._event_loop.call_soon(self._event_loop.stop)

        self.call_soon(stop)
        self._thread.join(JOIN_TIMEOUT_S)
