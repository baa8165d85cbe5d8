"""Virtual time: a clock that tests control, and an asyncio event loop that runs on it.

asyncio waits in one place only: the selector. The selector of `VirtualEventLoop` does not wait for time to pass. It checks which
file descriptors are ready, and if there are none, moves the clock to the end of the wait. The peer of a socket or a thread
lives in real time: if nothing is scheduled, the selector waits for it as usual.

Work that the event loop has handed to a thread is part of the test, so the clock stands still until it is done. `run_in_executor`, and with
it `asyncio.to_thread`, counts its jobs. anyio has its own worker threads, which FastAPI uses for `def` endpoints and dependencies. Each of
them has a queue that counts unfinished work, and the event loop looks at these queues before it jumps.

asyncio computes in float seconds, the clock in integer nanoseconds. A float is inexact: by a tenth of a nanosecond after an hour,
by sixty after ten years. So a jump is rounded to the microsecond if the difference is within that error. `asyncio.sleep(0.1)`
then takes exactly 100 ms, and the timer wheel, which rounds up to milliseconds, does not fire one tick late.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from math import ceil, inf, ulp
from typing import Any, Final, TypeVar, TypeVarTuple, final

from bandstand.errors import InvalidArgumentError
from bandstand.errors.validation import Seconds, to_ms

__all__ = ("VirtualClock", "VirtualEventLoop")

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

# 146 years: the largest time that a loop accepts.
MAX_TIME_NS: Final = 1 << 62
# How long the selector waits for descriptors at a time while the clock must not jump, in real seconds.
REAL_WAIT_S: Final = 0.02


@final
class VirtualClock:
    """A clock for `Loop(clock=...)` that moves by hand, or jumps to the next deadline when the loop is idle.

    It does not start at zero, so that code which assumes a fresh clock reads zero fails.

    By hand: `advance(seconds)` and `loop.poll_once()`. Jumping: give the loop this clock's event loop as well, with
    `LoopConfig(loop_factory=clock.new_event_loop)`, or run a coroutine with `clock.run(main())`. Then `asyncio.sleep`,
    `asyncio.timeout` and the loop's timers share one virtual time. On any other event loop, such as uvloop, only the
    loop's timers are virtual: the clock of that event loop cannot be replaced.

    Time stands still while work that was passed to `asyncio.to_thread`, `run_in_executor` or `anyio.to_thread` runs in its thread or
    process, so a `def` endpoint or dependency of FastAPI takes no virtual time. Such work must not wait for virtual time to pass,
    for example with `anyio.from_thread.run(anyio.sleep, 1)`: both would wait for ever. Sockets, pipes, and threads that
    a program starts by itself live in real time, and a jump does not wait for them.

    Args:
        start_ns: the initial time.
        autojump: whether the clock jumps by itself; False if only `advance` moves it.

    Raises:
        InvalidArgumentError: `start_ns` is not an int from 0 to 2⁶² - 1.
    """

    __slots__ = ("_autojump", "_now")

    def __init__(self, start_ns: int = 1_234_567_890_123, *, autojump: bool = True) -> None:
        if type(start_ns) is not int or not 0 <= start_ns < MAX_TIME_NS:
            raise InvalidArgumentError(f"start_ns is {start_ns!r}: pass an int from 0 to 2**62 - 1")
        self._now = start_ns
        self._autojump = autojump

    def now_ns(self) -> int:
        """Return the virtual time in nanoseconds."""
        return self._now

    def advance(self, seconds: Seconds) -> None:
        """Move the clock forward by this many seconds, or by a `timedelta`. Precise to the nanosecond.

        Raises:
            InvalidArgumentError: it is not a duration, or the time would exceed the maximum, 146 years.
        """
        ms = to_ms("seconds", seconds, most=MAX_TIME_NS // 1_000_000)
        # Apart, because a float has no room for a hundred years in nanoseconds.
        whole = int(ms)
        self._move(whole * 1_000_000 + round((ms - whole) * 1_000_000))

    def on_idle(self, wait_ns: int) -> bool:
        """Jump to the next deadline of an idle loop and return True, if this clock jumps by itself.

        If this clock's own event loop is running, return False: the event loop makes the jump.
        """
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return self.jump(wait_ns)
        is_own = isinstance(running, VirtualEventLoop) and running.clock is self
        return not is_own and self.jump(wait_ns)

    def jump(self, ns: int) -> bool:
        """Move the clock by `ns` nanoseconds if it jumps by itself; return whether it does. For event loops."""
        if self._autojump:
            self._move(ns)
        return self._autojump

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Create an event loop that runs on this clock, for `loop_factory`."""
        return VirtualEventLoop(self)

    def run(self, main: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in virtual time; the counterpart of `asyncio.run`."""
        with asyncio.Runner(loop_factory=self.new_event_loop) as runner:
            return runner.run(main)

    def _move(self, ns: int) -> None:
        if self._now + ns >= MAX_TIME_NS:
            raise InvalidArgumentError(
                f"{ns} ns from {self._now} ns is past the end of virtual time, 2**62 ns"
            )
        self._now += ns

    def __repr__(self) -> str:
        return f"<VirtualClock at {self._now} ns>"


@final
class VirtualEventLoop(asyncio.SelectorEventLoop):
    """asyncio's own event loop in virtual time. `VirtualClock.new_event_loop` creates one.

    Attributes:
        clock: the clock that it runs on.
        virtual_time: True; real event loops have no such attribute.
        thread_checks: one function for each thread that works for the event loop on its own: it returns whether the thread is busy. Time stands still
            while one of them is.
    """

    virtual_time = True

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._origin = clock.now_ns()
        self._executor_jobs = 0
        self.thread_checks: list[Callable[[], bool]] = []
        super().__init__(_JumpingSelector(self._jump))

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self.clock.now_ns() / 1e9

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule a callback. One at infinity is never scheduled, so that the clock does not jump there."""
        if when == inf:
            return asyncio.TimerHandle(when, callback, args, self, context)
        return super().call_at(when, callback, *args, context=context)

    def run_in_executor(
        self, executor: Any, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> asyncio.Future[Result]:
        """Run `func` in a thread or process. Virtual time stands still until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._executor_jobs += 1
        future.add_done_callback(self._executor_job_done)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002  # asyncio's signature
        """Wait until the executor's threads have ended. They live in real time, so the timeout is ignored."""
        self._executor_jobs += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._executor_jobs -= 1

    def _executor_job_done(self, _future: asyncio.Future[Any]) -> None:
        self._executor_jobs -= 1

    def _has_busy_anyio_worker(self) -> bool:
        """Return whether a worker thread of anyio has work of this event loop that is not finished."""
        if "anyio" not in sys.modules:
            return False
        for thread in threading.enumerate():
            # Its class is private, so this relies on attributes: a thread without them is not a worker.
            if type(thread).__module__.startswith("anyio.") and getattr(thread, "loop", None) is self:
                queue = getattr(thread, "queue", None)
                if getattr(queue, "unfinished_tasks", 0) > 0:
                    return True
        return False

    def _jump(self, seconds: float) -> bool:
        """Move the clock to the end of a wait; return False if time must stand still."""
        if (
            self._executor_jobs > 0
            or self._has_busy_anyio_worker()
            or any(is_busy() for is_busy in self.thread_checks)
        ):
            return False
        now = self.clock.now_ns()
        error = 2 * ulp(now / 1e9 + seconds)
        # asyncio runs timers that are due within this span.
        self._clock_resolution = max(1e-9, error)
        ns = ceil(seconds * 1e9)
        # Round to the microsecond; the module docstring says why.
        excess = (now + ns - self._origin + 500) % 1000 - 500
        if abs(excess) <= 1 + error * 1e9:
            ns -= excess
        return self.clock.jump(max(1, ns))


@final
class _JumpingSelector(selectors.DefaultSelector):
    """A selector that moves the clock instead of waiting for time to pass."""

    def __init__(self, jump: Callable[[float], bool]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if ready or self._jump(timeout):
            return ready
        # Time stands still: wait for an executor job, or for another thread that advances the clock.
        return super().select(min(timeout, REAL_WAIT_S))
