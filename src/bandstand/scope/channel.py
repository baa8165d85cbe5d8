"""A typed channel: how elements pass from whoever has them to whoever wants them, with an end that both sides see."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar, overload

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.scope.hot.pipe import Pipe
from bandstand.scope.numbers import BOUNDLESS

if TYPE_CHECKING:
    from bandstand.scope.token import CancelToken

__all__ = ("CONFLATED", "UNBOUNDED", "Buffering", "Channel", "ChannelStatistics", "Operation")

T = TypeVar("T")
D = TypeVar("D")
R_co = TypeVar("R_co", covariant=True)

# More elements than any machine has room for.
MOST = 1 << 40


class Buffering(Enum):
    """Channels that never make a sender wait."""

    UNBOUNDED = "unbounded"
    """Keeps every element, however many: for where the sender must not wait and cannot be asked to send less."""
    CONFLATED = "conflated"
    """Keeps the newest element only: what nobody has received when the next one comes is replaced by it, and counted."""


UNBOUNDED: Final = Buffering.UNBOUNDED
CONFLATED: Final = Buffering.CONFLATED


class Operation(Protocol[R_co]):
    """A send, a receive or a choice that has not happened yet. Await it, once; or hand it to `select`."""

    def __await__(self) -> Generator[Any, Any, R_co]:
        """Do it, waiting for as long as that takes."""
        ...

    def blocking(self) -> R_co:
        """Do it on a plain thread, which waits; deadlines there are by the machine's clock.

        Raises:
            LoopBusy: this thread runs an event loop: there only `await` waits.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """The books of a channel at one moment: sent = received + conflated + buffered."""

    sent: int
    """Elements that were accepted."""
    received: int
    """Elements that were received, those that a cancelled receiver gave back not counted."""
    conflated: int
    """Elements that a newer one has replaced."""
    buffered: int
    """Elements that are in it now."""
    refused: int
    """Sends that were refused because it is closed."""
    timed_out: int
    """Sends and receives that stood in line and ended by their deadline."""
    cancelled: int
    """Sends and receives that stood in line and were cancelled: by a token, by asyncio, by another choice."""
    senders: int
    """How many sends stand in line now."""
    receivers: int
    """How many receives stand in line now."""
    peak: int
    """The most elements there ever were in it at once."""
    capacity: int | Buffering
    """What it was made with."""
    closed: bool
    """Whether it is closed."""


class Channel(Pipe, Generic[T]):
    """Elements of one type, in order, from any number of senders to any number of receivers: tasks, actors and threads.

    Each element is received exactly once, or is still in the channel, or was refused to its sender. Both sides are served first
    come, first served. A channel belongs to no loop: it can be used from every event loop and every thread at once.

    Args:
        capacity: how many elements it holds that nobody has received yet. 0, a *rendezvous*: a send waits until it is received.
            `UNBOUNDED`: any number. `CONFLATED`: the newest one.
        name: for people: errors, the tree, statistics.

    Raises:
        InvalidArgument: the capacity is none of these.
    """

    __slots__ = ("__weakref__",)

    def __init__(self, capacity: int | Buffering = 0, *, name: str | None = None) -> None:
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"name is {safe_repr(name)}: pass a string")
        if capacity is UNBOUNDED:
            super().__init__(BOUNDLESS, False, name)  # noqa: FBT003  # by position in C
        elif capacity is CONFLATED:
            super().__init__(1, True, name)  # noqa: FBT003  # same
        elif type(capacity) is int and 0 <= capacity <= MOST:
            super().__init__(capacity, False, name)  # noqa: FBT003  # same
        else:
            raise InvalidArgument(
                f"capacity is {safe_repr(capacity)}: pass an int from 0 to 2**40, UNBOUNDED or CONFLATED"
            )

    @property
    def name(self) -> str | None:
        """What it is called."""
        return self.label

    @property
    def is_closed(self) -> bool:
        """Whether it is closed. There may still be elements in it."""
        return self.closed

    def statistics(self) -> ChannelStatistics:
        """A snapshot of its books. From any thread."""
        capacity = CONFLATED if self.conflates else UNBOUNDED if self.capacity == BOUNDLESS else self.capacity
        sent, received, conflated, buffered, refused, expired, cancelled, senders, receivers, peak, closed = (
            self.books()
        )
        return ChannelStatistics(
            sent=sent,
            received=received,
            conflated=conflated,
            buffered=buffered,
            refused=refused,
            timed_out=expired,
            cancelled=cancelled,
            senders=senders,
            receivers=receivers,
            peak=peak,
            capacity=capacity,
            closed=closed,
        )

    def __repr__(self) -> str:
        size = (
            "conflated"
            if self.conflates
            else "unbounded"
            if self.capacity == BOUNDLESS
            else f"of {self.capacity}"
        )
        name = "" if self.label is None else f" {self.label!r}"
        state = "closed, " if self.closed else ""
        return f"<Channel{name} {size}: {state}{self.count} in it>"

    if TYPE_CHECKING:

        def send(
            self, item: T, *, timeout_ms: float | None = None, token: CancelToken | None = None
        ) -> Operation[None]:
            """Send an element: `await channel.send(element)`. Waits for room, or, at a rendezvous, for a receiver.

            Nothing happens before it is awaited. If it ends by its deadline or its token, the element was not sent. If its
            task is cancelled while it waits, the element was not sent either, unless a receiver came at that very moment.

            Args:
                item: the element; passed as it is.
                timeout_ms: how long to wait at most; 0 for not at all, None for ever.
                token: what may end the wait as well.

            Raises:
                ChannelClosed: it is closed, or was closed while this waited: the element was not sent.
                ChannelTimeout: there was no room in time.
                Cancelled: the token was cancelled.
                InvalidArgument: an argument has no sense.
            """
            ...

        def receive(
            self, *, timeout_ms: float | None = None, token: CancelToken | None = None
        ) -> Operation[T]:
            """Receive the oldest element: `await channel.receive()`. Waits until there is one.

            Nothing happens before it is awaited. If its task is cancelled, no element is lost: one that had been handed over at
            that moment goes back to the front.

            Raises:
                ChannelClosed: it is closed, and nothing is left in it.
                ChannelTimeout: there was no element in time.
                Cancelled: the token was cancelled.
                InvalidArgument: an argument has no sense.
            """
            ...

        def try_send(self, item: T) -> bool:
            """Send an element if that can be done at once; False if it cannot. From any thread, and from plain functions.

            Raises:
                ChannelClosed: it is closed.
            """
            ...

        @overload  # type: ignore[override]  # the pipe's knows no types
        def try_receive(self) -> T | None: ...
        @overload
        def try_receive(self, default: D) -> T | D: ...
        def try_receive(self, default: Any = None) -> Any:
            """Receive the oldest element, or `default` if there is none. From any thread, and from plain functions.

            Raises:
                ChannelClosed: it is closed, and nothing is left in it.
            """
            ...

        def close(self) -> bool:
            """Close it: it accepts nothing any more, and whoever waits to send is refused at once.

            What is in it can still be received; after that receivers are at the end, which ends an `async for` and is
            `ChannelClosed` elsewhere. From any thread. False if it was closed already.
            """
            ...

        def __aiter__(self) -> Self: ...
        def __anext__(self) -> Operation[T]: ...
