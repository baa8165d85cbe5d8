"""Run the body of an async test: in virtual time, with a check of what it leaves behind, and never for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar, final, overload

from bandstand.errors.validation import Seconds, to_seconds
from bandstand.testing.leaks import leaks_of, pending_tasks
from bandstand.testing.virtual_time import VirtualClock

__all__ = ("run_async",)

T = TypeVar("T")
R = TypeVar("R")


@overload
def run_async(
    main: Callable[[], Coroutine[Any, Any, R]],
    context: None = None,
    *,
    clock: VirtualClock | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    timeout: Seconds | None = 60.0,
) -> R: ...


@overload
def run_async(
    main: Callable[[T], Coroutine[Any, Any, R]],
    context: AbstractAsyncContextManager[T, Any],
    *,
    clock: VirtualClock | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    timeout: Seconds | None = 60.0,
) -> R: ...


def run_async(
    main: Callable[..., Coroutine[Any, Any, R]],
    context: AbstractAsyncContextManager[Any, Any] | None = None,
    *,
    clock: VirtualClock | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    timeout: Seconds | None = 60.0,
) -> R:
    """Run the body of a test on a new event loop, and return its result.

        clock = VirtualClock()

        async def main(system: ActorSystem) -> None:
            counter = system.spawn(Counter)
            assert await counter.value() == 0

        run_async(main, ActorSystem(clock=clock), clock=clock)

    After the body, it fails if a task has not ended, or if `context` is a loop that still holds something. It fails at once
    if an exception escapes into the event loop, which would only log it.

    Args:
        main: the body, an `async def` function. It is called with the result of `async with context`, or without arguments.
        context: what to enter around the body, such as an `ActorSystem`, a `Loop` or a `Node`.
        clock: the clock whose event loop runs the body. Pass the clock of the context here too, so that both share one time.
        loop_factory: another event loop, for example `uvloop.new_event_loop`. Its time is real.
        timeout: how long the body may take in real time. None for no limit.

    Raises:
        TimeoutError: the body has not ended in time. A body that blocks the event loop cannot be ended.
        AssertionError: an exception escaped into the event loop, or something is left. An exception of the body goes first.
    """
    from bandstand.core import (
        Loop,
    )  # the plugin imports this module in every test suite, the runtime only where it is used

    clock = VirtualClock() if clock is None else clock
    seconds = None if timeout is None else to_seconds("timeout", timeout, otherwise=", or None")
    watch = _Watch()

    async def watched() -> R:
        with watch.body(seconds):
            if context is None:
                return await main()
            async with context as value:
                return await main(value)

    try:
        with asyncio.Runner(loop_factory=loop_factory or clock.new_event_loop) as runner:
            result = runner.run(watched())
            left = pending_tasks(runner.get_loop())
    except asyncio.CancelledError as error:
        watch.check(error)
        raise
    except BaseException as error:
        for context_of_escape in watch.escaped:
            error.add_note(describe_escape(context_of_escape))
        raise
    watch.check()
    if isinstance(context, Loop):
        left += leaks_of(context)
    if left:
        raise AssertionError(f"the test left something behind: {'; '.join(left)}")
    return result


@final
class _Watch:
    """Cancels the body of a test if it takes too long, or if an exception escapes into its event loop."""

    def __init__(self) -> None:
        self.escaped: list[dict[str, Any]] = []
        self.overdue: str | None = None

    @contextmanager
    def body(self, seconds: float | None) -> Generator[None]:
        """Watch the task that runs the block."""
        host, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def escape(_host: asyncio.AbstractEventLoop, details: dict[str, Any]) -> None:
            self.escaped.append(details)
            task.cancel()

        def expire() -> None:
            self.overdue = f"the test has not ended within {seconds:g} s; {'; '.join(pending_tasks(host))}"
            task.cancel()

        host.set_exception_handler(escape)
        if seconds is None:
            yield
            return
        # A thread, because the time of the event loop may be virtual.
        timer = threading.Timer(seconds, host.call_soon_threadsafe, (expire,))
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def check(self, cause: BaseException | None = None) -> None:
        """Raise what has gone wrong, if something has."""
        for details in self.escaped:
            raise AssertionError(describe_escape(details)) from details.get("exception")
        if self.overdue is not None:
            raise TimeoutError(self.overdue) from cause


def describe_escape(details: dict[str, Any]) -> str:
    """Return a sentence about what an event loop has passed to its exception handler."""
    error = details.get("exception")
    what = details.get("message", "no message") if error is None else f"{type(error).__name__}: {error}"
    return f"an exception escaped into the event loop: {what}"
