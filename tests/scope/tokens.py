"""What the tests of tokens play with: a stage in virtual time, tasks that really wait, and a look at who listens."""

# Who listens, and what is on a wheel, is in no statistics.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from bandstand.core import Loop
from bandstand.errors import ChannelTimeout
from bandstand.scope.cancel import CancelNode, CancelToken
from bandstand.testing import VirtualClock

T = TypeVar("T")


def perform(main: Callable[[], Coroutine[Any, Any, T]], clock: VirtualClock | None = None) -> T:
    """Run a coroutine function on the lane's event loop, with a loop riding on it whose wheel is in virtual time."""
    time = clock or VirtualClock()
    factory = time.new_event_loop
    if os.environ.get("BANDSTAND_TEST_LOOP") == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop

    async def ridden() -> T:
        async with Loop(clock=time):
            return await main()

    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(ridden())


async def turns(number: int = 5) -> None:
    """Let all others have their turn, some times."""
    for _ in range(number):
        await asyncio.sleep(0)


async def pause(ms: float) -> None:
    """Let virtual time pass by the wheel: so it does on every lane."""
    try:
        await CancelToken().wait(timeout_ms=ms)
    except ChannelTimeout:
        return


async def do(what: Awaitable[T]) -> T:
    """Anything to be awaited as a coroutine."""
    return await what


async def waiting(what: Awaitable[T]) -> asyncio.Task[T]:
    """A task that really waits by now."""
    task = asyncio.create_task(do(what))
    await turns(2)
    assert not task.done()
    return task


async def outcome(task: asyncio.Task[Any]) -> Any:
    """What a task has come to: its result, or the class of its error."""
    await asyncio.wait([task])
    if task.cancelled():
        return asyncio.CancelledError
    error = task.exception()
    return task.result() if error is None else type(error)


@contextmanager
def hurried() -> Generator[None]:
    """Threads take turns as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def heard(token: CancelToken) -> int:
    """How many listen to a token, children that are listened to included."""
    return len(token.listeners)


def has_timers(loop: Loop) -> bool:
    """Whether anything is on a loop's wheel, the runtime's own included."""
    return loop._wake_in() != -1


def is_tidy(*tokens: CancelNode) -> bool:
    """Whether each stands with its parent just while somebody listens to it."""
    return all(
        token.parent is None or (token in token.parent.listeners) == bool(token.listeners) for token in tokens
    )


def is_over(token: CancelToken) -> bool:
    """Whether a token is cancelled; the checkers take its own answer for one that does not change."""
    return token.cancelled


class Ear:
    """A listener that counts."""

    def __init__(self) -> None:
        self.told = 0

    def on_cancelled(self) -> None:
        self.told += 1


@contextmanager
def hushed() -> Generator[list[str]]:
    """What the room logs meanwhile, in a list instead of on the screen."""
    logger = logging.getLogger("bandstand.scope")
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]  # a fake
    logger.addHandler(handler)
    before, logger.propagate = logger.propagate, False
    try:
        yield said
    finally:
        logger.propagate = before
        logger.removeHandler(handler)
