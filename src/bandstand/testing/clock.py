"""Time that passes only when told to, or when there is nothing to do but wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, final

from bandstand.errors import InvalidArgument
from bandstand.testing.virtual_time import VirtualEventLoop

__all__ = ("VirtualClock",)

Result = TypeVar("Result")

# 146 years: what a loop accepts as a reading.
END_OF_TIME = 1 << 62


@final
class VirtualClock:
    """A clock for `Loop(clock=...)`, stepped by hand or jumping to the next deadline when the loop is idle.

    It starts at an odd moment on purpose: code that takes a fresh clock for zero does not pass by luck.

    By hand: `advance(ms)` and `loop.poll_once()`. Jumping: give the loop this clock's event loop as well, with
    `LoopConfig(loop_factory=clock.new_event_loop)`, or run a coroutine with `clock.run(main())`: then `asyncio.sleep`,
    `asyncio.timeout` and the wheel share one virtual time. On any other event loop, uvloop's for one, only the wheel's
    timers are virtual: asyncio there reads a clock that nobody can replace.

    Sockets, pipes and other threads are real and live in real time; a jump does not wait for them, except for what
    `asyncio.to_thread` and `run_in_executor` have been given.

    Args:
        start_ns: what it reads at first.
        autojump: whether it jumps by itself; False for a clock that only `advance` moves.

    Raises:
        InvalidArgument: `start_ns` is no int from 0 to 2⁶² - 1.
    """

    __slots__ = ("_is_jumping", "_now")

    def __init__(self, start_ns: int = 1_234_567_890_123, *, autojump: bool = True) -> None:
        if type(start_ns) is not int or not 0 <= start_ns < END_OF_TIME:
            raise InvalidArgument(f"start_ns is {start_ns!r}: pass an int from 0 to 2**62 - 1")
        self._now = start_ns
        self._is_jumping = autojump

    def now_ns(self) -> int:
        """The virtual time, in nanoseconds."""
        return self._now

    def advance(self, ms: float) -> None:
        """Let `ms` milliseconds pass.

        Raises:
            InvalidArgument: `ms` is negative or no number, or leads past the end of time, 146 years from 0.
        """
        is_number = isinstance(ms, (int, float))  # callers without types
        if not is_number or not 0 <= ms < float("inf"):
            raise InvalidArgument(f"ms is {ms!r}: time goes forward only, by a finite number of milliseconds")
        self._move(round(ms * 1_000_000))

    def on_idle(self, wait_ns: int) -> bool:
        """Jump to a loop's next deadline, unless this clock's own event loop runs: that one sees to it itself."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return self.jump(wait_ns)
        is_ours = isinstance(running, VirtualEventLoop) and running.clock is self
        return not is_ours and self.jump(wait_ns)

    def jump(self, ns: int) -> bool:
        """Move on by `ns` nanoseconds if this clock jumps by itself; whether it does. For event loops."""
        if self._is_jumping:
            self._move(ns)
        return self._is_jumping

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Make an event loop that lives in this clock's time, for `loop_factory`."""
        return VirtualEventLoop(self)

    def run(self, main: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in virtual time, as `asyncio.run` does in real time."""
        with asyncio.Runner(loop_factory=self.new_event_loop) as runner:
            return runner.run(main)

    def _move(self, ns: int) -> None:
        if self._now + ns >= END_OF_TIME:
            raise InvalidArgument(f"{ns} ns from {self._now} ns is past the end of virtual time, 2**62 ns")
        self._now += ns

    def __repr__(self) -> str:
        return f"<VirtualClock at {self._now} ns>"
