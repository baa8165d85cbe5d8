"""Typed channels, and `select`: the public side of the compiled `_channel`.

The two stay apart: a compiled class cannot be generic, and compiled methods lose their annotations and overloads.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, Self, TypeVar, cast, overload

from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds
from bandstand.scope._channel import UNLIMITED, ChannelCore, SelectOp

if TYPE_CHECKING:
    from bandstand.scope.cancel import CancelToken

__all__ = ("CONFLATED", "UNBOUNDED", "Buffering", "Channel", "ChannelStatistics", "Operation", "select")

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

# More elements than fit into the memory of any machine.
MAX_CAPACITY = 1 << 40


class Buffering(Enum):
    """Buffers that never make a sender wait."""

    UNBOUNDED = "unbounded"
    """Keeps every element: for a sender that must not wait and cannot send less."""
    CONFLATED = "conflated"
    """Keeps the newest element only: a new element replaces one that was not received, which is counted."""


UNBOUNDED: Final = Buffering.UNBOUNDED
CONFLATED: Final = Buffering.CONFLATED


class Operation(Protocol[R_co]):
    """A send, receive or select that has not happened yet. Await it once, or pass it to `select`."""

    def __await__(self) -> Generator[Any, Any, R_co]:
        """Do it, waiting if necessary."""
        ...

    def blocking(self) -> R_co:
        """Do it on a plain thread, which blocks. Timeouts use the system's monotonic clock.

        Raises:
            LoopBusyError: this thread runs an event loop: use `await`.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChannelStatistics:
    """The counters of a channel at one moment: sent = received + conflated + buffered."""

    sent: int
    """Elements that were accepted."""
    received: int
    """Elements that were received, without those that a cancelled receiver returned."""
    conflated: int
    """Elements that were replaced by a newer one."""
    buffered: int
    """Elements in the buffer."""
    refused: int
    """Sends that failed because the channel is closed."""
    timed_out: int
    """Sends and receives that waited, and timed out."""
    cancelled: int
    """Sends and receives that waited and were cancelled: by a token, by asyncio, or by their select."""
    senders: int
    """Sends that wait now."""
    receivers: int
    """Receives that wait now."""
    peak: int
    """The largest number of elements that were in the buffer at once."""
    capacity: int | Buffering
    """The capacity the channel was created with."""
    closed: bool
    """Whether the channel is closed."""


class Channel(ChannelCore, Generic[T]):
    """Passes elements of one type, in order, between tasks, actors and threads.

    Any number of senders and receivers may share it.     Each element is received exactly once, or is still
    in the channel, or its sender got an error. Senders and receivers are served in the order in which they
    came. A channel belongs to no loop: it can be used from all event loops and threads at once.

    Args:
        capacity: how many elements it buffers. With 0, a *rendezvous*, a send waits until its element is
            received. `UNBOUNDED` buffers any number, `CONFLATED` the newest one.
        name: shown in errors, in the actor tree and in statistics.

    Raises:
        InvalidArgumentError: the capacity or the name is invalid.
    """

    __slots__ = ("__weakref__",)

    def __init__(self, capacity: int | Buffering = 0, *, name: str | None = None) -> None:
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgumentError(f"name is {safe_repr(name)}: pass a string")
        if capacity is UNBOUNDED:
            super().__init__(UNLIMITED, False, name)  # noqa: FBT003  # by position in C
        elif capacity is CONFLATED:
            super().__init__(1, True, name)  # noqa: FBT003  # same
        elif type(capacity) is int and 0 <= capacity <= MAX_CAPACITY:
            super().__init__(capacity, False, name)  # noqa: FBT003  # same
        else:
            raise InvalidArgumentError(
                f"capacity is {safe_repr(capacity)}: pass an int from 0 to 2**40, UNBOUNDED or CONFLATED"
            )

    @property
    def name(self) -> str | None:
        """The name it was created with."""
        return self.label

    @property
    def is_closed(self) -> bool:
        """Whether it is closed. There may still be elements in it."""
        return self.closed

    def statistics(self) -> ChannelStatistics:
        """Return a snapshot of its counters. Callable from any thread."""
        capacity = CONFLATED if self.conflates else UNBOUNDED if self.capacity == UNLIMITED else self.capacity
        (
            sent,
            received,
            conflated,
            buffered,
            refused,
            timed_out,
            cancelled,
            senders,
            receivers,
            peak,
            closed,
        ) = self.counters()
        return ChannelStatistics(
            sent=sent,
            received=received,
            conflated=conflated,
            buffered=buffered,
            refused=refused,
            timed_out=timed_out,
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
            if self.capacity == UNLIMITED
            else f"of {self.capacity}"
        )
        name = "" if self.label is None else f" {self.label!r}"
        state = "closed, " if self.closed else ""
        return f"<Channel{name} {size}: {state}{len(self)} in it>"

    if TYPE_CHECKING:

        def send(
            self, item: T, *, timeout: Seconds | None = None, token: CancelToken | None = None
        ) -> Operation[None]:
            """Send an element: `await channel.send(element)`.

            Waits for room, or on a rendezvous channel for a receiver.

            Nothing happens before it is awaited. If it times out or its token is cancelled, the element was
            not sent. If its task is cancelled while it waits, the element was not sent either, unless a
            receiver took it at that moment.

            Args:
                item: the element; passed by reference.
                timeout: how long to wait at most; 0 to not wait, None for no limit.
                token: a token that cancels the wait.

            Raises:
                ChannelClosedError: the channel is closed, or was closed during the wait: the element was not sent.
                ChannelTimeoutError: there was no room in time.
                Cancelled: the token was cancelled.
                InvalidArgumentError: an argument is invalid.
            """
            ...

        def receive(
            self, *, timeout: Seconds | None = None, token: CancelToken | None = None
        ) -> Operation[T]:
            """Receive the oldest element: `await channel.receive()`. Waits until there is one.

            Nothing happens before it is awaited. If its task is cancelled, no element is lost: one that was
            handed over at that moment returns to the front of the channel.

            Args:
                timeout: how long to wait at most; 0 to not wait, None for no limit.
                token: a token that cancels the wait.

            Raises:
                ChannelClosedError: the channel is closed and empty.
                ChannelTimeoutError: there was no element in time.
                Cancelled: the token was cancelled.
                InvalidArgumentError: an argument is invalid.
            """
            ...

        def try_send(self, item: T) -> bool:
            """Send an element without waiting; return False if there is no room.

            Callable from any thread and from plain functions.

            Raises:
                ChannelClosedError: the channel is closed.
            """
            ...

        @overload  # type: ignore[override]  # the core is untyped
        def try_receive(self) -> T | None: ...
        @overload
        def try_receive(self, default: D) -> T | D: ...
        def try_receive(self, default: Any = None) -> Any:
            """Receive the oldest element, or return `default` if there is none.

            Callable from any thread and from plain functions.

            Raises:
                ChannelClosedError: the channel is closed and empty.
            """
            ...

        def close(self) -> bool:
            """Close the channel: it accepts no more elements, and sends that wait fail at once.

            Elements in it can still be received. After that an `async for` ends, and a receive raises
            `ChannelClosedError`. Callable from any thread.

            Returns:
                False if it was closed before.
            """
            ...

        def __aiter__(self) -> Self: ...
        def __anext__(self) -> Operation[T]: ...


@overload
def select(
    a: Operation[A],
    /,
    *,
    timeout: Seconds | None = ...,
    token: CancelToken | None = ...,
    until_any_closes: bool = ...,
) -> Operation[tuple[int, A]]: ...
@overload
def select(
    a: Operation[A],
    b: Operation[B],
    /,
    *,
    timeout: Seconds | None = ...,
    token: CancelToken | None = ...,
    until_any_closes: bool = ...,
) -> Operation[tuple[int, A | B]]: ...
@overload
def select(
    a: Operation[A],
    b: Operation[B],
    c: Operation[C],
    /,
    *,
    timeout: Seconds | None = ...,
    token: CancelToken | None = ...,
    until_any_closes: bool = ...,
) -> Operation[tuple[int, A | B | C]]: ...
@overload
def select(
    a: Operation[A],
    b: Operation[B],
    c: Operation[C],
    d: Operation[D],
    /,
    *,
    timeout: Seconds | None = ...,
    token: CancelToken | None = ...,
    until_any_closes: bool = ...,
) -> Operation[tuple[int, A | B | C | D]]: ...
@overload
def select(
    *operations: Operation[A],
    timeout: Seconds | None = ...,
    token: CancelToken | None = ...,
    until_any_closes: bool = ...,
) -> Operation[tuple[int, A]]: ...
def select(
    *operations: Operation[Any],
    timeout: Seconds | None = None,
    token: CancelToken | None = None,
    until_any_closes: bool = False,
) -> Operation[tuple[int, Any]]:
    """Do exactly one of several sends and receives: the first that is possible.

        index, value = await select(orders.receive(), ticks.receive(), results.send(job))

    Returns the index of the operation that was done and its value (None for a send). The others did not
    happen: their elements stay where they were. If several are possible at once, the channel that was
    selected least recently goes first. A channel that is closed and empty is never chosen.

    Args:
        operations: at least one, not awaited, without timeouts and tokens of their own.
        timeout: how long to wait at most, for all of them together; 0 to not wait, None for no limit.
        token: a token that cancels the wait.
        until_any_closes: end as soon as one of the channels is closed and empty, and no other operation is
            possible at once.

    Raises:
        ChannelClosedError: all channels are closed and empty; or one, with `until_any_closes`.
        ChannelTimeoutError: none was possible in time.
        Cancelled: the token was cancelled.
        InvalidArgumentError: there are no operations; or one is not an operation, was used before, or has its own
            timeout or token.
    """
    if not operations:
        raise InvalidArgumentError(
            "select() got no operations: pass channel.receive() or channel.send(element)"
        )
    return cast("Operation[tuple[int, Any]]", SelectOp(operations, timeout, token, until_any_closes))
