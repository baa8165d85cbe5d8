"""Time that passes only when told to, or when there is nothing to do but wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, final

from bandstand.errors import InvalidArgument
from bandstand.testing.eventloop import VirtualEventLoop

__all__ = ("VirtualClock",)

Result = TypeVar("Result")


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
    """

    __slots__ = ("_has_event_loop", "_is_jumping", "_now")

    def __init__(self, start_ns: int = 1_234_567_890_123, *, autojump: bool = True) -> None:
        self._now = start_ns
        self._is_jumping = autojump
        self._has_event_loop = False

    def now_ns(self) -> int:
        """The virtual time, in nanoseconds."""
        return self._now

    def advance(self, ms: float) -> None:
        """Let `ms` milliseconds pass.

        Raises:
            InvalidArgument: `ms` is negative or no number. Time does not go back.
        """
        if not 0 <= ms < float("inf"):
            raise InvalidArgument(f"ms is {ms!r}: time goes forward only, by a finite number of milliseconds")
        self._now += round(ms * 1_000_000)

    def on_idle(self, wait_ns: int) -> bool:
        """Jump to the next deadline, if this clock jumps and no event loop of its own will do it."""
        if not self._is_jumping or self._has_event_loop:
            return False
        self._now += wait_ns
        return True

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Make an event loop that lives in this clock's time, for `loop_factory`."""
        self._has_event_loop = True
        return VirtualEventLoop(self.now_ns, self._jump)

    def run(self, main: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in virtual time, as `asyncio.run` does in real time."""
        with asyncio.Runner(loop_factory=self.new_event_loop) as runner:
            return runner.run(main)

    def _jump(self, ns: int) -> bool:
        if self._is_jumping:
            self._now += ns
        return self._is_jumping

    def __repr__(self) -> str:
        return f"<VirtualClock at {self._now} ns>"
