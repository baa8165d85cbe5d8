"""Subscriptions: streams of events, or of all traffic of a node, that survive the loss of a connection.

    async with bus.subscribe("Memory.*") as events:
        async for event in events:
            ...

After `async with` has entered, every event is either delivered or covered by a `Gap`. A plain `async for` subscribes at its first step. A
subscription that is garbage collected is cancelled at the node.

The unread events of a subscription are bounded. When the buffer is full, further events are dropped, and a `Gap` is put where they are
missing, so that a reader never takes an incomplete stream for a complete one.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, Self, TypeAlias, TypeVar, cast, final

import msgspec
from msgspec import Struct

from bandstand.bus.bus_client import message_codec, request_error
from bandstand.bus.client.calls import encode_data
from bandstand.bus.contracts.messages import Event, Message
from bandstand.bus.frame import Frame, Kind
from bandstand.bus.tap import Filter
from bandstand.errors import BandstandError, InvalidArgumentError, InvalidMessageError, LoopBusyError
from bandstand.errors.formatting import safe_repr, safe_str

if TYPE_CHECKING:
    from types import TracebackType

    from msgspec import Raw

__all__ = ("EventBuffer", "Gap", "Passed", "Subscription", "SubscriptionTable", "reader_of")

T = TypeVar("T")

GapReason: TypeAlias = Literal["lagged", "overflow", "reconnected"]

LAGGED = "Sys.Lagged"
TRAFFIC = "Sys.Traffic"


@final
class Gap(Struct, frozen=True):
    """A place in a stream where events are missing."""

    why: GapReason
    """`lagged`: the node dropped events, because this connection was too slow. `overflow`: the buffer was full, because the reader was too slow.
    `reconnected`: there was no connection for a time."""
    missed: int | None = None
    """The number of missing events; None if that is unknown."""


@final
class Passed(Struct, frozen=True):
    """A message that the router of a node has handled."""

    message: Frame
    to: str = ""
    """The receiver."""


class _Lagged(Struct):
    missed: int = 1


class _OpenGap:
    """A gap at the end of the buffer that may still grow."""

    __slots__ = ("missed", "why")

    def __init__(self, gap: Gap) -> None:
        self.why: GapReason = gap.why
        self.missed = gap.missed

    def grow(self, count: int | None) -> None:
        self.missed = None if self.missed is None or count is None else self.missed + count


@final
class EventBuffer(Generic[T]):
    """A bounded queue with gaps and one reader, used on one event loop."""

    __slots__ = ("_error", "_has_ended", "_held", "_items", "_waiter", "dropped", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """The maximum number of unread items."""
        self._items: deque[T | _OpenGap] = deque()
        # The number of items without gaps.
        self._held = 0
        self._has_ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.dropped = 0
        """The number of items that were dropped because the buffer was full."""

    def __len__(self) -> int:
        return self._held

    def has_next(self) -> bool:
        """Return True if `get` would return at once."""
        return len(self._items) > 0

    def put(self, item: T) -> None:
        """Add an item; if the buffer is full, drop it and add a gap."""
        if self._has_ended:
            return
        if self._held >= self.limit:
            self.dropped += 1
            self.add_gap(Gap("overflow", 1))
            return
        self._items.append(item)
        self._held += 1
        self._wake()

    def add_gap(self, gap: Gap) -> None:
        """Record that items are missing here. Adjacent gaps of one kind are joined, so an unread buffer stays bounded."""
        if self._has_ended:
            return
        for last in reversed(self._items):
            if not isinstance(last, _OpenGap):
                break
            if last.why == gap.why:
                last.grow(gap.missed)
                return
        self._items.append(_OpenGap(gap))
        self._wake()

    def end(self, error: Exception | None = None) -> None:
        """Accept no more items. The reader gets the unread ones, then the end or the error."""
        if not self._has_ended:
            self._has_ended = True
            self._error = error
            self._wake()

    async def get(self) -> T | Gap:
        """Wait for the next item or gap.

        Raises:
            StopAsyncIteration: the stream has ended.
            LoopBusyError: another task is waiting.
        """
        if self._waiter is not None:
            raise LoopBusyError("two tasks read one subscription: make one for each")
        while not self._items:
            if self._has_ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        item = self._items.popleft()
        if isinstance(item, _OpenGap):
            return Gap(item.why, item.missed)
        self._held -= 1
        return item

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Subscription(Generic[T]):
    """A stream of events, or of the traffic of a node. Made by `subscribe` and `watch`."""

    def __init__(
        self,
        table: SubscriptionTable,
        read: Callable[[Frame], T],
        where: Filter,
        limit: int,
        *,
        is_watch: bool = False,
        shows_gaps: bool = True,
    ) -> None:
        self._table = table
        self._read = read
        self._shows_gaps = shows_gaps
        self.where = where
        self.is_watch = is_watch
        self.buffer: EventBuffer[T] = EventBuffer(limit)
        self.is_started = False
        self.unknown: tuple[str, ...] = ()
        """Those of its types that no capability declares, and that may be misspelt. Set once it is entered."""
        self.gaps = 0
        """The number of gaps so far."""

    async def __aenter__(self) -> Self:
        """Subscribe.

        Raises:
            RequestFailedError: the node refuses it.
            NodeGoneError: there is no node in time.
        """
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Wait for the next event or `Gap`.

        Raises:
            NodeGoneError: there was no node for too long.
            InvalidMessageError: an event does not match its class.
        """
        await self._start()
        while True:
            item = await self.buffer.get()
            if not isinstance(item, Gap):
                return item
            self.gaps += 1
            if self._shows_gaps:
                # T includes Gap then: see the overloads of `subscribe`.
                return cast("T", item)

    def close(self) -> None:
        """Unsubscribe. Events that are not read yet can still be read."""
        self._table.remove(self)

    async def _start(self) -> None:
        if not self.is_started:
            self.is_started = True
            try:
                self.unknown = await self._table.add(self)
            except asyncio.CancelledError:
                # The next attempt to read subscribes again.
                self.is_started, self.buffer = False, EventBuffer(self.buffer.limit)
                raise

    def on_frame(self, frame: Frame) -> None:
        """Decode a frame and add it to the buffer. A frame that does not match ends the stream with `InvalidMessageError`."""
        try:
            item = self._read(frame)
        except (InvalidMessageError, msgspec.MsgspecError) as error:
            text = f"{frame.type} does not match the subscription: {safe_str(error)}"
            self.buffer.end(InvalidMessageError.of(text, getattr(error, "path", "")))
            return
        self.buffer.put(item)


class RequestSender(Protocol):
    """The session of a client, as far as subscriptions need it."""

    async def request(self, kind: Kind, type_name: str, data: Raw) -> Frame:
        """Send a request, and wait for its reply, which may be an error."""
        ...

    def send(self, kind: Kind, type_name: str, data: Raw) -> None:
        """Send a request and ignore its reply."""
        ...


@final
class SubscriptionTable:
    """All subscriptions of one client, by weak references.

    Args:
        requester: sends the requests to the node.
    """

    def __init__(self, requester: RequestSender) -> None:
        self._requester = requester
        self._event_loop = asyncio.get_running_loop()
        # The types of each subscription, by its weak reference: the reference's callback removes the entry.
        self._entries: dict[weakref.ref[Subscription[Any]], frozenset[str]] = {}
        self._watch: weakref.ref[Subscription[Any]] | None = None
        # The number of subscriptions for each type or pattern.
        self._wanted: Counter[str] = Counter()

    # -- for subscriptions ------------------------------------------------------------------------------------------

    async def add(self, subscription: Subscription[Any]) -> tuple[str, ...]:
        """Subscribe at the node; return the types that no capability declares.

        Raises:
            RequestFailedError: the node refuses it.
            NodeGoneError: there is no node in time.
            InvalidArgumentError: it is a second watch on the same connection.
        """
        reference = weakref.ref(subscription, self._on_collected)
        if subscription.is_watch:
            if self._watch is not None:
                raise InvalidArgumentError(
                    "this connection watches already: close the other watch, or make another connection"
                )
            self._watch = reference
        types = frozenset(subscription.where.types)
        self._entries[reference] = types
        if not subscription.is_watch:
            self._wanted.update(types)
        try:
            reply = await self._request(*self._request_for(subscription))
        except BaseException as error:  # also on cancellation, it is removed
            self.remove(subscription)
            if isinstance(error, BandstandError):
                subscription.buffer.end(error)
            raise
        data: dict[str, Any] = msgspec.json.decode(reply.data)
        return tuple(name for name in data.get("unknown", ()) if name in types)

    async def _request(self, kind: Kind, type_name: str, data: object) -> Frame:
        reply = await self._requester.request(kind, type_name, encode_data(data))
        if reply.kind == "error":
            raise request_error(type_name, reply)
        return reply

    def remove(self, subscription: Subscription[Any]) -> None:
        """Unsubscribe."""
        subscription.buffer.end()
        self._discard(weakref.ref(subscription))

    def _on_collected(self, reference: weakref.ref[Subscription[Any]]) -> None:
        # The garbage collector may run in any thread.
        if not self._event_loop.is_closed():
            self._event_loop.call_soon_threadsafe(self._discard, reference)

    def _discard(self, reference: weakref.ref[Subscription[Any]]) -> None:
        types = self._entries.pop(reference, None)
        if types is None:
            return
        if self._watch == reference:
            self._watch = None
            self._requester.send("command", "Syscall.Unwatch", encode_data({}))
            return
        self._wanted.subtract(types)
        unused = sorted(name for name in types if self._wanted[name] <= 0)
        for name in unused:
            del self._wanted[name]
        if unused:
            self._requester.send("command", "Syscall.Unsubscribe", encode_data({"types": unused}))

    # -- for the session --------------------------------------------------------------------------------------------

    def on_event(self, frame: Frame) -> None:
        """Pass an event of the node on to the subscriptions that match."""
        if frame.type == LAGGED:
            self.add_gap(Gap("lagged", msgspec.json.decode(frame.data, type=_Lagged).missed))
            return
        for subscription in self._all():
            if subscription.is_watch == (frame.type == TRAFFIC) and (
                subscription.is_watch or subscription.where.matches(frame)
            ):
                subscription.on_frame(frame)

    def add_gap(self, gap: Gap) -> None:
        """Add a gap to every subscription: the node does not tell whose events are missing."""
        for subscription in self._all():
            subscription.buffer.add_gap(gap)

    def end(self, error: Exception | None) -> None:
        """End every subscription."""
        for subscription in self._all():
            subscription.buffer.end(error)
        self._entries.clear()
        self._wanted.clear()
        self._watch = None

    def restore_requests(self) -> list[tuple[Kind, str, object]]:
        """Return the requests that restore all subscriptions on a new connection."""
        requests: list[tuple[Kind, str, object]] = []
        if self._wanted:
            requests.append(("command", "Syscall.Subscribe", {"types": sorted(self._wanted)}))
        watch = None if self._watch is None else self._watch()
        if watch is not None:
            requests.append(self._request_for(watch))
        return requests

    def _all(self) -> list[Subscription[Any]]:
        return [found for reference in self._entries if (found := reference()) is not None]

    @staticmethod
    def _request_for(subscription: Subscription[Any]) -> tuple[Kind, str, object]:
        where = subscription.where
        if subscription.is_watch:
            return "command", "Syscall.Watch", {"types": sorted(where.types), "kinds": sorted(where.kinds)}
        return "command", "Syscall.Subscribe", {"types": sorted(where.types)}


def reader_of(wanted: Sequence[object]) -> tuple[Callable[[Frame], Any], Iterable[str]]:
    """Return a decoder for events that were asked for by class or by pattern, and their types.

    Raises:
        InvalidArgumentError: `wanted` is empty, mixes both, or has something that is neither.
    """
    if wanted and all(isinstance(each, str) for each in wanted):
        return _read_message, cast("Sequence[str]", wanted)
    classes: dict[str, type[Event]] = {}
    for each in wanted:
        if not isinstance(each, type) or not issubclass(each, Event) or not each.message_type:
            raise InvalidArgumentError(
                f"{safe_repr(each)} cannot be subscribed to: pass event classes, or patterns as 'Memory.*'"  # pyright: ignore[reportUnknownArgumentType]  # any object
            )
        classes[each.message_type] = each
    if not classes:
        raise InvalidArgumentError(
            "the subscription has no types: pass event classes, or patterns as 'Memory.*' or '*'"
        )

    def read_event(frame: Frame) -> Event:
        event: Event = message_codec(classes[frame.type]).read(frame.data)
        return event

    return read_event, list(classes)


def _read_message(frame: Frame) -> Message:
    return Message(
        kind=frame.kind, type=frame.type, data=msgspec.json.decode(frame.data), metadata=frame.metadata
    )
