"""An asyncio event loop in virtual time.

asyncio has one place where time passes: the selector's wait. This loop's selector does not wait for time. It looks
whether a descriptor is ready, and if not, moves the clock to where the wait would have ended. What is really outside
(a socket's peer, a thread) is given no virtual time: with nothing scheduled the selector waits for it as usual.

asyncio reckons in seconds as floats, the clock in whole nanoseconds. A float is blurred: by a tenth of a nanosecond
after an hour, by sixty after ten years. So a jump lands on the whole microsecond if that lies within the blur:
`asyncio.sleep(0.1)` takes 100 ms to the nanosecond, and the wheel, which rounds up to milliseconds, is not led astray.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from contextvars import Context
from math import ceil, inf, ulp
from typing import Any, Protocol, TypeVar, TypeVarTuple, final

__all__ = ("VirtualEventLoop",)

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

# How long a look at the outside world takes while an executor is working, in real seconds.
LOOK = 0.02


class Time(Protocol):
    """What the event loop asks of its clock."""

    def now_ns(self) -> int: ...

    def jump(self, ns: int) -> bool: ...


@final
class JumpingSelector(selectors.DefaultSelector):
    """A selector that moves the clock instead of waiting for time to pass."""

    def __init__(self, leap: Callable[[float], bool]) -> None:
        super().__init__()
        self._leap = leap

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if ready or self._leap(timeout):
            return ready
        # Somebody outside is waited for: a thread that works for us, or one that moves the clock by hand.
        return super().select(min(timeout, LOOK))


@final
class VirtualEventLoop(asyncio.SelectorEventLoop):
    """asyncio's own event loop, but for the time. `VirtualClock.new_event_loop` makes one.

    Attributes:
        clock: whose time it keeps.
        virtual_time: True; real event loops have no such attribute.
    """

    virtual_time = True

    def __init__(self, clock: Time) -> None:
        self.clock = clock
        self._origin = clock.now_ns()
        self._working = 0
        super().__init__(JumpingSelector(self._leap))

    def time(self) -> float:
        """The virtual time, in seconds."""
        return self.clock.now_ns() / 1e9

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule a callback. One for the end of all days is not scheduled at all, lest time jumps there."""
        if when == inf:
            return asyncio.TimerHandle(when, callback, args, self, context)
        return super().call_at(when, callback, *args, context=context)

    def run_in_executor(
        self, executor: Any, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> asyncio.Future[Result]:
        """Run `func` in a thread or process, and let no virtual time pass until it is done."""
        future = super().run_in_executor(executor, func, *args)
        self._working += 1
        future.add_done_callback(self._worked)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109  # asyncio's own signature
        """Wait until the executor's threads have ended. Threads live in real time: no virtual timeout ends it."""
        self._working += 1
        try:
            await super().shutdown_default_executor()
        finally:
            self._working -= 1

    def _worked(self, _future: asyncio.Future[Any]) -> None:
        self._working -= 1

    def _leap(self, seconds: float) -> bool:
        """Move the clock to where a wait would have ended; False if time must not pass."""
        if self._working > 0:
            return False
        now = self.clock.now_ns()
        blur = 2 * ulp(now / 1e9 + seconds)
        # asyncio's name for the span that counts as now.
        self._clock_resolution = max(1e-9, blur)
        ns = ceil(seconds * 1e9)
        # The text above says why.
        excess = (now + ns - self._origin + 500) % 1000 - 500
        if abs(excess) <= 1 + blur * 1e9:
            ns -= excess
        return self.clock.jump(max(1, ns))
