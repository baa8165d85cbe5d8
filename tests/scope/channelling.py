"""What the tests of channels play with: a stage in virtual time, tasks that are really waiting, books that must balance."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from bandstand.core import Loop
from bandstand.core.hot.wheel import Timer
from bandstand.scope import CONFLATED, UNBOUNDED, Buffering, CancelToken, Channel, Operation
from bandstand.testing import VirtualClock

T = TypeVar("T")

Capacity = int | Buffering
# One of each kind.
CAPACITIES: tuple[Capacity, ...] = (0, 1, 3, UNBOUNDED, CONFLATED)
# Those that have room for one element at least.
ROOMY: tuple[Capacity, ...] = (1, 3, UNBOUNDED, CONFLATED)


def perform(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine function on the lane's event loop, with a loop riding on it. No time passes in it."""
    return _perform(main, VirtualClock(), lane_factory())


def rehearse(main: Callable[[], Coroutine[Any, Any, T]], *, clock: VirtualClock | None = None) -> T:
    """The same in virtual time, on the clock's own event loop: uvloop's time is real."""
    time = VirtualClock() if clock is None else clock
    return _perform(main, time, time.new_event_loop)


def lane_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop of the lane."""
    if os.environ.get("BANDSTAND_TEST_LOOP") == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop


def _perform(
    main: Callable[[], Coroutine[Any, Any, T]],
    clock: VirtualClock,
    factory: Callable[[], asyncio.AbstractEventLoop],
) -> T:
    async def ridden() -> T:
        async with Loop(clock=clock):
            return await main()

    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(ridden())


async def turns(number: int = 5) -> None:
    """Let all others have their turn, some times."""
    for _ in range(number):
        await asyncio.sleep(0)


async def pause(ms: float) -> None:
    """Let virtual time pass, by the wheel."""
    from bandstand.errors import ChannelTimeout

    try:
        await Channel[None]().receive(timeout_ms=ms)
    except ChannelTimeout:
        return


async def do(operation: Operation[T]) -> T:
    """An operation as a coroutine, for tasks."""
    return await operation


async def waiting(operation: Operation[T]) -> asyncio.Task[T]:
    """A task that stands in line by now."""
    task = asyncio.create_task(do(operation))
    await turns(2)
    assert not task.done()
    return task


def begun(operation: Operation[Any]) -> Coroutine[Any, Any, Any]:
    """A coroutine that stands in line by now, in nobody's task: to be ended by hand, in any order."""
    coroutine = do(operation)
    coroutine.send(None)
    return coroutine


async def outcome(task: asyncio.Task[Any]) -> Any:
    """What a task has come to: its result, or the class of its error."""
    await asyncio.wait([task])
    if task.cancelled():
        return asyncio.CancelledError
    error = task.exception()
    return task.result() if error is None else type(error)


def balance(*channels: Channel[Any]) -> None:
    """What holds at every moment, by the books."""
    for channel in channels:
        books = channel.statistics()
        assert books.sent == books.received + books.conflated + books.buffered, books
        assert books.peak >= books.buffered, books
        if books.receivers:
            assert books.buffered == 0, f"somebody waits for what is there: {books}"
            assert not books.closed, f"somebody waits for what never comes: {books}"
        if books.senders:
            assert not books.closed, f"somebody waits in vain: {books}"
            assert isinstance(books.capacity, int), f"somebody waits where there is always room: {books}"
            assert books.buffered >= books.capacity, f"somebody waits though there is room: {books}"
        if books.capacity is CONFLATED:
            assert books.buffered <= 1, books


def is_heard(token: CancelToken) -> bool:
    """Whether somebody listens to a token."""
    # There is no other way to see that nobody does.
    inside: Any = token
    listeners = inside.listeners
    return bool(listeners)


def timers() -> int:
    """How many timers there are on wheels, anywhere."""
    import gc

    def count() -> int:
        return sum(isinstance(thing, Timer) and thing.pending for thing in gc.get_objects())

    if count():
        # Those of a loop that another test has left to the garbage are nobody's.
        gc.collect()
    return count()


def drain(channel: Channel[T]) -> list[T]:
    """All that is in a channel, or can be had from those who wait to send."""
    from bandstand.errors import ChannelClosed

    nothing = object()
    found: list[Any] = []
    try:
        while (item := channel.try_receive(nothing)) is not nothing:
            found.append(item)
    except ChannelClosed:
        pass
    return found


@contextmanager
def hurried() -> Generator[None]:
    """Threads take turns as often as the interpreter can."""
    import sys

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
