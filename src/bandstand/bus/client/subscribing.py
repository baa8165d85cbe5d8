"""Subscriptions: events, and all that passes a node, as streams that outlive the connection they came by.

    async with bus.subscribe("Memory.*") as events:
        async for event in events:
            ...

Whoever has entered it has subscribed: what is said from then on comes, or there is a `Gap` in its place. `async for` alone subscribes
when it first waits. A subscription that nobody holds any more is given up.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, cast, final

import msgspec
from msgspec import Struct

from bandstand.bus.answers import failure_of, payload_of
from bandstand.bus.client.stream import Gap, Stream
from bandstand.bus.contracts.messages import Event, Message
from bandstand.bus.frame import Frame, Kind
from bandstand.bus.tap import Filter
from bandstand.errors import BadMessage, BandstandError, InvalidArgument
from bandstand.errors.formatting import safe_repr, safe_str

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ("Passed", "Roster", "Subscription", "reader_of")

T = TypeVar("T")

LAGGED = "Sys.Lagged"
TRAFFIC = "Sys.Traffic"


class _Lagged(Struct):
    missed: int = 1


@final
class Passed(Struct, frozen=True):
    """A message that has passed the router of a node."""

    message: Frame
    to: str = ""
    """Who it went to."""


class Caller(Protocol):
    """What a subscription needs of its connection."""

    async def exchange(self, kind: Kind, type: str, data: object = ..., /) -> Frame:  # noqa: A002  # its name on the wire
        """Ask for something, and have the answer, whatever it is."""
        ...

    def mention(self, kind: Kind, type: str, data: object, /) -> None:  # noqa: A002  # likewise
        """Ask for something, and have no answer."""
        ...


class Subscription(Generic[T]):
    """A stream of events, or of what else a node tells by itself. Made by `subscribe` and `watch`."""

    def __init__(
        self,
        roster: Roster,
        read: Callable[[Frame], T],
        where: Filter,
        limit: int,
        *,
        is_watch: bool = False,
        shows_gaps: bool = True,
    ) -> None:
        self._roster = roster
        self._read = read
        self._shows_gaps = shows_gaps
        self.where = where
        self.is_watch = is_watch
        self.stream: Stream[T] = Stream(limit)
        self.is_started = False
        self.unknown: tuple[str, ...] = ()
        """Those of its types that no capability has declared: perhaps misspelt. Known once it is entered."""
        self.gaps = 0
        """In how many places something was missing so far."""

    async def __aenter__(self) -> Self:
        """Subscribe.

        Raises:
            RequestFailed: the node refuses it.
            NodeGone: there is no node in time.
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
        """The next event, or the `Gap` in the place of some.

        Raises:
            NodeGone: the node has been gone for too long.
            BadMessage: an event is not what its class says.
        """
        await self._start()
        while True:
            item = await self.stream.take()
            if not isinstance(item, Gap):
                return item
            self.gaps += 1
            if self._shows_gaps:
                # T has the gap in it then: see the overloads of `subscribe`.
                return cast("T", item)

    def close(self) -> None:
        """Hear no more. What has come and was not read is thrown away."""
        self._roster.remove(self)

    async def _start(self) -> None:
        if not self.is_started:
            self.is_started = True
            try:
                self.unknown = await self._roster.add(self)
            except asyncio.CancelledError:
                # Whoever waits again subscribes again.
                self.is_started, self.stream = False, Stream(self.stream.limit)
                raise

    # --- for the roster -----------------------------------------------------------------------------------------------

    def hear(self, frame: Frame) -> None:
        """Take in a frame that it has asked for."""
        try:
            item = self._read(frame)
        except (BadMessage, msgspec.MsgspecError) as error:
            said = f"{frame.type} is not what was subscribed to: {safe_str(error)}"
            self.stream.end(BadMessage.of(said, getattr(error, "path", "")))
            return
        self.stream.put(item)


@final
class Roster:
    """All subscriptions of one client. It does not keep them alive.

    Args:
        caller: the connection.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._event_loop = asyncio.get_running_loop()
        # By their own references: when one is gone, so is its entry.
        self._entries: dict[weakref.ref[Subscription[Any]], frozenset[str]] = {}
        self._watch: weakref.ref[Subscription[Any]] | None = None
        # How many want each pattern.
        self._wanted: Counter[str] = Counter()

    # --- for subscriptions --------------------------------------------------------------------------------------------

    async def add(self, subscription: Subscription[Any]) -> tuple[str, ...]:
        """Have it hear what it wants, from now on; the types that nobody has declared."""
        reference = weakref.ref(subscription, self._let_go)
        if subscription.is_watch:
            if self._watch is not None:
                raise InvalidArgument("one connection watches once: close the other one, or connect again")
            self._watch = reference
        types = frozenset(subscription.where.types)
        self._entries[reference] = types
        if not subscription.is_watch:
            self._wanted.update(types)
        try:
            answer = await self._ask(*self._wish(subscription))
        except BaseException as error:  # whatever it was, it hears nothing
            self.remove(subscription)
            if isinstance(error, BandstandError):
                subscription.stream.end(error)
            raise
        said: dict[str, Any] = msgspec.json.decode(answer.data)
        return tuple(name for name in said.get("unknown", ()) if name in types)

    async def _ask(self, kind: Kind, type_name: str, data: object) -> Frame:
        answer = await self._caller.exchange(kind, type_name, data)
        if answer.kind == "error":
            raise failure_of(type_name, answer)
        return answer

    def remove(self, subscription: Subscription[Any]) -> None:
        """It wants to hear nothing any more."""
        subscription.stream.end()
        self._drop(weakref.ref(subscription))

    def _let_go(self, reference: weakref.ref[Subscription[Any]]) -> None:
        # Nobody has it any more. Whichever thread has found that out is not to touch anything here.
        if not self._event_loop.is_closed():
            self._event_loop.call_soon_threadsafe(self._drop, reference)

    def _drop(self, reference: weakref.ref[Subscription[Any]]) -> None:
        types = self._entries.pop(reference, None)
        if types is None:
            return
        if self._watch == reference:
            self._watch = None
            self._caller.mention("command", "Syscall.Unwatch", {})
            return
        self._wanted.subtract(types)
        idle = sorted(name for name in types if self._wanted[name] <= 0)
        for name in idle:
            del self._wanted[name]
        if idle:
            self._caller.mention("command", "Syscall.Unsubscribe", {"types": idle})

    # --- for the connection -------------------------------------------------------------------------------------------

    def hear(self, frame: Frame) -> None:
        """An event has come."""
        if frame.type == LAGGED:
            self.skip(Gap("lagged", msgspec.json.decode(frame.data, type=_Lagged).missed))
            return
        for subscription in self._all():
            if subscription.is_watch == (frame.type == TRAFFIC) and (
                subscription.is_watch or subscription.where.matches(frame)
            ):
                subscription.hear(frame)

    def skip(self, gap: Gap) -> None:
        """Something is missing, nobody knows from which of them."""
        for subscription in self._all():
            subscription.stream.skip(gap)

    def end(self, error: Exception | None) -> None:
        """Nothing more will come."""
        for subscription in self._all():
            subscription.stream.end(error)
        self._entries.clear()
        self._wanted.clear()
        self._watch = None

    def wishes(self) -> list[tuple[Kind, str, object]]:
        """What a new connection has to be asked for, so that all of them go on."""
        found: list[tuple[Kind, str, object]] = []
        if self._wanted:
            found.append(("command", "Syscall.Subscribe", {"types": sorted(self._wanted)}))
        watch = None if self._watch is None else self._watch()
        if watch is not None:
            found.append(self._wish(watch))
        return found

    def _all(self) -> list[Subscription[Any]]:
        return [found for reference in self._entries if (found := reference()) is not None]

    @staticmethod
    def _wish(subscription: Subscription[Any]) -> tuple[Kind, str, object]:
        where = subscription.where
        if subscription.is_watch:
            return "command", "Syscall.Watch", {"types": sorted(where.types), "kinds": sorted(where.kinds)}
        return "command", "Syscall.Subscribe", {"types": sorted(where.types)}


def reader_of(wanted: Sequence[object]) -> tuple[Callable[[Frame], Any], Iterable[str]]:
    """How to read events that were asked for by class or by pattern, and their types.

    Raises:
        InvalidArgument: something of it is neither, or it is nothing, or both.
    """
    if wanted and all(isinstance(each, str) for each in wanted):
        return _as_message, cast("Sequence[str]", wanted)
    classes: dict[str, type[Event]] = {}
    for each in wanted:
        if not isinstance(each, type) or not issubclass(each, Event) or not each.message_type:
            raise InvalidArgument(
                f"{safe_repr(each)} cannot be subscribed to: pass classes of events, or patterns as 'Memory.*'"  # pyright: ignore[reportUnknownArgumentType]  # any object
            )
        classes[each.message_type] = each
    if not classes:
        raise InvalidArgument("subscribe to what? Pass classes of events, or patterns as 'Memory.*' or '*'")

    def read(frame: Frame) -> Event:
        event: Event = payload_of(classes[frame.type]).read(frame.data)
        return event

    return read, list(classes)


def _as_message(frame: Frame) -> Message:
    return Message(
        kind=frame.kind, type=frame.type, data=msgspec.json.decode(frame.data), metadata=frame.metadata
    )
