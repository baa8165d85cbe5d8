"""Time as an argument: what the loop asks of a clock, and the one it uses when none is given."""

from __future__ import annotations

from time import monotonic_ns
from typing import Protocol

__all__ = ("Clock", "IdleClock", "MonotonicClock")


class Clock(Protocol):
    """Where a loop gets its time from. Pass one to `Loop(clock=...)`; `bandstand.testing` has a virtual one."""

    def now_ns(self) -> int:
        """Nanoseconds since some fixed moment. Must never go back."""
        ...


class IdleClock(Clock, Protocol):
    """A clock that wants to know when there is nothing to do but wait: it may move its time instead."""

    def on_idle(self, wait_ns: int) -> bool:
        """Nothing is ready, in flight or watched, and the next deadline is `wait_ns` away.

        Answer True if time has moved: then the loop goes on at once. False, and it waits for real.
        """
        ...


class MonotonicClock:
    """The machine's monotonic clock."""

    now_ns = staticmethod(monotonic_ns)
