"""Helpers for the tests of scope: runners, tasks that really wait, checks, and test doubles."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio
import pytest

from bandstand.core import Context, Loop, Verdict
from bandstand.core.timer_wheel import Timer
from bandstand.errors import ChannelClosedError, ChannelTimeoutError
from bandstand.scope import (
    CONFLATED,
    UNBOUNDED,
    Buffering,
    CancelToken,
    Channel,
    EndedBy,
    Operation,
    Outcome,
    Scope,
)
from bandstand.testing import VirtualClock

if TYPE_CHECKING:
    from bandstand.scope.cancel import CancelNode

T = TypeVar("T")

Capacity = int | Buffering
# One of each kind.
CAPACITIES: tuple[Capacity, ...] = (0, 1, 3, UNBOUNDED, CONFLATED)
# Those that hold at least one element.
BUFFERED: tuple[Capacity, ...] = (1, 3, UNBOUNDED, CONFLATED)

# The name of the tasks in which a loop runs async behaviors. They stay for the next one.
DRIVER_TASK = "bandstand driver"


# -- runners -----------------------------------------------------------------------------------------------------


def event_loop_factory(clock: VirtualClock | None = None) -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the factory for the event loop of the test lane. uvloop's time is real, whatever the clock."""
    if os.environ.get("BANDSTAND_TEST_LOOP") == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop if clock is None else clock.new_event_loop


def check_nothing_left(loop: Loop) -> None:
    """Check that there is no task but the current one, which is not being cancelled, and no actor."""
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
    others = [task for task in asyncio.all_tasks() if task is not current and task.get_name() != DRIVER_TASK]
    assert others == []
    assert loop.kernel.is_closed or loop.statistics().alive == 0


# -- time and turns ----------------------------------------------------------------------------------------------


async def iterate(number: int = 5) -> None:
    """Let the event loop run a number of iterations."""
    for _ in range(number):
        await asyncio.sleep(0)


async def wait_until(condition: Callable[[], bool]) -> None:
    """Let the event loop run until the condition holds."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition did not become true")


async def sleep_virtual(ms: float) -> None:
    """Wait for virtual time on the loop's timer wheel, which works on every lane."""
    with suppress(ChannelTimeoutError):
        await CancelToken().wait(timeout=ms / 1000)


async def advance(loop: Loop, clock: VirtualClock, ms: float) -> None:
    """Advance the clock by hand: works even while a running coroutine keeps the clock from jumping."""
    clock.advance(ms / 1000)
    loop.poll_once()
    await iterate(10)


def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """Call a function in a new thread, and wait for its result."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work, *arguments).result(30)


@contextmanager
def fast_thread_switching() -> Generator[None]:
    """Switch between threads as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


# -- waits -------------------------------------------------------------------------------------------------------


async def as_coroutine(awaitable: Awaitable[T]) -> T:
    """Make a coroutine of any awaitable, for tasks."""
    return await awaitable


async def start_waiting(awaitable: Awaitable[T]) -> asyncio.Task[T]:
    """Return a task that already waits."""
    task = asyncio.create_task(as_coroutine(awaitable))
    await iterate(2)
    assert not task.done()
    return task


def begin_by_hand(operation: Operation[Any]) -> Coroutine[Any, Any, Any]:
    """Return a coroutine that already waits, but belongs to no task: to be resumed by hand."""
    coroutine = as_coroutine(operation)
    coroutine.send(None)
    return coroutine


async def result_of(task: asyncio.Task[Any]) -> Any:
    """Wait for a task; return its result, or the class of its error."""
    await asyncio.wait([task])
    if task.cancelled():
        return asyncio.CancelledError
    error = task.exception()
    return task.result() if error is None else type(error)


# -- channels ----------------------------------------------------------------------------------------------------


def filled_channel(*items: T) -> Channel[T]:
    """Return a channel with these elements."""
    channel = Channel[T](UNBOUNDED)
    for item in items:
        assert channel.try_send(item)
    return channel


def drain(channel: Channel[T]) -> list[T]:
    """Receive everything that can be received without waiting."""
    nothing = object()
    found: list[Any] = []
    with suppress(ChannelClosedError):
        while (item := channel.try_receive(nothing)) is not nothing:
            found.append(item)
    return found


def check_counters(*channels: Channel[Any]) -> None:
    """Check what must hold for the counters of a channel at every moment."""
    for channel in channels:
        stats = channel.statistics()
        assert stats.sent == stats.received + stats.conflated + stats.buffered, stats
        assert stats.peak >= stats.buffered, stats
        if stats.receivers:
            assert stats.buffered == 0, f"a receiver waits though there are elements: {stats}"
            assert not stats.closed, f"a receiver waits on a closed channel: {stats}"
        if stats.senders:
            assert not stats.closed, f"a sender waits on a closed channel: {stats}"
            assert isinstance(stats.capacity, int), f"a sender waits though there is no limit: {stats}"
            assert stats.buffered >= stats.capacity, f"a sender waits though there is room: {stats}"
        if stats.capacity is CONFLATED:
            assert stats.buffered <= 1, stats


# -- tokens and timers -------------------------------------------------------------------------------------------


class CountingListener:
    """A listener that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def on_cancelled(self) -> None:
        self.calls += 1


def listener_count(token: CancelToken) -> int:
    """Return how many listeners a token has, including children that have listeners."""
    return len(token.listeners)


def is_linked_correctly(*tokens: CancelNode) -> bool:
    """Whether each token is registered with its parent exactly while it has listeners."""
    return all(
        token.parent is None or (token in token.parent.listeners) == bool(token.listeners) for token in tokens
    )


def is_cancelled(token: CancelToken) -> bool:
    """Whether a token is cancelled. A function, because type checkers assume that the property does not change."""
    return token.cancelled


def has_timers(loop: Loop) -> bool:
    """Whether there are timers on a loop's wheel, the runtime's own included."""
    return loop.kernel.timers.next_wakeup() != -1  # it is in no statistics


def pending_timers() -> int:
    """Return how many timers are pending on any wheel."""

    def count() -> int:
        return sum(isinstance(thing, Timer) and thing.pending for thing in gc.get_objects())

    if count():
        # They may belong to a loop that another test has dropped.
        gc.collect()
    return count()


@contextmanager
def captured_log() -> Generator[list[str]]:
    """Collect what `bandstand.scope` logs, instead of printing it."""
    logger = logging.getLogger("bandstand.scope")
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]  # a fake
    logger.addHandler(handler)
    before, logger.propagate = logger.propagate, False
    try:
        yield lines
    finally:
        logger.propagate = before
        logger.removeHandler(handler)


# -- channel actors ----------------------------------------------------------------------------------------------


class OutcomeRecorder:
    """An `on_done` callback that records the outcomes of one actor."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def __call__(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    @property
    def ended_by(self) -> EndedBy:
        """What ended it. There must be exactly one outcome."""
        (outcome,) = self.outcomes
        return outcome.ended_by


class SlowFunction(Generic[T]):
    """An async function of elements that waits for `gate`, and records what began, ended and was cancelled."""

    def __init__(self, verdict: Verdict | None = None) -> None:
        self.verdict = verdict
        self.begun: list[T] = []
        self.ended: list[T] = []
        self.cancelled: list[T] = []
        self.gate = asyncio.Event()

    async def __call__(self, item: T) -> Verdict | None:
        self.begun.append(item)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(item)
            raise
        self.ended.append(item)
        return self.verdict


# -- scopes ------------------------------------------------------------------------------------------------------


class Boom(Exception):  # noqa: N818 -- short in every repr
    """The error that children raise."""


def idle(ctx: Context[Any], data: object) -> None:
    """Do nothing: the behavior of an actor."""


async def hang(log: list[str] | None = None, name: str = "child") -> None:
    """Wait for ever, and log the end."""
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        if log is not None:
            log.append(f"{name} ended")


async def fail_soon(*arguments: object) -> None:
    """Fail in the second step."""
    await asyncio.sleep(0)
    raise Boom(*arguments)


async def fail_at_cleanup(*arguments: object) -> None:
    """Fail when it is cancelled."""
    try:
        await hang()
    finally:
        raise Boom(*arguments)


async def cancel_soon(scope: Scope) -> None:
    """Cancel the scope in the second step, and wait for its children."""
    await asyncio.sleep(0)
    await scope.cancel("enough")


async def ignore_cancellation(release: asyncio.Event) -> str:
    """Ignore every cancellation until it is released; after a long virtual time it is, so that a failing test ends."""
    asyncio.get_running_loop().call_later(1_000_000, release.set)
    while not release.is_set():
        with suppress(asyncio.CancelledError):
            await release.wait()
    return "released"


@asynccontextmanager
async def open_group(library: str) -> AsyncGenerator[Callable[[Coroutine[Any, Any, None]], object]]:
    """Open a task group of asyncio or anyio, and give what starts a task in it."""
    if library == "asyncio":
        async with asyncio.TaskGroup() as group:
            yield group.create_task
    else:
        async with anyio.create_task_group() as tasks:
            yield lambda work: tasks.start_soon(lambda: work)


both_libraries = pytest.mark.parametrize("library", ["asyncio", "anyio"])


def is_closed(coroutine: Any) -> bool:
    """Whether a coroutine was closed, so that Python does not warn that it was never awaited."""
    return coroutine.cr_frame is None


def is_over(scope: Scope) -> bool:
    """Whether a scope has ended, and has no children."""
    return scope.children == () and scope.token.cancelled


@contextmanager
def raises_errors(*errors: BaseException) -> Generator[None]:
    """Check that the block raises an `ExceptionGroup` of exactly these errors, in any order and depth."""
    with pytest.raises(ExceptionGroup) as caught:
        yield
    assert errors_of(caught) == sorted(map(repr, errors))


def errors_of(caught: pytest.ExceptionInfo[BaseExceptionGroup[Any]]) -> list[str]:
    """Return the errors in a group, flat and sorted."""
    return sorted(repr(error) for error in flatten(caught.value))


def flatten(error: BaseException) -> list[BaseException]:
    """Return all errors in a group of groups."""
    ones: tuple[BaseException, ...] | None = getattr(error, "exceptions", None)
    if ones is not None:
        return [leaf for one in ones for leaf in flatten(one)]
    return [error]
